"""The shipped summarizer under control: where each word of a summary looks, and how a summary is written."""

import math
from typing import Any

import torch
from ipywidgets import Button, HBox, IntSlider, SelectionSlider, VBox
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor
from traitlets import Tuple

from tfm_lib.decoding import Writer, evaluating, greedy
from tfm_lib.model import Transformer
from tfm_lib.next_token import log_softmax
from tfm_lib.show.figure import COLORS, QUIET, Figure, style
from tfm_lib.show.live import Live
from tfm_lib.show.newsdesk import Desk, Place, TokenLines, story_tokens
from tfm_lib.show.screen import KNOB, Layout, control
from tfm_lib.tracing import record_attention
from tfm_lib.vocabulary import Vocabulary

MOST_TOKENS = 24  # of a summary, its end included
CHOICES = 5
MARGINS = 0.12  # inches that a figure keeps around its axes
FAINT = 0.02  # the least weight that is drawn as a line
SHADES = LinearSegmentedColormap.from_list("shades", ["#f7f7f7", "#6fb1e0"])  # under dark letters


def _page(figure: Figure, height: float) -> Axes:
    """Axes that count in inches, x from 0 to 7.2, in a picture of so many inches and its margins."""
    axes = figure.subplots()
    axes.set(xlim=(0, 7.2), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return axes


@style()
def attention_control(model: Transformer, vocabulary: Vocabulary) -> Live:
    """Where the words of a summary look in their story: turn layer, head and word, on a story of your own.

    The story is composed of the newsroom's words, or typed. Lines join a word of the summary with the words of the
    story at which the decoder's cross-attention looked while it was written.
    """
    desk = Desk(vocabulary, model.config.max_length)
    layers, heads = range(model.config.num_decoder_layers), range(model.config.num_heads)
    layer = SelectionSlider(options=layers, value=layers[-1], description="layer", **KNOB)
    head = SelectionSlider(options=["mean", *heads], description="head", **KNOB)
    place = IntSlider(3, min=1, max=MOST_TOKENS, description="word", **KNOB)
    maps: dict[str, Tensor] = {}
    story: list[str] = []
    unknown: list[int] = []
    summary: list[str] = []

    @torch.inference_mode()
    def read() -> None:
        src = torch.tensor([vocabulary.encode(desk.value)], device=next(model.parameters()).device)  # (1, S)
        tokens = greedy(model, src, MOST_TOKENS)  # (1, T)
        start = torch.full_like(tokens[:, :1], model.config.start_id)
        with evaluating(model), record_attention(model) as recorded:
            model(src, torch.cat([start, tokens[:, :-1]], dim=1))
        maps.update(recorded)
        story[:], unknown[:] = story_tokens(vocabulary, desk.value)
        summary[:] = vocabulary.pieces(tokens[0])
        place.max = len(summary)

    def look() -> tuple[tuple[int, list[float]], str]:
        weights = maps[f"decoder.layers.{layer.value}.cross_attention"][0, :, place.value - 1]  # (H, S)
        weights = weights.mean(0) if head.value == "mean" else weights[head.value]  # (S,)
        values = weights.tolist()
        best = sorted(range(len(values)), key=lambda i: -values[i])[:3]
        looks = ", ".join(f"“{story[i]}” ({values[i]:.2f})" for i in best)
        who = "the mean of all heads" if head.value == "mean" else f"head {head.value}"
        message = (
            f"The summary: {' '.join(summary)}. While word {place.value}, “{summary[place.value - 1]}”, was written, "
            f"{who} of layer {layer.value} looked most at {looks}. Weights from {FAINT} up have a line."
        )
        if unknown:
            message += f" The model read [unk] for {', '.join(f'“{story[i]}”' for i in unknown)}."
        return (place.value - 1, values), message

    def lay_out(figure: Figure) -> Layout:
        axes = _page(figure, 3.2)
        lines = LineCollection([], colors=COLORS[0], alpha=0.55, capstyle="round")
        boxes = PolyCollection([], cmap=SHADES, edgecolors="none", clim=(0, 1))
        frames = PolyCollection([], facecolors="none", edgecolors=COLORS[1], linewidths=1.4, linestyles="--")
        chosen = PolyCollection([], facecolors="none", edgecolors=COLORS[0], linewidths=1.8)
        for collection in (boxes, lines, frames, chosen):
            axes.add_collection(collection, autolim=False)
        above, below = TokenLines(axes, 16, 2.78, 2.0), TokenLines(axes, 3, 0.36, 0.4)
        for y, title in ((3.04, "story (dashed: unknown to the model)"), (0.62, "summary")):
            axes.text(0.08, y, title, size=8, color=QUIET)

        def update(word: int, values: list[float]) -> None:
            tops, bottoms = above.set(story), below.set(summary)
            seen = [i for i, value in enumerate(values) if value >= FAINT]
            left, right, _, top = bottoms[word]
            lines.set_segments([[((left + right) / 2, top), ((tops[i][0] + tops[i][1]) / 2, tops[i][2])] for i in seen])
            lines.set_linewidth([7 * values[i] for i in seen])
            boxes.set_verts([_box(place) for place in tops])
            boxes.set_array(values)
            frames.set_verts([_box(tops[i]) for i in unknown])
            chosen.set_verts([_box(bottoms[word])])

        return Layout([boxes, lines, frames, chosen, *above.texts, *below.texts], update)

    read()
    desk.observe(lambda _: read(), "value")
    return control(3.2 + MARGINS, look, lay_out, desk, layer, head, place)


def _box(place: Place) -> list[tuple[float, float]]:
    left, right, bottom, top = place
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def _chance(probability: float) -> str:
    """Three decimals, or one digit where these would be zeros."""
    return f"{probability:.3f}" if probability >= 0.001 else f"{probability:.1g}"


class NextWord(VBox):
    """Buttons for the most likely next tokens, and for the way back; `value` holds the tokens that were chosen."""

    value = Tuple()

    def __init__(self) -> None:
        self.buttons = [Button(layout={"width": "140px"}) for _ in range(CHOICES)]
        self.back = Button(description="one back", tooltip="Take the last word back", icon="undo")
        self.follow = Button(description="as it would", tooltip="Write all that the model would write", icon="forward")
        self.tokens: list[int] = []  # what the buttons stand for
        self.rest: list[int] = []  # what the model would write from here on
        super().__init__([HBox(self.buttons), HBox([self.back, self.follow])])
        for place, button in enumerate(self.buttons):
            button.on_click(lambda _, place=place: self._write([self.tokens[place]]))
        self.back.on_click(lambda _: setattr(self, "value", self.value[:-1]))
        self.follow.on_click(lambda _: self._write(self.rest))

    def _write(self, tokens: list[int]) -> None:
        self.value = (*self.value, *tokens)

    def offer(self, tokens: list[int], names: list[str], rest: list[int]) -> None:
        """Put these on the buttons; none where the text has ended."""
        self.tokens, self.rest = tokens, rest
        for place, button in enumerate(self.buttons):
            button.description = names[place] if tokens else "-"
            button.tooltip = f"Write {names[place]} next" if tokens else "The text has ended"
            button.disabled = not tokens
        self.back.disabled, self.follow.disabled = not self.value, not tokens


@torch.inference_mode()
def go_on(model: Transformer, src: Tensor, chosen: tuple[int, ...]) -> tuple[float, Tensor, list[int]]:
    """What follows the tokens that were chosen so far, for the source src (1, S).

    Returns the log-probability of the chosen tokens, the probabilities (V,) of the next, and the tokens with which
    greedy decoding goes on, up to MOST_TOKENS in all.
    """
    total, eos = 0.0, model.config.eos_id
    rest: list[int] = []
    with evaluating(model):
        writer = Writer(model, src, MOST_TOKENS + 1)
        log_probs = log_softmax(writer.next_logits(src.new_tensor([model.config.start_id])))[0]  # (V,)
        for token in chosen:
            total += log_probs[token].item()
            log_probs = log_softmax(writer.next_logits(src.new_tensor([token])))[0]
        following = log_probs
        while len(chosen) + len(rest) < MOST_TOKENS and eos not in (*chosen, *rest):
            if rest:
                log_probs = log_softmax(writer.next_logits(src.new_tensor(rest[-1:])))[0]
            rest.append(int(log_probs.argmax()))
    return total, following.exp(), rest


@style()
def decoding_control(model: Transformer, vocabulary: Vocabulary, story: str = "", written: str = "") -> Live:
    """Write a summary word by word: the five best next words, of which you choose one, and how the text would go on.

    The story is composed of the newsroom's words, or typed. A text ends with [eos], or with MOST_TOKENS tokens.
    The control opens with `story` and the words `written`, where they are given. Raises ValueError if either is longer
    than it may be.
    """
    if (length := len(vocabulary.encode(written))) > MOST_TOKENS:
        raise ValueError(f"written has {length} tokens; a summary has at most {MOST_TOKENS}: leave some for the model")
    desk, choices = Desk(vocabulary, model.config.max_length, story), NextWord()
    choices.value = tuple(vocabulary.encode(written))
    device = next(model.parameters()).device

    def look() -> tuple[tuple, str]:
        src = torch.tensor([vocabulary.encode(desk.value)], device=device)  # (1, S)
        total, probs, rest = go_on(model, src, choices.value)
        best = probs.topk(CHOICES)
        names, values = vocabulary.pieces(best.indices), best.values.tolist()
        choices.offer(best.indices.tolist() if rest else [], names, rest)
        written, following = vocabulary.pieces(choices.value), vocabulary.pieces(rest)
        message = "Nothing is written."
        if written:
            message = f"Written: “{' '.join(written)}”, with probability {_chance(math.exp(total))}."
        if rest:
            offered = ", ".join(f"“{name}” ({_chance(value)})" for name, value in zip(names, values, strict=True))
            message += (
                f" The most likely next words: {offered}. By itself the model would go on: {' '.join(following)}."
            )
        else:
            message += " The text has ended."
        return (written, following, names if rest else [], values), message

    def lay_out(figure: Figure) -> Layout:
        axes = _page(figure, 2.3)
        page = TokenLines(axes, 3, 1.88, 0.5)
        done, ahead = (
            PolyCollection([], facecolors=face, edgecolors=edge, linewidths=1, linestyles=line)
            for face, edge, line in (("#9cc9e8", "none", "-"), ("none", QUIET, ":"))
        )
        for collection in (done, ahead):
            axes.add_collection(collection, autolim=False)
        axes.text(0.08, 2.14, "summary: written (filled), and as the model would go on (dotted)", size=8, color=QUIET)
        axes.text(1.5, 1.33, "probability of the next word", size=8, color=QUIET)
        rows = [1.18 - 0.26 * row for row in range(CHOICES)]
        bars = axes.barh(rows, [0.0] * CHOICES, height=0.19, left=1.5, color=COLORS[0])
        labels = [axes.text(1.42, y, "", ha="right", va="center", size=9, parse_math=False) for y in rows]
        numbers = [axes.text(1.5, y, "", va="center", size=8) for y in rows]

        def update(written: list[str], following: list[str], names: list[str], values: list[float]) -> None:
            boxes = [_box(place) for place in page.set([*written, *following])]
            done.set_verts(boxes[: len(written)])
            ahead.set_verts(boxes[len(written) :])
            for row in range(CHOICES):
                bars[row].set_width(5 * values[row] if names else 0)
                labels[row].set_text(names[row] if names else "")
                numbers[row].set(x=1.56 + 5 * values[row], text=_chance(values[row]) if names else "")

        return Layout([done, ahead, *page.texts, *bars, *labels, *numbers], update)

    def new_story(_: Any) -> None:
        choices.value = ()

    desk.observe(new_story, "value")
    return control(2.3 + MARGINS, look, lay_out, desk, choices)
