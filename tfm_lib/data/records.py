"""Records of a file, whatever wrote it: its content says whether it is JSON, a table or Parquet, and in which encoding.

A file that is none of these is refused once. A row that can't be read is an error in its place, and reading goes on.
"""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from tfm_lib.errors import CourseError, option

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")  # each of them also with .gz, but Parquet
TABLES = (".csv", ".tsv")
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}  # Excel's choice depends on the country
NULLS = {"NaN", "nan", "<NA>", "null", "NULL", "None"}  # as pandas and databases write a cell that holds nothing
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
NO_TEXT = {  # how a file begins that is neither text nor Parquet, and what to do with it
    b"PK\x03\x04": "a zip file, as workbooks of Excel and documents of Word are; save it as CSV or as text, in UTF-8",
    b"\xd0\xcf\x11\xe0": "a document of an old Office; save it as CSV or as text, in UTF-8",
    b"%PDF": "a PDF; save its text as plain text, in UTF-8",
    b"BZh": "packed by bzip2; unpack it first",
    b"\xfd7zXZ": "packed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
}


class Row(NamedTuple):
    """One record of a file, or what is wrong with it, and where it stands: "line 3" or "row 3"."""

    place: str
    record: object


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
        data = _unpacked(path)
        if data.startswith(b"PAR1"):
            yield from _parquet_rows(data)
            return
        text = decode(data)
        if text.lstrip()[:1] in ("{", "["):
            yield from _json_rows(text)
        elif ending_of(path) in TABLES or _header(text, fields):
            yield from _table_rows(text, fields, tabs=ending_of(path) == ".tsv")
        elif ending_of(path) and not text.strip():
            return
        elif ending_of(path):
            raise CourseError(f"not JSON: it begins with {text.lstrip()[:20]!r}; each line is one whole JSON object")
        else:
            raise CourseError(f"no records; give a file that ends in {', '.join(ENDINGS)}")
    except CourseError as error:
        raise CourseError(f"{path}{'' if str(error).startswith(', ') else ': '}{error}") from error


def _unpacked(path: Path) -> bytes:
    if path.is_dir():
        raise CourseError("a folder; give a file, or a folder that holds train.jsonl or another train file")
    if not path.is_file():
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


