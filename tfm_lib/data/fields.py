"""Fields of a record: which holds a text, also one inside of another, and what to type where none is found."""

import re
from collections.abc import Sequence
from shlex import quote

from tfm_lib.errors import CourseError, option

NULLS = {"NaN", "nan", "<NA>", "null", "NULL", "None"}  # as pandas and databases write a cell that holds nothing
LANGUAGE = re.compile(r"[a-z]{2,3}([-_]\w+)?", re.IGNORECASE)  # how a field of a translation is called: en, pt-BR
SHOWN = 20  # names of fields
_MISSING = object()


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
        raise CourseError(missing(field, record, fields))
    if value is None or (isinstance(value, str) and value in NULLS):
        raise CourseError(f"{field} is {'null' if value is None else value}, which means that it is missing")
    if not isinstance(value, str):
        first = next(iter(value), None) if isinstance(value, dict) else 0 if value and isinstance(value, list) else None
        part = "" if first is None else f", or name a part of it, such as {field}.{first}"
        raise CourseError(f"{field} must be a string, got {type(value).__name__}; write it as text{part}")
    text = value.strip()
    if not text:
        raise CourseError(f"{field} is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CourseError(f"{field} has half of a character ({text[error.start]!a}); write both halves") from error
    return text


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


def holds_all(content: dict[str, object], fields: Sequence[str]) -> bool:
    """Whether an object has a column for each field, or the records themselves, as pandas and SQuAD write them."""
    inside = [value[0] if isinstance(value, list) and value else value for value in content.values()]
    records = any(isinstance(value, dict) and {*fields} <= value.keys() for value in inside)
    return records or all(isinstance(content.get(field), list | dict) for field in fields)


def missing(field: str, record: dict, fields: Sequence[str]) -> str:
    """That a record lacks a field: which ones it has, and what to type where some of them hold what is wanted."""
    shown = [_quoted(name if len(name) < 40 else f"{name[:40]}…") for name in map(str, record)]
    more = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    names = ", ".join([*shown[:SHOWN], *more]) or "none"
    sides = ("text", "summary")[: len(fields)]
    likely = _likely(record, fields) or [side.upper() for side in sides]
    folders, parts = zip(*(name.rpartition(".")[::2] for name in likely), strict=True)
    translation = len({*folders}) == 1 < len(fields) and (folders[0] or all(map(LANGUAGE.fullmatch, parts)))
    if translation and not folders[0]:
        likely.sort(key=[*record].index)  # the same in each row, whichever side is longer there
    example, turned = (option("fields", quote(",".join(map(_quoted, order)))) for order in (likely, likely[::-1]))
    if translation:
        example += f"; this reads {likely[0]} and writes {likely[1]}, and {turned} the other way round"
    which = f"say which hold {' and '.join(sides)}" if len(fields) > 1 else f"say which holds the {sides[0]}"
    return f"the field {field} is missing (there are: {names}); add it, or {which}: {example}"


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _inner(name: str, value: object) -> list[str]:
    """The names of the texts inside of a field, however deep."""
    if isinstance(value, dict):
        return [inner for part, text in value.items() for inner in _inner(f"{name}.{part}", text)]
    return [name] if isinstance(value, str) else []


def _likely(record: dict, fields: Sequence[str]) -> list[str] | None:
    """Names of fields that hold texts: a translation's, those of the first turns of a chat, else the longest texts."""
    for name, value in record.items():
        texts = []
        if isinstance(value, dict):
            texts = _inner(name, value)
        elif isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
            turns = [turn for turn in enumerate(value) if turn[1].get("role", turn[1].get("from")) != "system"]
            texts = [f"{name}.{place}.{part}" for place, turn in turns for part in ("content", "value") if part in turn]
        if len(texts) >= len(fields):
            return texts[: len(fields)]
    texts = [name for name, value in record.items() if isinstance(value, str) and name not in fields and name]
    texts.sort(key=lambda name: -len(record[name]))
    names = [field if field in record else texts.pop(0) if texts else None for field in fields]
    return None if None in names else names  # type: ignore[return-value]
