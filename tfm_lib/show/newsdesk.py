"""Where a reader composes a story or types one, and how its words are set in lines."""

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from ipywidgets import HTML, Button, Dropdown, GridBox, HBox, Textarea, VBox
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties
from traitlets import Unicode

from tfm_lib.newsroom import AFTER, BEFORE, DAYS, EVENTS, NUMBERS, PEOPLE, PLACES, compose
from tfm_lib.vocabulary import Vocabulary

SIZE, LEFT, GAP = 9, 0.08, "   "  # of the letters in points, of the margin in inches, between two words
FONT = FontProperties(family="DejaVu Sans", size=SIZE)
SMALL = {"style": {"description_width": "4.5em"}, "layout": {"width": "auto"}}


class Desk(VBox):
    """Where a reader composes a story or types one; `value` is the story that the model is to read.

    Words that the vocabulary lacks are marked while they are typed. A typed story is read at the press of a button, a
    composed one at once. It opens with `story`, where one is given; ValueError if the model cannot read that.
    """

    value = Unicode()

    def __init__(self, vocabulary: Vocabulary, max_length: int, story: str = "") -> None:
        if story and not 0 < (length := len(vocabulary.encode(story))) <= max_length:
            raise ValueError(f"story has {length} tokens; the model reads 1 to {max_length}: pass another text")
        self._vocabulary, self._max_length = vocabulary, max_length
        event = Dropdown(options=list(EVENTS), description="event", **SMALL)
        thing = Dropdown(options=list(EVENTS[event.value].things), description="thing", **SMALL)
        numbers = [(word, number) for number, word in NUMBERS.items()]
        phrasings = range(min(len(told.phrasings) for told in EVENTS.values()))
        self.slots = {
            "event": event,
            "thing": thing,
            "how_many": Dropdown(options=numbers, value=3, description="number", **SMALL),
            "who": Dropdown(options=PEOPLE, description="who", **SMALL),
            "where": Dropdown(options=PLACES, description="where", **SMALL),
            "when": Dropdown(options=DAYS, description="when", **SMALL),
            "phrasing": Dropdown(options=phrasings, description="phrasing", **SMALL),
        }
        grid = GridBox(list(self.slots.values()), layout={"grid_template_columns": "repeat(auto-fill, 183px)"})
        open_ended = dict.fromkeys(("person", "place", "day", "number"), "…")
        for name, sentences in (("before", BEFORE), ("after", AFTER)):
            options = [("nothing", ""), *((text.format(**open_ended), text) for text in sentences)]
            self.slots[name] = Dropdown(options=options, description=name, **SMALL)
        self.text = Textarea(description="story", rows=4, style=SMALL["style"], layout={"width": "auto"})
        for knob in (*self.slots.values(), self.text):
            knob.tooltip = ""  # where there is none, ipywidgets shows "null" under the mouse
        self.note = HTML()
        self.read = Button(description="Read this story", layout={"flex": "0 0 auto"})
        beside = self.slots["before"], self.slots["after"]
        super().__init__([grid, *beside, self.text, HBox([self.read, self.note])], layout={"max_width": "740px"})
        self._compose()
        if story:
            self.text.value = story
            self._take()
        event.observe(lambda change: setattr(thing, "options", list(EVENTS[change["new"]].things)), "value")
        for knob in list(self.slots.values())[1:]:  # a new event brings a new thing
            knob.observe(lambda _: self._compose(), "value")
        self.text.observe(lambda _: self._check(), "value")
        self.read.on_click(lambda _: self._take())

    def _compose(self) -> None:
        told: dict[str, Any] = {name: knob.value for name, knob in self.slots.items()}
        others = {
            "person": next(name for name in reversed(PEOPLE) if name != told["who"]),
            "place": next(name for name in reversed(PLACES) if name != told["where"]),
            "day": next(name for name in reversed(DAYS) if name != told["when"]),
            "number": next(word for number, word in reversed(NUMBERS.items()) if number != told["how_many"]),
        }
        for name in ("before", "after"):
            told[name] = [told[name].format(**others)] * bool(told[name])
        self.text.value = compose(**told).article
        self._take()

    def _check(self) -> bool:
        """Say what the model would not understand in the text as it stands; whether it can read it."""
        length, unknown = len(self._vocabulary.encode(self.text.value)), self._vocabulary.unknown_words(self.text.value)
        readable = 0 < length <= self._max_length
        note = "Every word is in the vocabulary."
        if not readable:
            note = f"{length} tokens; the model reads 1 to {self._max_length}."
        elif unknown:
            marked = ", ".join(f"<mark>{escape(word)}</mark>" for word in dict.fromkeys(unknown))
            note = f"Not in the vocabulary, so that the model reads [unk]: {marked}"
        self.note.value = f'<span role="status">{note}</span>'
        self.read.disabled = not readable
        return readable

    def _take(self) -> None:
        if self._check():
            self.value = self.text.value


Place = tuple[float, float, float, float]  # of a word's box: left, right, bottom, top


class TokenLines:
    """Words set in lines, on axes that count in inches, x from 0 to 7.2: from `top` down, over `room` inches at most.

    A line is one text, which is drawn much faster than its words one by one.
    """

    def __init__(self, axes: Axes, lines: int, top: float, room: float) -> None:
        self.texts = [axes.text(0, 0, "", ha="left", va="baseline", size=SIZE, parse_math=False) for _ in range(lines)]
        self.top, self.room = top, room

    def set(self, words: Sequence[str]) -> list[Place]:
        """Put the words into their lines, and return the place of each."""
        lines: list[list[str]] = [[]]
        edges, x = [], LEFT
        for word in words:
            wide = _advance(word)
            if x + wide > 7.2 and lines[-1]:
                lines.append([])
                x = LEFT
            lines[-1].append(word)
            edges.append((x, x + wide, len(lines) - 1))
            x += wide + _advance(GAP)
        step = min(0.3, self.room / len(lines))
        for row, text in enumerate(self.texts):
            text.set(x=LEFT, y=self.top - row * step, text=GAP.join(lines[row]) if row < len(lines) else "")
        below, above = 0.2 * step, 0.6 * step
        return [
            (x - 0.04, end + 0.04, self.top - row * step - below, self.top - row * step + above)
            for x, end, row in edges
        ]


def _advance(word: str) -> float:
    """How many inches a word takes up in a line."""
    return sum(map(_letter, word))


@cache
def _letter(letter: str) -> float:
    # Widths come in whole pixels, so that one letter alone would be off by some of its own.
    many, end = (_renderer().get_text_width_height_descent(text, FONT, False)[0] for text in (f"{letter * 50}|", "|"))
    return (many - end) / 50 / _renderer().dpi


@cache
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, 150)


def story_tokens(vocabulary: Vocabulary, text: str) -> tuple[list[str], list[int]]:
    """The tokens of a story as it has them, long ones cut, and which of them the vocabulary lacks."""
    ids, unknown = vocabulary.encode(text), iter(vocabulary.unknown_words(text))
    pieces = vocabulary.pieces(ids)
    words = [next(unknown) if i == vocabulary.unknown_id else piece for i, piece in zip(ids, pieces, strict=True)]
    short = [word if len(word) <= 14 else f"{word[:13]}…" for word in words]
    return short, [place for place, i in enumerate(ids) if i == vocabulary.unknown_id]
