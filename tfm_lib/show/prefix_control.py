"""The mask of a prefix language model, on a knob: from GPT, where nothing is prefix, to BERT, where all is."""

import numpy as np

from tfm_lib.show.control import control, sentence
from tfm_lib.show.figure import MASK, MEANING, PALE, Figure, style, token_grid
from tfm_lib.show.live import Live

WORDS = ["the", "flood", "hit", "oslo", "last", "night", "start", "flood", "hits", "oslo"]
ARTICLE = 6  # of them; behind it stand a start mark and a headline
QUERY = 7  # the place of the word whose row is read to begin with


@style()
def prefix_control() -> Live:
    """Turn the prefix, and see who sees whom, and how often the next word can be asked for."""
    places = np.arange(len(WORDS))
    mask = (places < ARTICLE) | (places <= places[:, None])  # (T, T)
    begin, task = (ARTICLE, len(WORDS), ", the article"), sentence("prefix, asked", len(WORDS) - ARTICLE)
    figure = Figure(sentence("prefix", *begin, WORDS[QUERY], QUERY + 1, mask[QUERY].sum(), len(WORDS), task), 3.4)
    axes, edges = figure.subplots(), np.arange(len(WORDS) + 1) - 0.5
    axes.pcolormesh(edges, edges, mask, cmap=MASK, vmin=0, vmax=1, edgecolor=PALE, linewidth=1)
    token_grid(axes, WORDS, WORDS, (0.26, 0.26))
    axes.set(xlim=edges[[0, -1]], ylim=edges[[-1, 0]])
    for role, sign, pairs in (("allowed", "o", mask), ("hidden", "x", ~mask)):
        query, key = np.nonzero(pairs)
        axes.plot(key, query, sign, color=MEANING[role].color, ms=5, mew=0.8)
    data = {"words": WORDS, "article": ARTICLE, "prefix": ARTICLE, "query": QUERY}
    return control("prefixControl", data, figure)