def _json_rows(text: str) -> Iterator[Row]:
    lines = [(number, line) for number, line in enumerate(io.StringIO(text, newline=None), start=1) if line.strip()]
    first = parse_json(lines[0][1])
    if isinstance(first, CourseError) or (isinstance(first, list) and (len(lines) == 1 or first == [])):
        try:
            whole = json.loads(text, object_pairs_hook=_unique, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            if text.lstrip()[0] == "[":
                raise CourseError(f"a JSON array that breaks ({error}); mend it, or write a record a line") from error
            whole = None  # lines, of which the first one is broken
        if isinstance(whole, list) and all(isinstance(record, dict) for record in whole):
            yield from (Row(f"record {number}", record) for number, record in enumerate(whole, start=1))
            return
        if isinstance(whole, dict) and len(lines) > 1:
            raise CourseError("one JSON object over many lines; write each record as an object on a line of its own")
    yield from (Row(f"line {number}", parse_json(line)) for number, line in lines)


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


def _cells(lines: Iterable[str], delimiter: str, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that aren't blank, each after the number of its first line. Raises csv.Error."""
    usual = csv.field_size_limit(2**31 - 1)  # else a cell of more than 131,072 characters is an error
    dialect = {"delimiter": delimiter, "strict": True, "skipinitialspace": delimiter != "\t"}
    rows = csv.reader(lines, **dialect, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)  # type: ignore[arg-type]
    begin = 1
    try:
        for row in rows:
            if any(cell.strip() for cell in row):
                yield begin, row
            begin = rows.line_num + 1
    except csv.Error as error:
        raise csv.Error(f", line {begin}: not CSV ({error}); check the quotes of the row that begins there") from error
    finally:
        csv.field_size_limit(usual)


def _header(text: str, fields: Sequence[str]) -> str | None:
    """The delimiter of a table whose first line names all these fields."""
    line = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    return next((mark for mark in DELIMITERS if fields and {*fields} <= {*_names(line, mark)}), None)


def _names(line: str, delimiter: str) -> list[str]:
    try:
        return [name.strip() for _, row in _cells([line], delimiter) for name in row]
    except csv.Error:
        return [name.strip() for name in line.split(delimiter)]


def _table_rows(text: str, fields: Sequence[str], tabs: bool) -> Iterator[Row]:
    lines = list(io.StringIO(text, newline=""))  # ends at \n, \r\n or \r, and the csv module sees which
    begin = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if begin == len(lines):
        return
    delimiter = None
    if told := re.fullmatch(r"sep=(.)\s*", lines[begin], re.IGNORECASE):  # as Excel begins a file
        delimiter, begin = told[1], begin + 1
    if delimiter is None:

        def likely(mark: str) -> tuple[int, bool, int]:
            names = _names(lines[begin], mark)
            return len({*fields} & {*names}), tabs and mark == "\t", len(names)

        delimiter = max(DELIMITERS, key=likely)
    try:
        rows = _rows_of_table(lines[begin:], delimiter)
    except csv.Error as error:
        line = int(re.findall(r"line (\d+)", str(error))[0])
        raise CourseError(str(error).replace(f"line {line}", f"line {line + begin}", 1)) from error
    names = [name.strip() for name in rows[0][1]]
    for field in fields:
        if names.count(field) > 1:
            raise CourseError(f", line {begin + 1}: the column {field} comes twice; rename one of them")
        if field not in names:
            example = dict(zip(names, rows[1][1] if len(rows) > 1 else names, strict=False))
            raise CourseError(
                f", line {begin + 1}: this line has to name the columns; {_missing(field, example, fields)}"
            )
    holding = DELIMITERS.get(delimiter, repr(delimiter))
    for number, row in rows[1:]:
        place = f"line {begin + number}"
        if len(row) < len(names) or any(row[len(names) :]):
            count = f"{len(row)} cells, and {len(names)} in the header"
            yield Row(place, CourseError(f"{count}; quote a text that holds {holding}"))
        else:
            yield Row(place, dict(zip(names, row, strict=False)))


def _rows_of_table(lines: list[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """The rows, by the rules of CSV (RFC 4180); quotes are ordinary signs in a table of tabs that isn't one by these.

    There a quote that opens a cell may close rows later, and glue them: such a cell holds both a tab and a line's end.
    """
    error = None
    try:
        rows = list(_cells(lines, delimiter))
    except csv.Error as found:
        rows, error = [], found
    if delimiter == "\t" and '"' in "".join(lines):
        glued = any(delimiter in cell and re.search(r"[\r\n]", cell) for _, row in rows for cell in row)
        if error or glued or len({len(row) for _, row in rows}) > 1:
            plain = list(_cells(lines, delimiter, quoted=False))
            if len({len(row) for _, row in plain}) == 1:
                return plain
    if error:
        raise error
    return rows


def _parquet_rows(data: bytes) -> Iterator[Row]:
    from pyarrow import ArrowException, BufferReader, parquet  # here, since importing it takes long

    try:
        groups = parquet.ParquetFile(BufferReader(data)).iter_batches()
        for number, record in enumerate(chain.from_iterable(group.to_pylist() for group in groups), start=1):
            yield Row(f"row {number}", record)
    except ArrowException as error:
        raise CourseError(f"not Parquet ({error}); write the file again") from error


def field_of(record: object, field: str, fields: Sequence[str]) -> str:
    """A field of a record as a text: `translation.en` and `messages.0.content` are inside of other fields.

    Raises CourseError where there is none, where it holds nothing, or something else than a text; it names the fields
    that there are, and what to type for those inside.
    """
    if isinstance(record, CourseError):
        raise record
    if not isinstance(record, dict):
        raise CourseError(f"expected an object with {' and '.join(fields)}, got {type(record).__name__}")
    value = _inside(record, field)
    if value is _MISSING:
        raise CourseError(_missing(field, record, fields))
    if value is None or value in NULLS:
        raise CourseError(f"{field} is {'null' if value is None else value}, which means that it is missing")
    if not isinstance(value, str):
        raise CourseError(f"{field} must be a string, got {type(value).__name__}; write it as text")
    text = value.strip()
    if not text:
        raise CourseError(f"{field} is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CourseError(f"{field} has half of a character ({text[error.start]!a}); write both halves") from error
    return text


_MISSING = object()


def _inside(record: object, field: str) -> object:
    if isinstance(record, dict) and field in record:
        return record[field]
    for part in field.split("."):
        if isinstance(record, dict) and part in record:
            record = record[part]
        elif isinstance(record, list) and part.isdecimal() and int(part) < len(record):
            record = record[int(part)]
        else:
            return _MISSING
    return record


def _missing(field: str, record: dict, fields: Sequence[str]) -> str:
    names = ", ".join(_quoted(name if len(name) < 40 else f"{name[:40]}…") for name in map(str, record)) or "none"
    sides = ("text", "summary")[: len(fields)]
    example = ",".join(map(_quoted, _likely(record, fields) or [side.upper() for side in sides]))
    which = f"say which hold {' and '.join(sides)}" if len(fields) > 1 else f"say which holds the {sides[0]}"
    return f"the field {field} is missing (there are: {names}); add it, or {which}: {option('fields', quote(example))}"


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _likely(record: dict, fields: Sequence[str]) -> list[str] | None:
    """Names of fields that hold texts: a translation's, those of the first turns of a chat, else the longest texts."""
    for name, value in record.items():
        texts = []
        if isinstance(value, dict):
            texts = [f"{name}.{part}" for part, text in value.items() if isinstance(text, str)]
        elif isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
            turns = [turn for turn in enumerate(value) if turn[1].get("role", turn[1].get("from")) != "system"]
            texts = [f"{name}.{place}.{part}" for place, turn in turns for part in ("content", "value") if part in turn]
        if len(texts) >= len(fields):
            return texts[: len(fields)]
    texts = [name for name, value in record.items() if isinstance(value, str) and name not in fields and name]
    texts.sort(key=lambda name: -len(record[name]))
    names = [field if field in record else texts.pop(0) if texts else None for field in fields]
    return None if None in names else names  # type: ignore[return-value]
