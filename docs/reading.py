"""What the shipped model does with a story, and how the README's pictures say it in words."""

import math
import re
from typing import NamedTuple

import torch
from torch import Tensor

from tfm_lib.data.newsroom import read_slots
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.control import percent
from tfm_lib.show.summarizer_controls import CHOICES, MOST_TOKENS
from tfm_lib.writing.decoding import evaluating, greedy
from tfm_lib.writing.tracing import record_attention

# Event and text of two stories of the test set. The first is told in a way that no story of the training set was.
PICTURED = (
    "adoption",
    "On Wednesday everything still seemed calm. A truck came for fifty hungry ponies in Hanoi on Thursday. Farmer "
    "Nadia Rahimi will look after them in a warm barn.",
)
ANIMATED = (
    "opening",
    "Kofi Mensah could not believe the news at first. Builder Julia Rossi welcomed the first guests to four new "
    "cinemas on Thursday. People in Ottawa had waited for them for years.",
)


class Reading(NamedTuple):
    """A story, its summary, and what the model did for each token of it."""

    text: str
    story: list[str]  # its tokens, as they stand in the text
    summary: list[str]  # [eos] is the last
    weights: Tensor  # (T, S), cross-attention of the last layer, the mean of its heads
    best: list[list[tuple[str, float]]]  # the most probable tokens, with their probabilities
    vocabulary: int  # how many tokens it chose from
    slots: dict[int, str]  # which tokens of the summary say who, what, where, when, how many


@torch.inference_mode()
def read(event: str, text: str) -> Reading:
    """Let the shipped model summarize a story of such an event. Raises ValueError for words that it lacks."""
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(text)])  # (1, S)
    story = re.findall(r"\w+|[^\w\s]", text)
    if [word.lower() for word in story] != vocabulary.pieces(src[0]):
        raise ValueError(f"the model lacks {vocabulary.unknown_words(text)}; tell a story of the newsroom's words")
    tokens = greedy(model, src, MOST_TOKENS)  # (1, T)
    before = torch.cat([torch.full_like(tokens[:, :1], model.config.start_id), tokens[:, :-1]], dim=1)
    with evaluating(model), record_attention(model) as maps:
        best = model(src, before).softmax(-1)[0].topk(CHOICES)  # (T, CHOICES)
    weights = maps[f"decoder.layers.{model.config.num_decoder_layers - 1}.cross_attention"][0].mean(0)
    summary = vocabulary.pieces(tokens[0])
    slots = read_slots(" ".join(summary[:-1]), event)
    return Reading(
        text,
        story,
        summary,
        weights,
        [list(zip(vocabulary.pieces(ids), p.tolist(), strict=True)) for p, ids in zip(*best, strict=True)],
        len(vocabulary),
        {summary.index(word): slot for slot, word in slots.items() if word in summary},
    )


def probability(reading: Reading) -> float:
    """That of the whole summary: the product over its tokens."""
    return math.prod(best[0][1] for best in reading.best)


def picture_words(reading: Reading) -> str:
    """The alt text of the picture: what was read and written, and which words the thickest lines join."""
    first = reading.weights.argmax(1).tolist()
    joined = ", ".join(f"{reading.summary[token]} to {reading.story[first[token]]}" for token in sorted(reading.slots))
    return (
        f"A story is read by the encoder: “{reading.text}” Below it is the summary that the decoder has written: "
        f"“{' '.join(reading.summary[:-1])}”. Lines of cross-attention lead from each of its words up to where in the "
        f"story the model looked, the thickest ones from {joined}."
    )


def animation_words(reading: Reading) -> str:
    """The alt text of the animation: what it shows, how the model begins, how sure it goes on."""
    begin = ", ".join(f"{word} {percent(p)}" for word, p in reading.best[0])
    least = min(best[0][1] for best in reading.best[1:])
    return (
        f"Another story: “{reading.text}” Word by word its summary is written: “{' '.join(reading.summary[:-1])}”. At "
        f"each step lines show where in the story the model looks, and bars the {CHOICES} most probable next words. "
        f"For the first word they are {begin}. Each word after it has at least {percent(least)}, and the whole summary "
        f"{percent(probability(reading))}."
    )
