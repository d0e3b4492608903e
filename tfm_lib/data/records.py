"""Records of a file, whatever wrote it: its content says whether it is JSON, a table or Parquet, and in which encoding.

A file that is none of these is refused once. A row that can't be read is an error in its place, and reading goes on.
"""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tfm_lib.data.fields import holds_all
from tfm_lib.data.tables import Row, is_table, table_rows
from tfm_lib.errors import CourseError

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")  # each of them also with .gz, but Parquet
TABLES = (".csv", ".tsv")
PARQUET = b"PAR1"  # how such a file begins
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
LINES = "write each record as an object on a line of its own; pandas: to_json(FILE, orient='records', lines=True)"
NO_TEXT = {  # how a file begins that is neither text nor Parquet, and what to do with it
    b"PK\x03\x04": "a zip file, as workbooks of Excel and documents of Word are; save it as CSV or as text, in UTF-8",
    b"\xd0\xcf\x11\xe0": "a document of an old Office; save it as CSV or as text, in UTF-8",
    b"%PDF": "a PDF; save its text as plain text, in UTF-8",
    b"version https://git-lfs": "a pointer of Git LFS in place of the file; fetch that: git lfs pull",
    b"BZh": "packed by bzip2; unpack it first",
    b"\xfd7zXZ": "packed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
}


def ending_of(path: Path) -> str:
    """The ending that names the format of a file, as `.csv` of a.csv and a.CSV.gz; "" for another one."""
    name = path.name.lower().removesuffix(".gz")
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


def read_rows(path: Path, fields: Sequence[str]) -> Iterator[Row]:
    """Each record of a file, by what the file contains: JSON lines, a JSON array, a table with a header, or Parquet.

    fields: the columns that are wanted, by which the delimiter of a table is told. A record is a dict, or a
    `CourseError` where its row is broken. Raises CourseError, with the file's name, where the whole file is.
    """
    try:
        data = unpacked(path)
        if data.startswith(PARQUET):
            yield from _parquet_rows(data, fields)
            return
        text = decode(data)
        if text.lstrip()[:1] in ("{", "["):
            yield from _json_rows(text, fields)
        elif ending_of(path) in TABLES or is_table(text, fields):
            yield from table_rows(text, fields, tabs=ending_of(path) == ".tsv")
        elif ending_of(path) and not text.strip():
            return
        elif ending_of(path):
            raise CourseError(f"not JSON: it begins with {text.lstrip()[:20]!r}; each line is one whole JSON object")
        else:
            raise CourseError(f"no records; give a file that ends in {', '.join(ENDINGS)}")
    except CourseError as error:
        raise CourseError(f"{path}{'' if str(error).startswith(', ') else ': '}{error}") from error


def unpacked(path: Path) -> bytes:
    """The bytes of a file, unzipped where it is gzip. Raises CourseError where there is none, or a broken one."""
    if path.is_dir():
        raise CourseError("a folder; give one of its files")
    if not path.exists():  # a pipe of the shell is no file, and can be read
        raise CourseError("there is no such file; check the path")
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            return gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise CourseError(f"broken gzip ({error}); zip or copy the file again") from error
    if path.suffix.lower() == ".gz":
        raise CourseError("broken gzip (it begins otherwise); zip or copy the file again")
    return data


def decode(data: bytes, errors: str = "strict") -> str:
    """The text of a file: in UTF-8, or in another Unicode encoding that its first bytes tell.

    errors: as of `bytes.decode`. Raises CourseError with the line of the first byte that is no text, and for the kinds
    of files that are none.
    """
    for signature, kind in NO_TEXT.items():
        if data.startswith(signature):
            raise CourseError(kind)
    mark, encoding = _encoding(data)
    try:
        text = data.removeprefix(mark).decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\n|\r", data[: len(mark) + error.start])) + 1
        raise CourseError(f", line {line}: not {encoding.upper()} ({error.reason}); save the file as UTF-8") from error
    if "\0" in text:
        raise CourseError("no text (it holds zero bytes); give JSON lines, a table as CSV, or Parquet")
    if re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE):
        raise CourseError("a web page or XML; save its text as plain text, or its records as JSON lines")
    return text


