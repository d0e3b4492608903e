"""What the newsroom's model has learned after so many steps of its training: a control of lesson 07 shows it.

    OMP_NUM_THREADS=1 python -m benchmarks.training_on_toy_summaries.newsroom_steps

It trains as `make train TASK=newsroom` does, looks at the model after STEPS, and writes newsroom_steps.json.
"""

import re
from collections.abc import Sequence
from statistics import fmean

import torch

from benchmarks.turns import machine, write_record
from tfm_lib.commands.tasks import newsroom
from tfm_lib.data.newsroom import EVENTS, Story, words
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.training import endless_batches, make_optimizer, set_seed, train_step
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.decoding import evaluating, greedy, summarize
from tfm_lib.writing.scoring import slot_accuracy

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.training_on_toy_summaries.newsroom_steps"
SEED = 0
STEPS = (1, *range(25, 251, 25), 300, 400, 500, 600)
BEST = 5  # next words that are kept
OTHERS = 200  # test stories behind the first one, with which lesson 07 begins: shares are counted on them
FEW = 4  # signs that are kept of a text without a word
AROUND = 10  # steps over which a loss is a mean


def form_of(summary: str) -> str | None:
    """The kind of event in whose form a text is written, whatever stands in its slots; None where it has no form."""
    text = " ".join(words(summary))
    forms = {name: re.sub(r"{\w+}", r"\\w+", event.summary).replace(",", "") for name, event in EVENTS.items()}
    return next((name for name, form in forms.items() if re.fullmatch(form, text)), None)


def shares(summaries: Sequence[str], stories: Sequence[Story]) -> dict[str, float]:
    """The share of texts in a form of the house, in that of the right event, and with each slot right."""
    forms = [form_of(summary) for summary in summaries]
    found = {
        "form": fmean(form is not None for form in forms),
        "event": fmean(form == story.event for form, story in zip(forms, stories, strict=True)),
        **slot_accuracy(summaries, stories),
    }
    return {name: round(share, 3) for name, share in found.items()}


def places_of(story: Story) -> dict[str, tuple[str, str]]:
    """Three places of its right summary: the words that stand before, and the right one."""
    first, where, who = story.summary.split()[0], story.slots["where"], story.slots["who"]
    right = {"place": where, "person": who, "first word": first}
    return {name: (story.summary[: story.summary.index(word)].strip(), word) for name, word in right.items()}


@torch.inference_mode()
def next_words(model: Transformer, vocabulary: Vocabulary, article: str, before: str) -> list[tuple[str, float]]:
    """The likeliest words to come next, where these stand before."""
    src = torch.tensor([vocabulary.encode(article)])  # (1, S)
    read = torch.tensor([[model.config.start_id, *vocabulary.encode(before)]])  # (1, T)
    with evaluating(model):
        best = model(src, read)[0, -1].softmax(-1).topk(BEST)
    return [(word, round(p, 4)) for word, p in zip(vocabulary.pieces(best.indices), best.values.tolist(), strict=True)]


def signs(model: Transformer, vocabulary: Vocabulary, article: str, most: int) -> str:
    """The tokens of a text without a word: what it writes there, the end token too, or the first few."""
    pieces = vocabulary.pieces(greedy(model, torch.tensor([vocabulary.encode(article)]), most)[0])
    return " ".join([*pieces[:FEW], *["..."] * (len(pieces) > FEW)])


def measure(steps: Sequence[int] = STEPS, others: int = OTHERS) -> dict:
    """Train as far as the last of `steps`, and look at the model after each of them."""
    task = newsroom(SEED)
    vocabulary, stories = task.vocabulary(), task.test_sets["test set"][1][: 1 + others]
    story, places = stories[0], places_of(stories[0])
    examples = task.encode(task.splits.train, vocabulary)
    asked = task.encode([Pair(one.article, one.summary) for one in stories], vocabulary)
    set_seed(SEED)
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), max_length=task.max_article, **task.start.sizes))
    optimizer, batches = make_optimizer(model), endless_batches(examples, task.recipe, done=0)
    looks: list[dict] = []
    losses: list[float] = []
    model.train()
    for step in range(1, steps[-1] + 1):
        losses.append(train_step(model, next(batches), optimizer, task.recipe, task.recipe.rate(step)))
        if step in steps:
            texts = summarize(model, vocabulary, asked, task.max_summary)
            look = {
                "step": step,
                "loss": round(fmean(losses[-AROUND:]), 3),
                "text": texts[0] or signs(model, vocabulary, story.article, task.max_summary),
                "right": shares(texts[1:], stories[1:]),
                "next": {
                    name: next_words(model, vocabulary, story.article, before) for name, (before, _) in places.items()
                },
            }
            print(*look.values(), flush=True)
            looks.append(look)
    ends = [min(len(losses), start + AROUND) for start in range(0, len(losses), AROUND)]
    return {
        "command": COMMAND,
        "seed": SEED,
        "machine": machine("torch"),
        "steps": task.recipe.steps,
        "story": {"article": story.article, "summary": story.summary, "slots": story.slots},
        "places": places,
        "others": others,
        "curve": {"step": ends, "loss": [round(fmean(losses[max(0, end - AROUND) : end]), 3) for end in ends]},
        "looks": looks,
    }


def main() -> None:
    torch.set_num_threads(1)
    write_record(__file__, measure(), "step")


if __name__ == "__main__":
    main()
