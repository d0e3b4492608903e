"""Texts to summarize, one per line; a line that is no text gives an error, and the next ones are still read."""

import codecs
import sys
from collections.abc import Iterator
from typing import BinaryIO

from tfm_lib.data.pairs import field_of, json_object
from tfm_lib.errors import CourseError


def open_texts(path: str) -> tuple[str, Iterator[str | ValueError]]:
    """The name of a file, and for each line its text, or the error that names what is wrong with it and the fix.

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


def check_text(text: str) -> str | ValueError:
    """The text, or what is wrong with it."""
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
                if jsonl and text.strip():
                    text = field_of(json_object(text), "article", ["article"], "add it or rename one")
                yield check_text(text)
            except UnicodeDecodeError as error:
                yield ValueError(f"not UTF-8 ({error}); save the file as UTF-8")
            except ValueError as error:
                yield error
