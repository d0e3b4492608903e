"""Pairs of article and summary from files, with errors that name file, line and fix; training, dev and test set."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tfm_lib.errors import CourseError, option


class Pair(NamedTuple):
    """A text and what it comes down to."""

    article: str
    summary: str


def read_pairs(path: Path, fields: Sequence[str] = Pair._fields) -> list[Pair]:
    """Read pairs from .jsonl, .jsonl.gz, .csv, .tsv or .parquet with the fields `article` and `summary`.

    fields: how those two are called in the file; others are ignored. Cells of a table may be separated by semicolons
    or tabs, where its first line has no comma. Raises ValueError, with file, line and fix, for anything that isn't
    such a pair.
    """
    path = Path(path)
    reader = next((read for ending, read in READERS.items() if path.name.lower().endswith(ending)), None)
    if reader is None:
        raise CourseError(f"{path}: unknown ending; give a file that ends in {', '.join(READERS)}")
    if not path.is_file():
        raise CourseError(f"{path}: there is no such file; check the path")
    if len({*fields}) < len(fields):
        raise CourseError(f"text and summary are both called {fields[0]}; name two fields of {path}")
    pairs = []
    for where, record in reader(path):
        try:
            pairs.append(_pair(json_object(record) if isinstance(record, str) else record, fields))
        except CourseError as error:
            raise CourseError(f"{where}: {error}") from error
    if not pairs:
        raise CourseError(f"{path}: no pairs in it; give each pair a line with the fields {' and '.join(fields)}")
    return pairs


def field_of(record: object, field: str, fields: Sequence[str], fix: str) -> str:
    """A field of a record. Raises ValueError unless there it is, as a text; fix: what to do where it is missing."""
    if not isinstance(record, dict):
        raise CourseError(f"expected an object with {' and '.join(fields)}, got {type(record).__name__}")
    if field not in record:
        names = ", ".join(name if len(name) < 40 else f"{name[:40]}…" for name in map(str, record)) or "none"
        raise CourseError(f"the field {field} is missing (there are: {names}); {fix}")
    if not isinstance(record[field], str):
        raise CourseError(f"{field} must be a string, got {type(record[field]).__name__}; write it as text or drop it")
    return record[field]


def _pair(record: object, fields: Sequence[str]) -> Pair:
    fix = f"add it, or say which ones hold text and summary: {option('fields', 'TEXT,SUMMARY')}"
    texts = [field_of(record, field, fields, fix).strip() for field in fields]
    for field, text in zip(fields, texts, strict=True):
        if not text:
            raise CourseError(f"{field} is empty; fill it or drop the pair")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise CourseError(f"{field} has half of a character ({half!a}); write both halves or drop it") from error
    return Pair(*texts)


def json_object(line: str) -> object:
    """What a line of JSON holds. Raises ValueError where it is none, or is nested too deeply."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise CourseError(f"not JSON ({error}); each line is one whole JSON object") from error
    except RecursionError as error:
        raise CourseError("brackets nested too deeply; keep article and summary alone") from error


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line of a UTF-8 file, zipped or not, after the place where it stands."""
    number = 0
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith(b"PK\x03\x04"):
                    raise CourseError(f"{path}: a zip file, as workbooks of Excel are; save the sheet as CSV, UTF-8")
                yield f"{path}, line {number}", line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise CourseError(f"{path}, line {number}: not UTF-8 ({error}); save the file as UTF-8") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CourseError(f"{path}, line {number + 1}: broken gzip ({error}); zip or copy the file again") from error


def _read_jsonl(path: Path) -> Iterator[tuple[str, object]]:
    return ((where, line) for where, line in _lines(path) if line.strip())


MARKS = {",": "commas", "\t": "tabs", ";": "semicolons"}  # between cells: what Excel writes depends on the country


def _read_csv(path: Path) -> Iterator[tuple[str, object]]:
    lines = (line for _, line in _lines(path))
    header = next(lines, "")
    mark = next((mark for mark in MARKS if mark in header), ",")
    rows = csv.DictReader(chain([header], lines), delimiter=mark, strict=True)
    last = 0  # the line on which the last complete record ended
    records: list[tuple[str, object]] = []
    usual = csv.field_size_limit(2**31 - 1)  # else a cell of more than 131,072 characters is an error
    try:
        rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
        for row in rows:
            last = rows.line_num
            where = f"{path}, line {last}"
            if None in row or None in row.values():
                raise CourseError(f"{where}: not as many cells as the header; quote a text that holds {MARKS[mark]}")
            records.append((where, row))
    except csv.Error as error:
        raise CourseError(f"{path}, after line {last}: not CSV ({error}); check the quotes there") from error
    finally:
        csv.field_size_limit(usual)
    yield from records


def _read_parquet(path: Path) -> Iterator[tuple[str, object]]:
    from pyarrow import ArrowException, parquet  # here, since importing it takes long

    try:
        groups = parquet.ParquetFile(path).iter_batches()
        for row, record in enumerate(chain.from_iterable(group.to_pylist() for group in groups), start=1):
            yield f"{path}, row {row}", record
    except ArrowException as error:
        raise CourseError(f"{path}: not Parquet ({error}); write the file again") from error


READERS = {".jsonl": _read_jsonl, ".jsonl.gz": _read_jsonl, ".csv": _read_csv, ".tsv": _read_csv}
READERS[".parquet"] = _read_parquet


class Splits(NamedTuple):
    """Pairs to learn from, to choose settings on, and to score at the end."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def read_splits(path: Path, seed: int = 0, fields: Sequence[str] = Pair._fields) -> Splits:
    """Read the pairs of a folder or file, and their development and test set.

    These are the files dev.* and test.* beside train.*. Of any other file, or without those two, `split_pairs` sets
    articles aside. Raises ValueError as `read_pairs`, and where only one of dev and test is there.
    """
    path = Path(path)
    if path.is_dir():
        inside = [path / f"train{ending}" for ending in READERS if (path / f"train{ending}").is_file()]
        if len(inside) != 1:
            raise CourseError(f"{path}: {len(inside)} files named train and ending in {', '.join(READERS)}; want one")
        path = inside[0]
    stem, ending = path.name.partition(".")[::2]
    dev, test = (path.with_name(f"{name}.{ending}") for name in ("dev", "test"))
    files = [file for file in (dev, test) if stem == "train" and file.is_file()]
    if len(files) == 1:
        raise CourseError(f"{path}: {files[0].name} is beside it alone; give both {dev.name} and {test.name}")
    if files:
        return Splits(*(read_pairs(part, fields) for part in (path, dev, test)))
    return split_pairs(read_pairs(path, fields), seed)


def split_pairs(pairs: Sequence[Pair], seed: int = 0) -> Splits:
    """Set aside distinct articles for dev, and as many for test: a twentieth of them, 1000 at most.

    Where that is less than 10, it is 10, as long as these are no more than a tenth of all; 1 at least. A hash of
    article and seed chooses them, so that no article is on two sides.
    """
    articles = {pair.article for pair in pairs}
    if len(articles) < 3:
        raise CourseError(f"{len(articles)} distinct articles; training, development and test set need 3 or more")
    order = sorted(articles, key=lambda article: sha256(f"{seed} {article}".encode()).digest())
    size = min(max(len(order) // 20, min(len(order) // 10, 10), 1), 1000)
    side_of = dict.fromkeys(order[:size], "dev") | dict.fromkeys(order[size : 2 * size], "test")
    return Splits(*([pair for pair in pairs if side_of.get(pair.article, "train") == side] for side in Splits._fields))
