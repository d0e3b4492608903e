"""The mask of a prefix language model, on a knob: from GPT, where nothing is prefix, to BERT, where all is."""

import numpy as np

from tfm_lib.show.control import Live, control, sentence
from tfm_lib.show.figure import MASK, Figure, style
from tfm_lib.show.mask_control import draw_cells
from tfm_lib.show.plots import mark_pairs

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
    axes = figure.subplots()
    draw_cells(axes, WORDS, mask, MASK, 0.26)
    mark_pairs(axes, mask, 5, 0.8)
    data = {"words": WORDS, "article": ARTICLE, "prefix": ARTICLE, "query": QUERY}
    return control("prefixControl", data, figure)
