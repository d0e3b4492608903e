"""`write`: texts in, a summary a line out."""

import io
import os
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tfm_lib.commands.options import USUAL, integer, names
from tfm_lib.data.tables import reasons
from tfm_lib.errors import CourseError

if TYPE_CHECKING:  # torch loads only in the commands that need it
    from tfm_lib.data.texts import Texts
    from tfm_lib.pretrained.summarizer import Candidate, Summarizer


def write(
    text: Annotated[str | None, Option(help="what to summarize")] = None,
    file: Annotated[str | None, Option(help="a text per line, or what train reads; - is standard input")] = None,
    fields: Annotated[str | None, Option(help="the field of the texts, if not as in training")] = None,
    model: Annotated[str | None, Option(help="a run, newsroom, newsroom-copying; firefox/en-pt translates")] = None,
    beams: Annotated[int | None, Option(parser=integer(1), help="of beam search; as many as summaries")] = None,
    count: Annotated[int, Option(parser=integer(1), help="summaries per text, with their probabilities")] = 1,
) -> None:
    """Summarize texts with a trained model, or translate them.

    Each gets a line; what else is to be said about one goes to standard error. With a count above 1, a line per
    summary: its probability and it, after the number of the text. A text that can't be summarized leaves an
    empty line, or none under a count, and the exit status is 1.
    """
    from tfm_lib.data.texts import check_text, open_texts
    from tfm_lib.pretrained.summarizer import ROWS, Summarizer

    if text is not None and file is not None:
        raise CourseError("a text and a file are two things to summarize; give one of them")
    if text is None and file is None and sys.stdin.isatty():
        raise CourseError("what to summarize? make write TEXT='...' or FILE=texts.txt; without make, --text or --file")
    results = (summarizer := Summarizer.load(model)).results
    name, texts = "the text", iter([("", check_text(text))]) if text is not None else iter(())
    if text is None:
        name, texts = open_texts(file or "-", names(fields, results.get("fields", USUAL))[0])
    _say(f"Model: {summarizer.name}", *results.get("remarks", ()))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as the texts are read
    typed = name == "standard input" and sys.stdin.isatty()  # who types waits for an answer
    texts = ((place, _read(summarizer, text)) for place, text in texts)
    number, failed = 0, False
    texts = texts if typed else _examined(name, texts)
    try:
        for number, place, line, candidates in _answers(summarizer, texts, 1 if typed else ROWS, count, beams):
            where, first = (f"{name}, {place}", [str(number)]) if place else (name, [])
            if isinstance(line, CourseError):
                failed = True
                print(end="\n" if count == 1 else "")
            for remark in summarizer.remarks(line) if isinstance(line, str) else [f"error: {line}"] * typed:
                _say(f"{where}: {remark}")
            for summary, probability in candidates:
                words = " ".join(summary.split())
                print(*([*first, f"{probability:.3g}", words] if count > 1 else [words]), sep="\t")
    except BrokenPipeError:  # who reads wants no more; what is still in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if not number:
        raise CourseError(f"{name}: no texts in it; give each a line, or a single one with TEXT='...' or --text")
    if failed:
        sys.exit(1)


def _examined(name: str, texts: "Texts") -> "Texts":
    """The same, after it is said what is wrong with some, once for each reason; where all are wrong, that is raised."""
    found = list(texts)
    broken = [(place, why) for place, why in found if isinstance(why, CourseError)]
    message = f"{name}: {len(broken):,} of {len(found):,} texts can't be summarized{reasons(broken)}"
    if len(broken) == 1:
        message = f"{name}, {broken[0][0]}".removesuffix(", ") + f": {broken[0][1]}"
    if broken and len(broken) == len(found):
        raise CourseError(message)
    _say(*[f"error: {message}"] * bool(broken))
    return iter(found)


def _answers(
    summarizer: "Summarizer", texts: "Texts", at_once: int, count: int, beams: int | None
) -> Iterator[tuple[int, str, str | CourseError, "list[Candidate]"]]:
    """Each text by number and place, with its summaries, or none where it is an error; so many are written at once."""
    numbered = enumerate(texts, start=1)
    while batch := list(islice(numbered, at_once)):
        found = iter(summarizer.candidates([text for _, (_, text) in batch if isinstance(text, str)], count, beams))
        for number, (place, text) in batch:
            yield number, place, text, next(found) if isinstance(text, str) else []
        sys.stdout.flush()


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def _read(summarizer: "Summarizer", text: str | CourseError) -> str | CourseError:
    """A text, or the error that it is, of the file or to the model."""
    return text if isinstance(text, CourseError) else summarizer.refusal(text) or text
