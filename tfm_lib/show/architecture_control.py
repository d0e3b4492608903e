"""The whole model under control: press a box, and see what it computes while it reads a story and writes a summary."""

from contextlib import ExitStack
from functools import partial

import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.nn import Module

from tfm_lib.data.batches import shifted
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, minus, percent, sentence
from tfm_lib.show.figure import DIVERGING, INK, MEANING, SEQUENTIAL, Figure, style
from tfm_lib.show.model_boxes import Box, Columns, boxes, draw_boxes, layer_of, layout
from tfm_lib.show.newsdesk import read_story
from tfm_lib.show.weights import model_control
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import evaluating, greedy
from tfm_lib.writing.tracing import record_attention

STORY = "Flames burned down nineteen houses in Bergen on Wednesday. Fire chief Grace Mwangi said that nobody was hurt."
MOST_TOKENS = 24  # of a summary, its end included


def computed(model: Transformer, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
    """What each box computes of src (1, S) and tgt (1, T), by its name: (S or T, D), (H, T, S) or (T, V)."""
    seen: dict[str, Tensor] = {}

    def see(name: str, part: Module, args: object, out: Tensor) -> None:
        seen[name] = out

    with torch.inference_mode(), evaluating(model), record_attention(model) as weights, ExitStack() as hooks:
        for name, part in model.named_modules():
            hooks.enter_context(part.register_forward_hook(partial(see, name)))
        model(src, tgt)
    seen |= {"softmax": seen["output"].softmax(-1), **weights}
    return {name: of[0].cpu() for name, of in seen.items()}


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
    tensors = computed(model, src, tgt)
    texts = {"encoder": vocabulary.pieces(src[0]), "decoder": vocabulary.pieces(tgt[0])}
    figure = _picture(columns, *found[opened], texts, tensors, vocabulary)
    data = {
        "story": story,
        "opened": opened,
        "most": MOST_TOKENS,
        "layout": layout(columns)._asdict(),
        "columns": {side: [box._asdict() for box in column] for side, column in columns.items()},
    }
    return model_control("architectureControl", data, figure, model, vocabulary)


def _picture(
    columns: Columns, side: str, opened: Box, texts: dict[str, list[str]], tensors: dict[str, Tensor], words: Vocabulary
) -> Figure:
    """The boxes, and what the opened one computes."""
    layer, rows, tensor = layer_of(opened), texts[side], tensors[opened.name]
    title = f"{side.capitalize()}{layer and f', {layer}'}: {opened.label}"
    values, keys, limit = tensor, [""], tensor.abs().max().item()
    if opened.role == "attention":
        values, keys = tensor.mean(0), texts["decoder" if opened.label.startswith("Masked") else "encoder"]
    elif opened.role == "output":
        likely = [*dict.fromkeys(tensor.topk(2).indices.flatten().tolist())]
        values, keys, limit = tensor[:, likely], words.pieces(likely), 1.0 if opened.name == "softmax" else limit
    else:
        vectors = [tensors[box.name] for box in columns[side] if box.role not in ("attention", "output")]
        values, limit = tensor.norm(dim=-1, keepdim=True), max(of.norm(dim=-1).max().item() for of in vectors)
    row, column = divmod(int(values.abs().argmax()), values.shape[1])
    figure = Figure(f"{title}. {opened.about} {_reading(opened, rows, keys, values, row, column)}", 5.2)
    figure.caption = opened.about
    left, right = figure.subplots(1, 2)
    draw_boxes(left, columns, opened)
    right.set_title(f"{title}\n{opened.name}\nshape {tuple(tensor.shape)}", loc="left", fontsize=8.5)
    down = -(-len(rows) // 30)  # labels are thinned out where they would touch
    right.set_yticks(range(0, len(rows), down), rows[::down], parse_math=False)
    right.tick_params(length=0, labelsize=8)
    right.spines[:].set_visible(False)
    if keys == [""]:
        _lengths(right, values[:, 0].tolist(), row, limit)
        return figure
    colors = {"cmap": DIVERGING, "vmin": -limit} if (values < 0).any() else {"cmap": SEQUENTIAL, "vmin": 0}
    image = right.imshow(values.numpy(), vmax=limit, aspect="auto", interpolation="nearest", **colors)
    right.plot(column, row, "s", ms=8, mfc="none", mec=INK, mew=1.4)
    across = -(-len(keys) // 26)
    right.set_xticks(range(0, len(keys), across), keys[::across], rotation=90, parse_math=False)
    figure.colorbar(image, ax=right, orientation="horizontal", shrink=0.6, aspect=30)
    return figure


def _lengths(axes: Axes, lengths: list[float], longest: int, limit: float) -> None:
    """A bar for each vector, on the scale of the longest one that this side of the model computes."""
    look = MEANING["chosen"]
    fills = [look.color if row == longest else look.fill for row in range(len(lengths))]
    bars = axes.barh(range(len(lengths)), lengths, color=fills, height=0.8)
    if len(lengths) <= 30:
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set(xlim=(0, 1.12 * limit), ylim=(len(lengths) - 0.4, -0.6), xlabel="length of each vector")


def _reading(opened: Box, rows: list[str], keys: list[str], values: Tensor, row: int, column: int) -> str:
    """A number of the tensor in words, as the control says it."""
    at, value = f"“{rows[row]}” (position {row})", values[row, column].item()
    if opened.role == "attention":
        return sentence("at weight", at, f"“{keys[column]}”", column, f"{value:.2f}", "the mean of all heads")
    if opened.name == "output":
        return sentence("at logit", at, f"“{keys[column]}”", minus(value))
    if opened.name == "softmax":
        return sentence("at probability", at, f"“{keys[column]}”", percent(value))
    return sentence("at length", at, f"{value:.1f}", f"{values.mean():.1f}")
