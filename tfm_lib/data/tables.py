"""Tables: which sign parts their cells, where quotes are quotes, and the rows, each a record or an error."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfm_lib.data.fields import missing
from tfm_lib.errors import CourseError

NOTHING = '",;|\t \r\n'  # of these signs a blank row consists
LONG = 80  # characters, which names of columns don't have
SHOWN = 5  # reasons why rows are broken, and rows of each
ESCAPED = 'CSV knows no \\": inside of a quoted text write each quote twice, as pandas does by to_csv(FILE)'
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}  # Excel's choice depends on the country


class Row(NamedTuple):
    """One record of a file, or what is wrong with it, and where it stands: "line 3" or "row 3"."""

    place: str
    record: object


def reasons(broken: Sequence[tuple[str, object]]) -> str:
    """Which rows are broken, and why: a line of the first five rows for each of the first five reasons."""
    places = dict[str, list[str]]()
    for place, why in broken:
        places.setdefault(str(why), []).append(place)
    more = {why: f" and {len(of) - SHOWN:,} more" if len(of) > SHOWN else "" for why, of in places.items()}
    return "".join(f"\n  {', '.join(of[:SHOWN])}{more[why]}: {why}" for why, of in list(places.items())[:SHOWN])


def table_rows(text: str, fields: Sequence[str], tabs: bool) -> Iterator[Row]:
    """The rows of a table whose first line names its columns.

    fields: the columns that are wanted, by which the delimiter is told; tabs: it is tabs, if nothing else tells.
    Raises CourseError, after the line, where a column is missing or comes twice, and where quotes are broken.
    """
    lines = list(io.StringIO(text, newline=""))  # ends at \n, \r\n or \r, and the csv module sees which
    filled = (number for number, line in enumerate(lines) if line.strip(NOTHING))
    first, delimiter = next(filled, None), None
    if first is not None and (declared := re.fullmatch(r"sep=(.)\s*", lines[first], re.IGNORECASE)):  # as Excel begins
        lines[first], delimiter, first = "\n", declared[1], next(filled, None)
    if first is None:
        return
    delimiter = delimiter or _delimiter(lines[first], fields, tabs)
    try:
        (place, header), *rows = _rows_of_table(lines, delimiter)
    except csv.Error as error:
        raise CourseError(str(error)) from error
    names = [name.strip() for name in header]
    _check_names(f", line {place}", names, rows[0][1] if rows else names, fields, delimiter)
    for number, row in rows:
        record: object = dict(zip(names, row, strict=False))
        if len(row) < len(names) or any(row[len(names) :]):
            holds = DELIMITERS.get(delimiter, repr(delimiter))
            fix = ESCAPED if any(cell.endswith("\\") for cell in row) else f"quote a text that holds {holds}"
            record = CourseError(f"{len(row)} cells, and {len(names)} in the header; {fix}")
        yield Row(f"line {number}", record)


def _delimiter(header: str, fields: Sequence[str], tabs: bool) -> str:
    """What parts the names of columns: what finds the most of the fields, and else the most names."""

    def likely(mark: str) -> tuple[int, bool, int]:
        names = _names(header, mark)
        return len({*fields} & {*names}), tabs and mark == "\t", len(names)

    return max(DELIMITERS, key=likely)


def _check_names(place: str, names: list[str], example: list[str], fields: Sequence[str], delimiter: str) -> None:
    for field in fields:
        if names.count(field) > 1:
            raise CourseError(f"{place}: the column {field} comes twice; rename one of them")
        if field not in names:
            lack = missing(field, dict(zip(names, example, strict=False)), fields)
            if max(map(len, names)) > LONG:
                lack += f"; or, if it is a row, write a line above it: {delimiter.join(fields)}"
            raise CourseError(f"{place}: this line has to name the columns; {lack}")


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
        if error and '""' in "".join(lines):
            raise error  # who doubles quotes writes CSV, in which one is broken
        if error or glued or len({len(row) for _, row in rows}) > 1:
            plain = list(_cells(lines, delimiter, quoted=False))
            if len({len(row) for _, row in plain}) == 1:
                return plain
    if error:
        raise error
    return rows


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
        escaped = '\\"' in "".join([*lines][begin - 1 : rows.line_num])
        fix = ESCAPED if escaped else "check the quotes of the row that begins there"
        raise csv.Error(f", line {begin}: not CSV ({error}); {fix}") from error
    finally:
        csv.field_size_limit(usual)


def is_table(text: str, fields: Sequence[str]) -> bool:
    """Whether it is a table whose first line names all these fields."""
    line = next((line for line in io.StringIO(text, newline="") if line.strip(NOTHING)), "")
    return any(fields and {*fields} <= {*_names(line, mark)} for mark in DELIMITERS)


def _names(line: str, delimiter: str) -> list[str]:
    try:
        return [name.strip() for _, row in _cells([line], delimiter) for name in row]
    except csv.Error:
        return [name.strip() for name in line.split(delimiter)]
