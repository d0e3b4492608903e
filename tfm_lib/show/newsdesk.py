"""The newsroom's desk: stories for its controls, what they say of names, and words set in lines for their pictures."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from torch import Tensor

from tfm_lib.data import newsroom
from tfm_lib.data.batches import shifted
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import percent, sentence
from tfm_lib.show.figure import COLORS, MEANING, QUIET, Figure
from tfm_lib.writing.decoding import evaluating, greedy
from tfm_lib.writing.tracing import record_attention

KINDS = {
    "who": [*newsroom.PEOPLE, *newsroom.UNSEEN_PEOPLE],
    "where": [*newsroom.PLACES, *newsroom.UNSEEN_PLACES],
    "when": newsroom.DAYS,
    "how many": list(newsroom.NUMBERS.values()),
}
DIGITS = {word: str(number) for number, word in newsroom.NUMBERS.items()}
WIDTH, MARGINS = 7.2, 0.12  # inches of a line, and that a figure keeps above and below its axes
CHOSEN = {"facecolor": MEANING["chosen"].fill, "edgecolor": COLORS[0], "linewidth": 1.6}  # the look of a word

Text = tuple[str, Sequence[str], Sequence[dict[str, Any]]]  # a title, words and a look for each word


@cache
def ready_stories(strangers: bool = False) -> dict[str, str]:
    """A story for each kind of event, of the test set, or of that of strangers: {"fire": "On Wednesday ...", ...}.

    In each the first person, place, day and number are its own, so that a menu that turns them turns the summary.
    """
    drawn = newsroom.make_newsroom(0)
    stories = drawn.unseen_names if strangers else drawn.test
    found: dict[str, str] = {}
    for story in stories:
        matches = [re.search(rf"\b(?:{'|'.join(names)})\b", story.article, re.IGNORECASE) for names in KINDS.values()]
        last_words = [match[0].lower().split()[-1] for match in matches if match]
        if {DIGITS.get(word, word) for word in last_words} == {*story.slots.values()} - {story.slots["what"]}:
            found.setdefault(story.event, story.article)
    return {event: found[event] for event in newsroom.EVENTS}


def desk_data(longest: int, story: str = "", strangers: bool = False) -> dict[str, Any]:
    """What `storyDesk` in js/desk.js needs. It begins with `story`, or else with the first ready one."""
    ready = {"the lesson's": story} | ready_stories() if story else ready_stories(strangers)
    kinds = [{"name": name, "words": words} for name, words in KINDS.items()]
    return {"stories": ready, "story": next(iter(ready.values())), "kinds": kinds, "digits": DIGITS, "longest": longest}


def read_story(model: Transformer, vocabulary: Vocabulary, story: str, slots: Sequence[str] = ()) -> Tensor:
    """The ids (1, S) of a story, beside the model. Raises ValueError where the model cannot read it."""
    ids, longest = vocabulary.encode(story, slots), model.config.max_length
    if not 1 <= len(ids) <= longest:
        raise ValueError(f"story has {len(ids)} tokens; the model reads 1 to {longest}: pass another text")
    return torch.tensor([ids], device=next(model.parameters()).device)


@torch.inference_mode()
def greedy_with_attention(model: Transformer, src: Tensor, most: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """What greedy decoding writes of src (1, S), at most so many tokens (1, T), with its logits (T, V) and attention.

    The attention weights have their names in `record_attention`; "cross" are those of the last layer, (H, T, S).
    """
    with evaluating(model):
        tokens = greedy(model, src, most)
        with record_attention(model) as maps:
            logits = model(src, shifted(tokens, model.config.start_id))[0]
    last = f"decoder.layers.{model.config.num_decoder_layers - 1}.cross_attention"
    return tokens, logits, {**maps, "cross": maps[last][0]}


def story_tokens(text: str) -> list[str]:
    """The words and marks of a text as they stand there, one a token of a vocabulary of words."""
    return re.findall(r"[\[\].,!?;:]|[^\s\[\].,!?;:]+", text)


def token_texts(vocabulary: Vocabulary, ids: Sequence[int], words: Sequence[str]) -> list[str]:
    """The text of each id by itself, special tokens too; a slot reads as one of `words`."""
    return [vocabulary.decode([i], words) or vocabulary.pieces([i])[0] for i in ids]


def fabrications(story: str, summary: Sequence[str]) -> str:
    """A sentence on the names, days and numbers of a summary that are not in its story; empty where all are."""
    words = story_tokens(story.lower())
    in_story = {*words, *(DIGITS.get(word) for word in words)}
    names = story_tokens(" ".join(name for names in KINDS.values() for name in names).lower())
    invented = [word for word in dict.fromkeys(summary) if word in {*names, *DIGITS.values()} - in_story]
    return sentence("not in story", quoted_list(invented)) if invented else ""


def quoted_list(words: Sequence[str]) -> str:
    """Words in quotes, with commas."""
    return ", ".join(f"“{word}”" for word in words)


def set_texts(figure: Figure, *texts: Text, room: float = 0) -> tuple[Axes, float]:
    """Texts under one another, with so many inches of room under them.

    Returns the axes, which count in inches, x from 0 to WIDTH, y from 0 down, and y under the last text.
    """
    axes, bottom = figure.subplots(), 0.0
    for title, words, looks in texts:
        bottom = _set_words(axes, title, words, looks, bottom)
    axes.set(xlim=(0, WIDTH), ylim=(bottom - room, 0), aspect="equal")
    axes.axis("off")
    figure.set_size_inches(figure.get_figwidth(), MARGINS - bottom + room)
    return axes, bottom


def set_choices(figure: Figure, title: str, names: Sequence[str], probs: Sequence[float], *texts: Text) -> None:
    """Texts as in `set_texts`, and under them the words that may come next, with a bar for the probability of each."""
    axes, below = set_texts(figure, *texts, room=0.49 + 0.26 * (len(names) - 1))
    axes.text(1.5, below - 0.1, title, size=8, color=QUIET, va="center")
    rows = [below - 0.34 - 0.26 * row for row in range(len(names))]
    axes.barh(rows, [4.8 * p for p in probs], height=0.19, left=1.5, color=COLORS[0])
    for y, name, p in zip(rows, names, probs, strict=True):
        axes.text(1.42, y, name, ha="right", va="center", parse_math=False)
        axes.text(1.56 + 4.8 * p, y, percent(p), va="center", size=8)


def _set_words(axes: Axes, title: str, words: Sequence[str], looks: Sequence[dict[str, Any]], top: float) -> float:
    """A title and under it words in lines, each in a box of its look, from `top` down; where the next may stand."""
    axes.text(0.06, top - 0.1, title, size=8, color=QUIET, va="center")
    renderer = RendererAgg(1, 1, axes.figure.dpi)
    x, y = 0.1, top - 0.36
    for word, look in zip(words, looks, strict=True):
        short = word if len(word) <= 14 else f"{word[:13]}…"
        text = axes.text(x, y, short, size=9, va="baseline", parse_math=False)
        width = text.get_window_extent(renderer).width / axes.figure.dpi
        if x + width > WIDTH - 0.1:
            x, y = 0.1, y - 0.27
            text.set_position((x, y))
        text.set_bbox({"boxstyle": "round,pad=0.2", "facecolor": "none", "edgecolor": "none"} | look)
        x += width + 0.13
    return y - 0.18
