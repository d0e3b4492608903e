"""A model card: what a model is, what it learned from, how, and how well it does."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tfm_lib.data.published import PretrainedVocabulary
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import State
from tfm_lib.model import Transformer

COURSE = "the course `tfm_lib`"  # by this a folder is known to be one that `export` wrote
CARD = """---
library_name: transformers
tags: [summarization, encoder-decoder]
---

# {name}

An encoder-decoder Transformer of {parameters:,} parameters that writes a summary of a text: {c.num_encoder_layers} + \
{c.num_decoder_layers} layers of width {c.d_model} with {c.num_heads} heads, {c.vocab_size:,} tokens. It reads \
{c.max_length} tokens of a text at most{origin} with `make train` of {course}."""
SCRATCH = ", in lower case, and was trained from scratch"
TUNED = ". It is a published model that was fine-tuned"
FACTS = "writes false facts with the same ease as true ones."
USE = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "{folder}"
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
texts = tokenizer(["A text to summarize."], return_tensors="pt", padding=True, truncation=True)
written = model.generate(texts.input_ids, attention_mask=texts.attention_mask)
print(tokenizer.batch_decode(written, skip_special_tokens=True))
```"""


def card(
    name: str,
    folder: str,
    model: Transformer,
    vocabulary: Vocabulary,
    state: State | None,
    scores: Mapping[str, Any],
    remark: str = "",
) -> str:
    """The card of a run, in Markdown. scores: what the run left as scores.json; state: its recipe and history.

    vocabulary: by that of a published model the card knows that the run fine-tuned one.
    """
    from tfm_lib.writing.scoring import LABELS  # here, since it loads nltk and scipy, which writing does not need

    parameters = sum(parameter.numel() for parameter in model.parameters())
    tuned = isinstance(vocabulary, PretrainedVocabulary)
    origin = TUNED if tuned else SCRATCH
    parts = [CARD.format(name=name, parameters=parameters, c=model.config, course=COURSE, origin=origin)]
    parts += filter(None, (remark, *scores.get("remarks", ())))
    parts += ["## How to use it", USE.format(folder=folder)]
    if state is not None:
        recipe = ", ".join(f"{key} {value}" for key, value in asdict(state.recipe).items())
        parts += ["## What it learned from, and how"]
        parts += [
            f"{len(state.history.step):,} steps, {sum(state.history.tokens):,} tokens of article and summary. "
            f"Recipe: {recipe}. Dropout {model.config.dropout:g}."
        ]
    for of, tested in scores.items():
        if isinstance(tested, Mapping):
            rows = tested["scores"]
            measures = [measure for measure in LABELS if measure in rows["model"]]
            table = [["", *(LABELS[measure] for measure in measures)], ["---"] * (1 + len(measures))]
            table += [[row, *(f"{100 * result[measure]:.1f}" for measure in measures)] for row, result in rows.items()]
            parts += [f"## The {of}: {tested['pairs']:,} pair{'s' * (tested['pairs'] != 1)}, in percent"]
            parts += ["\n".join(f"| {' | '.join(cells)} |" for cells in table)]
    parts += [f"It {FACTS}" if tuned else f"It has read nothing but its training pairs, and {FACTS}"]
    return "\n\n".join(parts)
