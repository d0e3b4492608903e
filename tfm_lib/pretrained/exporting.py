"""Our model in the library that everybody uses: a folder that transformers opens, with a card that says what it is."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from tfm_lib.data.published import PretrainedVocabulary, SentencePieceVocabulary, TokenizerVocabulary
from tfm_lib.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from tfm_lib.errors import CourseError, option
from tfm_lib.files import write_whole
from tfm_lib.learning.checkpoints import State
from tfm_lib.model import Transformer
from tfm_lib.pretrained.generation import Generation
from tfm_lib.pretrained.names import SHARED, TABLES, halves, reordered, their_config, theirs
from tfm_lib.writing.copying import CopyingTransformer

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


def export(
    model: Transformer,
    vocabulary: Vocabulary,
    folder: str | Path,
    *,
    generation: Generation | None = None,
    card: str = "",
) -> Path:
    """Write a folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` of transformers open; returns it.

    What comes out is BART, Marian or Pegasus, whichever our configuration is. Sinusoids that interleave are brought
    into halves by one permutation of the residual stream (`names.halves`), which changes no output.
    generation: how it is to write, greedily unless given; card: the README.md that lies beside it.
    Raises ValueError for a model that transformers has no class for, as one that copies, and where the folder holds
    something else.
    """
    if isinstance(model, CopyingTransformer):
        raise CourseError(
            f"transformers has no model that copies: train one without, by {option('copy', 0)}, or export this one "
            f"without its head, by {option('head', 0)}"
        )
    config, folder = their_config(model.config), Path(folder)
    generation = generation or Generation(max_new_tokens=model.config.max_length - 1)
    ids = {name: config[name] for name in ("pad_token_id", "eos_token_id", "bos_token_id", "decoder_start_token_id")}
    files = {
        "config.json": _json(config),
        "generation_config.json": _json(ids | generation.theirs()),
        **_tokenizer(vocabulary, model.config.max_length),
        "README.md": f"{card}\n".encode(),
        "model.safetensors": to_safetensors(_weights(model), {"format": "pt"}),
    }
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"{folder} is a file; give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not _exported(folder):
        raise CourseError(f"{folder} holds other files; give a new folder, by {option('out', 'FOLDER')}")
    for name, content in files.items():
        write_whole(folder / name, content)
    return folder


def _weights(model: Transformer) -> dict[str, Tensor]:
    """The model's weights by their names in transformers, the table that they share once."""
    weights = {name: weight.detach().cpu() for name, weight in model.state_dict().items()}
    if model.config.positions == "sinusoidal" and model.config.interleaved:
        weights = reordered(weights, halves(model.config.d_model))
    named = {theirs(name): weight.contiguous() for name, weight in weights.items()}
    bias = named.get("final_logits_bias", torch.zeros(model.config.vocab_size))
    shared = {SHARED: named["lm_head.weight"], "final_logits_bias": bias[None]}
    return {name: weight for name, weight in named.items() if name not in TABLES} | shared


def _exported(folder: Path) -> bool:
    """Whether what lies there was written by `export`, which may replace it."""
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "other files alone"
    return COURSE in text or not text.strip()


def without_head(model: CopyingTransformer, vocabulary: Vocabulary) -> tuple[Transformer, Vocabulary]:
    """What is left of a copying model that may not copy: the same Transformer, and its vocabulary without slots."""
    plain = Transformer(model.config)
    plain.load_state_dict({name: w for name, w in model.state_dict().items() if not name.startswith("pointer.")})
    return plain.eval(), vocabulary.without_slots()


def _json(content: dict[str, Any]) -> bytes:
    return f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode()


def _tokenizer(vocabulary: Vocabulary, longest: int) -> dict[str, bytes]:
    """The files from which `AutoTokenizer` makes what cuts text as the vocabulary does."""
    settings: dict[str, Any] = {"model_max_length": longest, "clean_up_tokenization_spaces": False}
    if isinstance(vocabulary, SentencePieceVocabulary):
        kind = "MarianTokenizer" if vocabulary.two_sided else "PegasusTokenizer"
        return vocabulary.files() | {"tokenizer_config.json": _json(settings | {"tokenizer_class": kind})}
    content = json.loads(vocabulary.to_json())
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
    settings["split_special_tokens"] = True  # "[eos]" in a text is text
    if isinstance(vocabulary, TokenizerVocabulary):
        content = content["tokenizer"]
        names = {"pad_token": vocabulary.pad_id, "bos_token": vocabulary.start_id, "eos_token": vocabulary.eos_id}
        tokens = {added["id"]: added["content"] for added in content["added_tokens"]}
        settings |= {name: tokens[i] for name, i in names.items() if i in tokens}
    else:
        special = content.pop("special_tokens")[: len(SPECIAL_TOKENS)]
        settings |= dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}  # as `Vocabulary.encode` does
        content["normalizer"] = {"type": "Sequence", "normalizers": [strip, content["normalizer"]]}
        if content["decoder"]["type"] == "ByteLevel":  # its texts begin with a space, which `Vocabulary.decode` strips
            first_space = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
            content["decoder"] = {"type": "Sequence", "decoders": [content["decoder"], first_space]}
    return {"tokenizer.json": _json(content), "tokenizer_config.json": _json(settings)}


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
