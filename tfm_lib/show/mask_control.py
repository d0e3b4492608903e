"""Masks under control: the mask builder of lesson 02, and the prefix of lesson 16, from GPT to BERT."""

import numpy as np
import torch
from torch import Tensor

from tfm_lib.masks import causal_mask, length_mask, masked_softmax
from tfm_lib.show.cells import draw_cells, mark_pairs
from tfm_lib.show.control import Live, control, sentence
from tfm_lib.show.figure import DARK, MASK, SEQUENTIAL, Figure, finite_array, label_texts, quoted, style

WORDS = ["the", "flood", "hit", "oslo", "last", "night", "start", "flood", "hits", "oslo"]
ARTICLE = 6  # of them; behind it stand a start mark and a headline
QUERY = 7  # the place of the word whose row is read to begin with


@style()
def mask_control(scores: Tensor, words: list[str]) -> Live:
    """Build a mask for a self-attention, cell by cell, of a valid length and of the causal mask; its weights follow.

    scores (T, S) with T = S, of the words. Raises ValueError for another shape, for scores that are not finite, and
    for more than 10 words, whose weights could not be read.
    """
    values = finite_array(scores, "scores", "T, S").round(6)
    length = len(values)
    if values.shape[1] != length or length > 10:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; wanted (T, S) with T = S and at most 10 words")
    labels = label_texts(words, length, "words")
    names = quoted(labels)
    # Both masks hide something at first: a page without a kernel shows only this.
    valid = max(length - 1, 1)
    mask = length_mask(torch.tensor([valid]), length)[0, 0] & causal_mask(length)[0, 0]  # (S,) & (T, S) -> (T, S)
    weights = masked_softmax(torch.from_numpy(values), mask).numpy()
    figure = _picture(mask.numpy(), weights, labels, _words(valid, mask.numpy(), weights, names))
    data = {"scores": values.tolist(), "labels": labels, "names": names, "length": valid}
    return control("maskControl", data, figure)


def _words(valid: int, mask: np.ndarray, weights: np.ndarray, names: list[str]) -> str:
    """What mask_control.js says of the masks to begin with."""
    last, seen = weights[-1], np.flatnonzero(mask[-1])
    best = [names[key] for key in seen if last[key] > last.max() - 1e-6]
    looks = f"most at {' and '.join([', '.join(best[:-1]), best[-1]] if len(best) > 1 else best)}"
    if len(best) == len(seen):
        looks = sentence("mask, one key", best[0]) if len(seen) == 1 else sentence("mask, all keys")
    keys, each = "key" if len(seen) == 1 else "keys", " each" if len(best) > 1 else ""
    name = f"Valid length {valid} and causal" if valid < len(names) else "Causal"
    query = sentence("mask, query", names[-1], len(seen), keys, looks, _two_digits(last.max()), each)
    end = sentence("mask, nothing hidden" if mask.all() else "mask, hidden")
    return f"{name}: {sentence('mask, pairs', mask.sum(), mask.size)} {query} {end}"


def _two_digits(weight: float) -> str:
    """Halves up, as in mask_control.js."""
    return f"{weight + 1e-9:.2f}"


def _picture(mask: np.ndarray, weights: np.ndarray, labels: list[str], message: str) -> Figure:
    figure = Figure(message, 3.4)
    left, right = figure.subplots(1, 2)
    side = 2.5 / len(labels)
    for axes, title, cells, colors in ((left, "mask", mask, MASK), (right, "weights", weights, SEQUENTIAL)):
        draw_cells(axes, labels, cells, colors, side)
        axes.set_title(title)
    mark_pairs(left, mask, 72 * 0.3 * side, 72 * 0.045 * side)
    for (query, key), weight in np.ndenumerate(weights):
        text, color = _two_digits(weight) if weight else "0", "black" if weight < DARK else "white"
        right.text(key, query, text, ha="center", va="center", size=8, color=color)
    right.set(yticklabels=[], ylabel="")
    return figure


@style()
def prefix_control() -> Live:
    """Turn the prefix from GPT, where nothing is one, to BERT, where all is: who sees whom, how often one can ask."""
    places = np.arange(len(WORDS))
    mask = (places < ARTICLE) | (places <= places[:, None])  # (T, T)
    begin, task = (ARTICLE, len(WORDS), ", the article"), sentence("prefix, asked", len(WORDS) - ARTICLE)
    figure = Figure(sentence("prefix", *begin, WORDS[QUERY], QUERY + 1, mask[QUERY].sum(), len(WORDS), task), 3.4)
    axes = figure.subplots()
    draw_cells(axes, WORDS, mask, MASK, 0.26)
    mark_pairs(axes, mask, 5, 0.8)
    data = {"words": WORDS, "article": ARTICLE, "prefix": ARTICLE, "query": QUERY}
    return control("prefixControl", data, figure)
