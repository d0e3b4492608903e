"""Beam search step by step: the beams of each step, their best continuations, and what becomes of them."""

import torch

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, minus, percent, sentence
from tfm_lib.show.figure import MEANING, QUIET, Figure, style
from tfm_lib.show.newsdesk import read_story
from tfm_lib.show.weights import model_control
from tfm_lib.writing.decoding import Writer, evaluating
from tfm_lib.writing.next_token import log_softmax

MOST_TOKENS = 16  # of a text, its end included
WIDTHS, PENALTIES = (1, 2, 3, 4, 5), (0, 0.1, 0.2, 0.5, 1)
WIDTH = 3  # to begin with, with no length penalty


@style()
def beam_control(model: Transformer, vocabulary: Vocabulary, story: str) -> Live:
    """Beam search on one story: turn its width, its length penalty and the step at which you look.

    The text that wins is compared with greedy's. Raises ValueError for a story that the model cannot read.
    """
    src = read_story(model, vocabulary, story)  # (1, S)
    most = min(MOST_TOKENS, model.config.max_length)
    with torch.inference_mode(), evaluating(model):
        writer = Writer(model, src, most)
        best = log_softmax(writer.next_logits(writer.start))[0].topk(2 * WIDTH)
    ends = best.indices == model.config.eos_id  # (2 * WIDTH,)
    goes_on = (~ends).nonzero()[:WIDTH, 0].tolist()
    words, totals, probs = vocabulary.pieces(best.indices), best.values.tolist(), best.values.exp().tolist()
    fates = [f"→ beam {goes_on.index(rank) + 1}" if rank in goes_on else "✗ dropped" for rank in range(2 * WIDTH)]
    ended = sentence("beam, none has ended")
    if ends.any():
        rank = int(ends.nonzero()[0])
        fates[rank] = "■ has ended" if rank < WIDTH else "✗ ends too low"
        if rank < WIDTH:
            ended = sentence("beam, ended", "One text has ended,", "“”", minus(totals[rank]))
    first = goes_on[0]
    begin = 1, "one beam, the empty text", 2 * WIDTH, WIDTH, "are", f"“{words[first]}”"
    figure = Figure(sentence("beam", *begin, percent(probs[first]), minus(totals[first]), ended), 2.1)
    axes = figure.subplots()
    colors = [MEANING["aside" if fate.startswith("✗") else "chosen"].color for fate in fates]
    axes.barh(range(2 * WIDTH), probs, color=colors)
    for rank, (total, fate) in enumerate(zip(totals, fates, strict=True)):
        about = f" {100 * probs[rank]:.1f} %, total {minus(total)}   {fate}"
        axes.text(probs[rank], rank, about, va="center", size=8.5)
    axes.set_yticks(range(2 * WIDTH), words, parse_math=False)
    axes.set(title="the first words, best first", xlabel="probability", xlim=(0, 1.6 * probs[0]))
    axes.invert_yaxis()
    axes.xaxis.label.set_color(QUIET)
    data = {"story": story, "most": most, "widths": WIDTHS, "penalties": PENALTIES, "width": WIDTH, "penalty": 0}
    return model_control("beamControl", data, figure, model, vocabulary)
