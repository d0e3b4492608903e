"""Texts to summarize, a line each; a line that is none is told, and the others are still read."""

import codecs
import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

from tfm_lib.errors import CourseError


def open_texts(path: str) -> tuple[str, Iterator[str | ValueError]]:
    """The name of a file, and for each line its text, or the error that says what is wrong with it and how to mend it.

    path: plain text, or JSONL with the field `article`, where it ends in .jsonl or begins with a brace; "-" is standard
    input. Raises ValueError for a file that can't be read.
    """
    if path == "-":
        return "standard input", _texts(sys.stdin.buffer, jsonl=False)
    if path.lower().endswith((".csv", ".parquet", ".gz")):
        raise CourseError(
            f"{path}: unknown ending; give a plain text, a text per line, or JSONL with the field article"
        )
    try:
        file = open(path, "rb")  # noqa: SIM115 (its lines are read as they are asked for)
    except OSError as error:
        raise CourseError(f"can't read {path} ({error.strerror}); give a file with a text per line") from error
    return path, _texts(file, jsonl=path.lower().endswith(".jsonl"))


def check_text(text: object) -> str | ValueError:
    """The text, or what is wrong with it."""
    if not isinstance(text, str):
        return ValueError(f"article must be a string, got {type(text).__name__}; write it as text")
    if not text.strip():
        return ValueError("it is empty; fill it or leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return ValueError(f"not Unicode ({error}); write it in UTF-8")
    return text


def _texts(file: BinaryIO, jsonl: bool) -> Iterator[str | ValueError]:
    with file:
        for number, line in enumerate(file):
            if not number:
                line = line.removeprefix(codecs.BOM_UTF8)
                jsonl = jsonl or line.lstrip().startswith(b"{")
            try:
                text = line.decode()
                yield check_text(_article(text) if jsonl and text.strip() else text)
            except UnicodeDecodeError as error:
                yield ValueError(f"not UTF-8 ({error}); save the file as UTF-8")
            except ValueError as error:
                yield error


def _article(line: str) -> object:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise CourseError(f"not JSON ({error}); each line is one whole JSON object") from error
    if not isinstance(record, dict):
        raise CourseError(f"expected an object with article, got {type(record).__name__}")
    if "article" not in record:
        have = ", ".join(record) or "none"
        raise CourseError(f"the field article is missing (there are: {have}); add it or rename one")
    return record["article"]
