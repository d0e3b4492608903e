"""The whole model under control: press a box, and see what it computes while it reads a story and writes a summary."""

import torch
from torch import Tensor

from tfm_lib.data.batches import shifted
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, minus, percent, sentence
from tfm_lib.show.figure import DIVERGING, INK, SEQUENTIAL, Figure, style
from tfm_lib.show.model_boxes import Box, Columns, boxes, draw_boxes, layer_of
from tfm_lib.show.newsdesk import read_story
from tfm_lib.show.weights import model_control
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import evaluating, greedy
from tfm_lib.writing.tracing import record_attention

STORY = "Flames burned down nineteen houses in Bergen on Wednesday. Fire chief Grace Mwangi said that nobody was hurt."
MOST_TOKENS = 24  # of a summary, its end included


def computed(model: Transformer, src: Tensor, tgt: Tensor, name: str) -> Tensor:
    """What the box of that name computes of src (1, S) and tgt (1, T): (S or T, D), (H, T, S) or (T, V)."""
    seen: list[Tensor] = []
    watched = model.get_submodule("output" if name == "softmax" else name)
    hook = watched.register_forward_hook(lambda _, args, out: seen.append(out[0]))
    try:
        with torch.inference_mode(), evaluating(model), record_attention(model) as weights:
            model(src, tgt)
    finally:
        hook.remove()
    if name in weights:
        return weights[name][0]
    return seen[0].softmax(-1) if name == "softmax" else seen[0]


@style()
def architecture_control(
    model: Transformer, vocabulary: Vocabulary, story: str = STORY, opened: str = "decoder.layers.0.cross_attention"
) -> Live:
    """The model as boxes: press one, and see what it computes of the story, and of the summary as greedy writes it.

    opened: the box to begin with, by its name in PyTorch. The reader may type another story. Raises ValueError for a
    box that this model does not have and for a story that it cannot read, TypeError for a model that copies.
    """
    if isinstance(model, CopyingTransformer):
        raise TypeError("model is a CopyingTransformer, whose pointer has no box; pass one that does not copy")
    columns = boxes(model.config)
    found = {box.name: (side, box) for side, column in columns.items() for box in column}
    if opened not in found:
        raise ValueError(f"opened is {opened!r}; wanted the name of a box: {', '.join(found)}")
    src = read_story(model, vocabulary, story)  # (1, S)
    tgt = shifted(greedy(model, src, MOST_TOKENS), model.config.start_id)  # (1, T)
    tensor = computed(model, src, tgt, opened).cpu()
    texts = {"encoder": vocabulary.pieces(src[0]), "decoder": vocabulary.pieces(tgt[0])}
    figure = _picture(columns, *found[opened], texts, tensor, vocabulary)
    data = {
        "story": story,
        "opened": opened,
        "most": MOST_TOKENS,
        "columns": {side: [box._asdict() for box in column] for side, column in columns.items()},
    }
    return model_control("architectureControl", data, figure, model, vocabulary)


def _picture(
    columns: Columns, side: str, opened: Box, texts: dict[str, list[str]], tensor: Tensor, vocabulary: Vocabulary
) -> Figure:
    """The boxes, and what the opened one computes."""
    layer = layer_of(opened)
    title, rows = f"{side.capitalize()}{layer and f', {layer}'}: {opened.label}", texts[side]
    values, keys = tensor, [str(column) for column in range(tensor.shape[-1])]
    if opened.role == "attention":
        values, keys = tensor.mean(0), texts["decoder" if opened.label.startswith("Masked") else "encoder"]
    elif opened.role == "output":
        likely = [*dict.fromkeys(tensor.topk(2).indices.flatten().tolist())]
        values, keys = tensor[:, likely], vocabulary.pieces(likely)
    row, column = divmod(int(values.abs().argmax()), values.shape[1])
    figure = Figure(f"{title}. {opened.about} {_reading(opened, rows, keys, values, row, column)}", 4.9)
    left, right = figure.subplots(1, 2)
    draw_boxes(left, columns, opened)
    limit = 1.0 if opened.name == "softmax" else tensor.abs().max().item()
    colors = {"cmap": DIVERGING, "vmin": -limit} if (values < 0).any() else {"cmap": SEQUENTIAL, "vmin": 0}
    image = right.imshow(values.numpy(), vmax=limit, aspect="auto", interpolation="nearest", **colors)
    right.plot(column, row, "s", ms=8, mfc="none", mec=INK, mew=1.4)
    words = opened.role in ("attention", "output")
    # Labels are thinned out where they would touch.
    down, across = -(-len(rows) // 30), -(-len(keys) // 26) if words else 32
    right.set_yticks(range(0, len(rows), down), rows[::down], parse_math=False)
    right.set_xticks(range(0, len(keys), across), keys[::across], rotation=90 * words, parse_math=False)
    right.tick_params(length=0, labelsize=8)
    right.spines[:].set_visible(False)
    right.set_title(f"{title}\n{opened.name}\nshape {tuple(tensor.shape)}", loc="left", fontsize=8.5)
    figure.colorbar(image, ax=right, orientation="horizontal", shrink=0.6, aspect=30)
    return figure


def _reading(opened: Box, rows: list[str], keys: list[str], values: Tensor, row: int, column: int) -> str:
    """A number of the tensor in words, as the control says it."""
    at, value = f"“{rows[row]}” (position {row})", values[row, column].item()
    if opened.role == "attention":
        return sentence("at weight", at, f"“{keys[column]}”", column, f"{value:.2f}", "the mean of all heads")
    if opened.name == "output":
        return sentence("at logit", at, f"“{keys[column]}”", minus(value))
    if opened.name == "softmax":
        return sentence("at probability", at, f"“{keys[column]}”", percent(value))
    length = values.norm(dim=-1).mean()
    return sentence("at column", at, column, minus(value), f"{length:.1f}")
