"""The heads of a trained encoder under control: where each of them looks, and what their mean hides."""

import torch

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, sentence
from tfm_lib.show.figure import quoted
from tfm_lib.show.plots import attention_map
from tfm_lib.show.weights import model_control
from tfm_lib.writing.decoding import evaluating
from tfm_lib.writing.tracing import record_attention

STORY = "Flames burned down nineteen houses in Bergen on Wednesday."
MOST = 24  # words that can be read in a row


@torch.inference_mode()
def heads_control(model: Transformer, vocabulary: Vocabulary, story: str = STORY) -> Live:
    """The encoder's self-attention on a sentence: click a word, and see where each head looks from it, and their mean.

    It begins in the first layer, with the word in the middle as the query. Raises ValueError for a sentence without
    words, or of more than MOST tokens.
    """
    ids = vocabulary.encode(story)
    if not 1 <= len(ids) <= MOST:
        raise ValueError(f"story has {len(ids)} tokens; wanted 1 to {MOST}, which fit in a row: take a sentence")
    layer, query = 0, (len(ids) - 1) // 2
    src = torch.tensor([ids], device=next(model.parameters()).device)  # (1, S)
    with evaluating(model), record_attention(model) as maps:
        model.encode(src)
    weights = maps[f"encoder.layers.{layer}.self_attention"][0, :, query]  # (H, S)
    rows = torch.cat([weights, weights.mean(0, keepdim=True)])  # (H + 1, S)
    words, labels = vocabulary.pieces(ids), [*(f"head {head}" for head in range(len(weights))), "mean"]
    names = quoted(words)
    best = [f"{names[int(row.argmax())]} ({row.max():.2f})" for row in weights]
    different, most = len({*weights.argmax(-1).tolist()}), names[int(rows[-1].argmax())]
    favorites = len(best) - 1, ", ".join(best), different, f"{rows[-1].max():.2f}", most
    figure = attention_map(rows, labels, words, caption=sentence("heads", names[query], layer, *favorites))
    figure.axes[0].set_ylabel("")  # the rows are heads: one word asks
    data = {"story": story, "layer": layer, "query": query}
    return model_control("headsControl", data, figure, model, vocabulary)
