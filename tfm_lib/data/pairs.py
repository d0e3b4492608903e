"""Pairs of article and summary from files, with errors that name file, line and fix; training, dev and test set."""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from os.path import expanduser
from pathlib import Path
from typing import NamedTuple

from tfm_lib.data.fields import field_of
from tfm_lib.data.records import ENDINGS, ending_of, read_rows
from tfm_lib.data.tables import reasons
from tfm_lib.errors import CourseError, option

LIST = re.compile(r"""\[\s*["'].*["']\s*\]""", re.DOTALL)  # as pandas writes a list into a cell
NAMES = {  # what the hub and its datasets call the files of the splits
    "train": ("train", "training"),
    "dev": ("dev", "validation", "valid", "val", "eval"),
    "test": ("test",),
}


class Pair(NamedTuple):
    """A text and what it comes down to."""

    article: str
    summary: str


def read_pairs(
    path: Path,
    fields: Sequence[str] = Pair._fields,
    *,
    skip: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> list[Pair]:
    """Read pairs from JSON lines, a JSON array, CSV, TSV or Parquet with the fields `article` and `summary`.

    fields: how those two are called in the file; others are ignored. `translation.en` is inside of another field.
    skip: leave out rows that are no pairs; `say` is told how many, and why.
    Raises CourseError for a file that can't be read, and, unless they are skipped, for the rows that are no pairs: how
    many, the first five with their lines, and what to do.
    """
    path = Path(expanduser(path))
    if len({*fields}) < len(fields):
        raise CourseError(f"text and summary are both called {fields[0]}; name two fields of {path}")
    pairs, broken = [], []
    for place, record in read_rows(path, fields):
        try:
            pairs.append(Pair(*(field_of(record, field, fields) for field in fields)))
        except CourseError as error:
            broken.append((place, error))
    if not pairs and not broken:
        raise CourseError(f"{path}: no pairs in it; give each pair a line with the fields {' and '.join(fields)}")
    count = len(pairs) + len(broken)
    if not pairs:
        raise CourseError(f"{path}: none of {count:,} rows is a pair{reasons(broken)}")
    if broken and not skip:
        fix = f"mend them, or leave them out: {option('skip')}"
        raise CourseError(f"{path}: {len(broken):,} of {count:,} rows are no pairs; {fix}{reasons(broken)}")
    skipped = f", {len(broken):,} skipped{reasons(broken)}" if broken else ""
    say(f"{path.name}: {count:,} row{'s' * (count != 1)}, {len(pairs):,} pair{'s' * (len(pairs) != 1)}{skipped}")
    if lists := [text for pair in pairs for text in pair if LIST.fullmatch(text)]:
        example = f"{len(lists):,} of the texts may be lists, such as {lists[0][:20]}"
        say(f"{path.name}: {example}, and their brackets are learned, too; join the parts of each, if that isn't meant")
    return pairs


class Splits(NamedTuple):
    """Pairs to learn from, to choose settings on, and to score at the end."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def read_splits(
    path: Path,
    seed: int = 0,
    fields: Sequence[str] = Pair._fields,
    *,
    skip: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Splits:
    """Read the pairs of a folder or file, and their development and test set.

    These are files beside train.*, by the names that are usual (`NAMES`), also in parts, as
    train-00000-of-00002.parquet. What is missing of them, `split_pairs` sets aside of the training pairs, as of any
    other file. `say` is told what was read, which files were ignored, and how many articles of the development and
    test set stand in the training set, too. Raises CourseError as `read_pairs`, and for a folder without a train file.
    """
    path = Path(expanduser(path))
    files = _files_of_splits(path)
    parts = {
        split: [pair for file in of_split for pair in read_pairs(file, fields, skip=skip, say=say)]
        for split, of_split in files.items()
    }
    train = parts.get("train") or read_pairs(path, fields, skip=skip, say=say)
    missing = [split for split in ("dev", "test") if split not in files]
    try:
        splits = split_pairs(train, seed, missing)
    except CourseError as error:
        raise CourseError(f"{path}: {error}") from error
    splits = splits._replace(**{split: pairs for split, pairs in parts.items() if split != "train"})
    aside = f"; {' and '.join(missing)} set aside of the training pairs" if files and missing else ""
    if files:
        folder, used = files["train"][0].parent, {file.name for of_split in files.values() for file in of_split}
        ignored = [file.name for file in sorted(folder.iterdir()) if file.name not in used and ending_of(file)]
        if ignored:
            say(f"ignored in {folder}: {', '.join(ignored)}")
    say(f"{', '.join(f'{split} {len(pairs):,}' for split, pairs in splits._asdict().items())} pairs{aside}")
    known = {_alike(pair.article) for pair in splits.train}
    for split, pairs in (("dev", splits.dev), ("test", splits.test)):
        if again := sum(_alike(pair.article) in known for pair in pairs):
            say(f"{again:,} of {len(pairs):,} {split} articles are in the training set, too: scores flatter it")
    return splits


def _files_of_splits(path: Path) -> dict[str, list[Path]]:
    """The files of each split, whole or in parts: of a folder, or beside a file called train. Without such: nothing."""
    if not path.exists():
        return {}
    folder = path if path.is_dir() else path.parent
    if path.is_dir() and not _named(folder, "train") and (path / "data").is_dir():
        folder = path / "data"  # where the hub keeps them
    found = {split: files for split, names in NAMES.items() for name in names[::-1] if (files := _named(folder, name))}
    if path.is_dir() and "train" not in found:
        inner = [child for child in sorted(path.iterdir()) if child.is_dir() and _named(child, "train")]
        fix = f"give one of its folders, such as {inner[0]}" if inner else "give one, or a file"
        if saved := [*path.glob("data-*.arrow"), *path.glob("train/data-*.arrow")]:  # by `save_to_disk` of datasets
            fix = f"write one: datasets.load_from_disk({str(saved[0].parent)!r}).to_json('train.jsonl')"
        raise CourseError(f"{path}: no file named train that ends in {', '.join(ENDINGS)}; {fix}")
    if path.is_file():
        if not _is_one_of(path, found.get("train", ())):
            return {}
        alike = {split: [file for file in files if _suffix(file) == _suffix(path)] for split, files in found.items()}
        found = {split: files for split, files in alike.items() if files}
    for split, files in found.items():
        if len({_suffix(file) for file in files}) > 1:
            names = " and ".join(file.name for file in files)
            raise CourseError(f"{folder}: {names} are {split} twice; give one of them instead of the folder")
    return found


def _is_one_of(path: Path, files: Sequence[Path]) -> bool:
    """Whether the system takes a file for one of these, as train.csv for Train.csv where case makes no other file."""
    return any(path.samefile(file) for file in files)


def _suffix(file: Path) -> str:
    return file.name.lower().partition(".")[2]


def _named(folder: Path, name: str) -> list[Path]:
    """The files of that name, or the parts into which the hub cuts such: train-00000-of-00002.parquet."""
    pattern = re.compile(rf"{name}(-\d+-of-\d+(-\w+)?)?\.", re.IGNORECASE)
    return [file for file in sorted(folder.iterdir()) if pattern.match(file.name) and ending_of(file)]


def stem(data: Path) -> str:
    """What pairs are called that `read_splits` reads, however they are given: as their file, or a split's folder."""
    path = Path(expanduser(data)).resolve()
    if path.is_file() and any(_is_one_of(path, _named(path.parent, name)) for name in NAMES["train"]):
        path = path.parent
    if path.is_dir():
        name = path.parent.name if path.name == "data" else path.name
    else:
        name = path.name[: len(path.name.lower().removesuffix(".gz")) - len(ending_of(path))]
    return name.strip(".") or "data"


def split_pairs(pairs: Sequence[Pair], seed: int = 0, wanted: Sequence[str] = ("dev", "test")) -> Splits:
    """Set aside distinct articles for dev, and as many for test: a twentieth of them, 1000 at most.

    Where that is less than 10, it is 10, as long as these are no more than a tenth of all; 1 at least. A hash of
    article and seed chooses them, so that no article is on two sides; case and blanks make no other article.
    """
    articles: dict[str, str] = {}  # of those that are alike, the first one by the alphabet, whatever their order
    for article in {pair.article for pair in pairs}:
        articles[_alike(article)] = min(article, articles.get(_alike(article), article))
    if len(articles) < 1 + len(wanted):
        sets = "training, development and test set" if len(wanted) == 2 else f"training and {wanted[0]} set"
        raise CourseError(f"{len(articles)} distinct articles; {sets} need {1 + len(wanted)} or more")
    order = sorted(articles, key=lambda alike: sha256(f"{seed} {articles[alike]}".encode()).digest())
    size = min(max(len(order) // 20, min(len(order) // 10, 10), 1), 1000)
    side_of = {alike: split for place, split in enumerate(wanted) for alike in order[place * size : (place + 1) * size]}
    sides = [side_of.get(_alike(pair.article), "train") for pair in pairs]
    return Splits(*([p for p, side in zip(pairs, sides, strict=True) if side == split] for split in Splits._fields))


def _alike(article: str) -> str:
    """What two articles have in common that differ in case and blanks alone."""
    return " ".join(article.casefold().split())
