"""An Anki deck of the course: its questions on cards that come back until they stay."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_lib.questions import Lesson, Question

if TYPE_CHECKING:  # both load only where a deck is made
    import genanki
    from mistune import BaseRenderer

DECK = "The encoder-decoder Transformer"
CSS = """
.card { font-family: sans-serif; font-size: 20px; line-height: 1.4; max-width: 36em; margin: 1em auto; }
.question { font-weight: bold; }
"""


def write_deck(path: Path, lessons: list[Lesson]) -> int:
    """Write the questions of `lessons` to `path` as an Anki package, a subdeck a lesson, and return their number.

    Cards are known by lesson and question: importing a newer deck changes answers and keeps what Anki has learned
    about the reader.
    """
    import genanki

    sides = {"qfmt": '<div class="question">{{Question}}</div>', "afmt": "{{FrontSide}}<hr id=answer>{{Answer}}"}
    model = genanki.Model(
        _number(DECK, "model"),
        f"{DECK}: question and answer",
        fields=[{"name": "Question"}, {"name": "Answer"}],
        templates=[{"name": "Card", **sides}],
        css=CSS,
    )
    to_html = _markdown()
    decks = [_deck(lesson, model, to_html) for lesson in lessons]
    genanki.Package(decks).write_to_file(path)
    return sum(len(deck.notes) for deck in decks)


def _deck(lesson: Lesson, model: "genanki.Model", to_html: Callable[[str], str]) -> "genanki.Deck":
    import genanki

    deck = genanki.Deck(_number(DECK, lesson.name), f"{DECK}::{lesson.title}")
    for place, asked in enumerate(lesson.questions):
        fields = [to_html(asked.question), to_html(asked.answer)]
        deck.add_note(genanki.Note(model, fields, tags=[lesson.name], guid=_guid(asked), due=place))
    return deck


def _guid(asked: Question) -> str:
    return hashlib.sha256(f"{asked.lesson}\n{asked.question}".encode()).hexdigest()[:20]


def _number(*names: str) -> int:
    """The same number for the same names, for ever: Anki knows decks and models by a number in this range."""
    return 2**30 + int.from_bytes(hashlib.sha256("\n".join(names).encode()).digest()[:4]) % 2**30


def _markdown() -> Callable[[str], str]:
    """From Markdown to HTML with math as Anki's MathJax wants it: \\(inline\\) and \\[displayed\\]."""
    import mistune

    def inline_math(renderer: "BaseRenderer", text: str) -> str:
        return rf"\({mistune.escape(text)}\)"

    def block_math(renderer: "BaseRenderer", text: str) -> str:
        return rf"<p>\[{mistune.escape(text)}\]</p>"

    renderer = mistune.HTMLRenderer()
    to_html = mistune.create_markdown(renderer=renderer, plugins=["math", "table"])
    renderer.register("inline_math", inline_math)
    renderer.register("block_math", block_math)
    return lambda text: str(to_html(text)).strip()