def _encoding(data: bytes) -> tuple[bytes, str]:
    """The byte order mark and the encoding: UTF-8 unless that mark, or zeros in every other byte, say another one."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return mark, encoding
    head = data[:200]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 3 and head[first::2].count(0) > 0.8 * len(head[first::2]):
            return b"", encoding
    return b"", "utf-8"


def _json_rows(text: str, fields: Sequence[str]) -> Iterator[Row]:
    lines = [(number, line) for number, line in enumerate(io.StringIO(text, newline=None), start=1) if line.strip()]
    first = parse_json(lines[0][1])
    if isinstance(first, CourseError) or (isinstance(first, list) and (len(lines) == 1 or first == [])):
        try:
            content = json.loads(text, object_pairs_hook=_unique, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            if text.lstrip()[0] == "[":
                raise CourseError(f"a JSON array that breaks ({error}); mend it, or write a record a line") from error
            if re.search(r"[\r\n]", _first_object(text)):
                raise CourseError(f"one JSON object over many lines; {LINES}") from error
            content = None  # lines, of which the first one is broken
        if isinstance(content, list) and all(isinstance(record, dict) for record in content):
            yield from (Row(f"record {number}", record) for number, record in enumerate(content, start=1))
            return
        if isinstance(content, dict):
            raise CourseError(f"one JSON object over many lines; {LINES}")
    if len(lines) == 1 and isinstance(first, dict) and holds_all(first, fields):
        raise CourseError(f"one JSON object that holds all records; {LINES}")
    yield from (Row(f"line {number}", parse_json(line)) for number, line in lines)


def _first_object(text: str) -> str:
    """The JSON with which a text begins, over as many lines as it takes."""
    text = text.lstrip()
    try:
        return text[: json.JSONDecoder().raw_decode(text)[1]]
    except (ValueError, RecursionError):
        return ""


def parse_json(line: str) -> object:
    """What a line of JSON holds, NaN as None; a `CourseError` where it is none, or says a key twice."""
    try:
        return json.loads(line, object_pairs_hook=_unique, parse_constant=lambda _: None)
    except CourseError as error:
        return error
    except ValueError as error:
        fix = "each line is one whole JSON object"
        if line.rstrip().endswith(","):
            fix = "leave the comma at its end out"
        elif line.lstrip().startswith("{'"):
            fix = 'JSON wants "double quotes"; Python writes it by json.dumps'
        return CourseError(f"not JSON ({error}); {fix}")
    except RecursionError:
        return CourseError("brackets nested too deeply; keep article and summary alone")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        [twice, *_] = [name for name in names if names.count(name) > 1]
        raise CourseError(f"the key {twice} comes twice; keep one of them")
    return record


def _parquet_rows(data: bytes, fields: Sequence[str]) -> Iterator[Row]:
    from pyarrow import BufferReader, parquet  # here, since importing it takes long

    try:
        file = parquet.ParquetFile(BufferReader(data))
        names = file.schema_arrow.names
        if twice := [field for field in fields if names.count(field) > 1]:
            raise CourseError(f"the column {twice[0]} comes twice; rename one of them")
        groups = file.iter_batches(columns=[*fields] if {*fields} <= {*names} else None)  # others cost time and memory
        for number, record in enumerate(chain.from_iterable(group.to_pylist() for group in groups), start=1):
            yield Row(f"row {number}", record)
    except CourseError:
        raise
    except (ValueError, ArithmeticError, NotImplementedError, OSError) as error:  # Arrow's are of these kinds
        raise CourseError(f"not Parquet ({error}); write the file again") from error
