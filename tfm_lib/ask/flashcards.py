"""An Anki deck of the course: its questions on cards that come back until they stay."""

import hashlib
import io
from pathlib import Path

from tfm_lib.ask.questions import Lesson, to_html
from tfm_lib.errors import brought_by
from tfm_lib.files import write_whole

DECK = "The encoder-decoder Transformer"
CSS = """
.card { font-family: sans-serif; font-size: 20px; line-height: 1.4; max-width: 36em; margin: 1em auto; }
.question { font-weight: bold; }
"""


def write_deck(path: Path, lessons: list[Lesson]) -> int:
    """Write the questions of `lessons` to `path` as an Anki package, a subdeck a lesson, and return their number.

    Cards are known by question and lesson: importing a newer deck changes answers and keeps what Anki has learned
    about the reader.
    """
    with brought_by("lessons", "a deck for Anki"):
        import genanki  # loads only where a deck is made

    sides = {"qfmt": '<div class="question">{{Question}}</div>', "afmt": "{{FrontSide}}<hr id=answer>{{Answer}}"}
    model = genanki.Model(
        _number(DECK, "model"),
        f"{DECK}: question and answer",
        fields=[{"name": "Question"}, {"name": "Answer"}],
        templates=[{"name": "Card", **sides}],
        css=CSS,
    )
    decks = []
    for lesson in lessons:
        decks.append(deck := genanki.Deck(_number(DECK, lesson.name), f"{DECK}::{lesson.title}"))
        for place, asked in enumerate(lesson.questions):
            fields = [to_html(asked.question), to_html(asked.answer)]
            tags = [lesson.name, "second_reading" if asked.deeper else "spine"]
            guid = hashlib.sha256(f"{asked.lesson}\n{asked.question}".encode()).hexdigest()[:20]
            deck.add_note(genanki.Note(model, fields, tags=tags, guid=guid, due=place))
    genanki.Package(decks).write_to_file(content := io.BytesIO())
    write_whole(path, content.getvalue())
    return sum(len(deck.notes) for deck in decks)


def _number(*names: str) -> int:
    """The same number for the same names, for ever: Anki knows decks and models by a number in this range."""
    return 2**30 + int.from_bytes(hashlib.sha256("\n".join(names).encode()).digest()[:4]) % 2**30
