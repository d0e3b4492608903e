"""A shape that is dragged over a picture: what is looked at, what is said, and what a text model writes of it."""

from pathlib import Path

import torch

from tfm_lib.data.batches import shifted
from tfm_lib.data.pictures import COLORS, SHAPES, SIDE, SIZES, UNSEEN, Shape, draw
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.pretrained.pictures import PATCH, SHIPPED, Pictured, describe, pictures_model
from tfm_lib.show.control import Live, control, percent, sentence
from tfm_lib.show.figure import DARK, INK, MEANING, SEQUENTIAL, Figure, style
from tfm_lib.writing.tracing import record_attention

SHOWN = Shape("big", "red", "triangle", x=10, y=13)
LAYER, WORD = 2, 3  # whose attention is drawn to begin with, counted from 1; and the word, from 0
ACROSS = SIDE // PATCH


@style()
def picture_control(describes: bool = False) -> Live:
    """Drag a shape, and see which patches are looked at; with `describes` a text model looks, and its gate is a knob.

    The models are those that ship. Without `describes` it is the one that tells shapes apart.
    """
    model, vocabulary = pictures_model()
    with torch.no_grad(), record_attention(model) as maps:
        pixels = draw(SHOWN)
        says, chances, of = (_described if describes else _named)(model, vocabulary, pixels)
    weights = maps[of][0, :, WORD if describes else 0].mean(0)  # (1 + P)
    best = int(weights[1:].argmax())
    caption = f"a {SHOWN.size} {SHOWN.color} {SHOWN.shape}"
    looked = f"row {best // ACROSS + 1}, column {best % ACROSS + 1}, with {percent(weights[best + 1].item())}"
    novel = ", which no training picture shows" if caption in UNSEEN else ""
    figure = Figure(sentence(says[0], caption, novel, *says[1:], LAYER, looked), 2.6)
    picture, looks, bars = figure.subplots(1, 3, width_ratios=[1, 1, 1.3])
    picture.imshow(pixels.permute(1, 2, 0).numpy(), extent=(0, SIDE, SIDE, 0))
    looks.imshow(weights[1:].view(ACROSS, ACROSS).numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, extent=(0, SIDE, SIDE, 0))
    for patch, weight in enumerate(weights[1:].tolist()):
        middle = (patch % ACROSS + 0.5) * PATCH, (patch // ACROSS + 0.5) * PATCH
        color = "black" if weight < DARK else "white"
        looks.text(*middle, round(100 * weight), ha="center", va="center", size=8, color=color)
    for axes, title in ((picture, "the picture, in patches"), (looks, "looked at, %")):
        axes.set(xticks=[], yticks=[], title=title)
        for edge in range(PATCH, SIDE, PATCH):
            axes.axhline(edge, color=INK, linewidth=0.5, linestyle=":")
            axes.axvline(edge, color=INK, linewidth=0.5, linestyle=":")
    names, values = zip(*reversed(chances), strict=True)
    bars.barh(names, [100 * value for value in values], color=MEANING["output"].color)
    bars.set(xlim=(0, 100), title=f"the word “{caption.split()[WORD]}”, %" if describes else "it says, %")
    data = {"side": SIDE, "patch": PATCH, "sizes": SIZES, "colors": COLORS, "shapes": SHAPES, "unseen": UNSEEN}
    data |= {"shown": SHOWN._asdict(), "describes": describes, "weights": SHIPPED.stem}
    return control("pictureControl", data, figure, {SHIPPED.stem: Path(SHIPPED).read_bytes()})


def _named(model: Pictured, vocabulary: Vocabulary, pixels: torch.Tensor) -> tuple[list[str], list, str]:
    """The name of its sentence and what it says in it, how likely each shape is, and the attention that is drawn."""
    chances = model.head(model.shape_eye(pixels[None])[:, 0]).softmax(-1)[0].tolist()
    best = max(zip(chances, SHAPES, strict=True))
    says = ["picture", best[1], percent(best[0])]
    return says, list(zip(SHAPES, chances, strict=True)), f"shape_eye.layers.{LAYER - 1}.self_attention"


def _described(model: Pictured, vocabulary: Vocabulary, pixels: torch.Tensor) -> tuple[list[str], list, str]:
    """The same of the text model and the word that is chosen."""
    memory = model.eye(pixels[None])
    ids = describe(model.describer, memory, vocabulary.start_id)  # (1, 4)
    likely = model.describer(shifted(ids, vocabulary.start_id), memory)[0, WORD].softmax(-1).topk(len(SHAPES))
    words = [vocabulary.decode([token]) or "the end" for token in likely.indices.tolist()]
    says = ["picture, described", "1.00", vocabulary.decode(ids[0].tolist()), vocabulary.decode([int(ids[0, WORD])])]
    return says, list(zip(words, likely.values.tolist(), strict=True)), f"describer.looks.{LAYER - 1}.cross_attention"
