"""Texts to summarize: a line each, or the records of a file; what is no text gives an error, and the next is read."""

import io
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tfm_lib.data.records import Row, decode, ending_of, field_of, parse_json, read_rows
from tfm_lib.errors import CourseError

Texts = Iterator[tuple[str, str | CourseError]]  # each after its place: "line 3"
JSON = re.compile(r"\s*(\{\s*[\"'}]|\[\s*\{)")  # how records begin in JSON, and hardly any text


def open_texts(path: str, field: str = "article") -> tuple[str, Texts]:
    """The name of a file, and each of its texts, or the error that names what is wrong with it, after its place.

    path: what `read_rows` reads, with this field, or plain text, a text per line; "-" is standard input, whose lines
    may be JSON. Raises CourseError for a file that can't be read.
    """
    if path == "-":
        stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="surrogateescape")
        return "standard input", _of_lines(stream, field)
    file = Path(path).expanduser()
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CourseError(f"can't read {path} ({error.strerror}); give a file with a text per line") from error
    if ending_of(file) or data.startswith((b"PAR1", b"\x1f\x8b")):
        return path, _of_rows(read_rows(file, [field]), field)
    try:
        text = decode(data, "surrogateescape")  # a line that is no text is an error of its own
    except CourseError as error:
        raise CourseError(f"{path}: {error}") from error
    if JSON.match(text):
        return path, _of_rows(read_rows(file, [field]), field)
    return path, _of_lines(io.StringIO(text, newline=None), field)


def check_text(text: str) -> str | CourseError:
    """The text, or what is wrong with it."""
    if not text.strip():
        return CourseError("it is empty; fill it or leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return CourseError(f"not Unicode ({error}); write it in UTF-8")
    return text


def _of_lines(lines: Iterable[str], field: str) -> Texts:
    """A text per line, or one per JSON object where the first line holds one."""
    lines = iter(lines)
    first = next(lines, None)
    if first is None:
        return
    rows = ((f"line {number}", line) for number, line in enumerate(chain([first], lines), start=1))
    if JSON.match(first):
        yield from _of_rows((Row(place, parse_json(line)) for place, line in rows if line.strip()), field)
    else:
        yield from ((place, check_text(line)) for place, line in rows)


def _of_rows(rows: Iterable[Row], field: str) -> Texts:
    for place, record in rows:
        try:
            yield place, field_of(record, field, [field])
        except CourseError as error:
            yield place, error
