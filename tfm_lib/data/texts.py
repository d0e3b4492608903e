"""Texts to summarize: a line each, or the records of a file; what is no text gives an error, and the next is read."""

import io
import re
import sys
from collections.abc import Iterable, Iterator
from os.path import expanduser
from pathlib import Path

from tfm_lib.data.fields import field_of
from tfm_lib.data.records import PARQUET, TABLES, decode, ending_of, parse_json, read_rows, unpacked
from tfm_lib.data.tables import Row
from tfm_lib.errors import CourseError

Texts = Iterator[tuple[str, str | CourseError]]  # each after its place: "line 3"
ARRAY = re.compile(r"\s*\[\s*\{")  # how records in JSON begin, and hardly any text: in an array, or an object a line
OBJECT = re.compile(r"\s*\{\s*[\"'}]")


def open_texts(path: str, field: str = "article") -> tuple[str, Texts]:
    """The name of a file, and each of its texts, or the error that names what is wrong with it, after its place.

    path: what `read_rows` reads, with this field, or plain text, a text per line; "-" is standard input, whose lines
    may be JSON. Raises CourseError for a file that can't be read.
    """
    if path == "-":
        stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="surrogateescape")
        return "standard input", _of_lines(stream, field)
    file = Path(expanduser(path))
    try:
        data = unpacked(file)
        if data.startswith(PARQUET) or ending_of(file) in TABLES:
            return path, _of_rows(read_rows(file, [field]), field)
        text = decode(data, "surrogateescape")  # a line that is no text is an error of its own
    except (CourseError, OSError) as error:
        raise CourseError(f"can't read {path}: {error}") from error
    if ARRAY.match(text):
        return path, _of_rows(read_rows(file, [field]), field)
    return path, _of_lines(io.StringIO(text, newline=None), field, records=bool(ending_of(file) or OBJECT.match(text)))


def check_text(text: str) -> str | CourseError:
    """The text, or what is wrong with it."""
    if not text.strip():
        return CourseError("it is empty; fill it or leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return CourseError(f"not Unicode ({error}); write it in UTF-8")
    return text


def _of_lines(lines: Iterable[str], field: str, records: bool = False) -> Texts:
    """A text per line, or one per JSON object, where the lines are records or the first one holds such."""
    for number, line in enumerate(lines, start=1):
        records = records or (number == 1 and bool(OBJECT.match(line)))
        text = check_text(line)
        if records and isinstance(text, str):
            yield from _of_rows([Row(f"line {number}", parse_json(text))], field)
        else:
            yield f"line {number}", text


def _of_rows(rows: Iterable[Row], field: str) -> Texts:
    for place, record in rows:
        try:
            yield place, field_of(record, field, [field])
        except CourseError as error:
            yield place, error
