"""What a model writes that knows its pairs by heart: whether it is what it knows, and if not, what it is instead."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from tfm_lib.checkup.given import writer
from tfm_lib.checkup.report import Finding
from tfm_lib.checkup.subject import SOURCE, Subject


class Pairs(NamedTuple):
    """Texts (B, S), what belongs to each, from start to end (B, T), and which of its next tokens count (B, T - 1)."""

    src: Tensor
    tgt: Tensor
    asked: Tensor

    @property
    def words(self) -> list[list[int]]:
        """Of each pair, what is to be written; without an end where all have the same length."""
        return [row[which].tolist() for row, which in zip(self.tgt[:, 1:], self.asked, strict=True)]


def writing(subject: Subject, pairs: Pairs) -> Iterator[Finding]:
    """Write what is known, alone and in a batch; with padding behind the source."""
    if subject.generate is None or not subject.two or subject.start_id is None:
        return
    write, _ = writer(subject)
    padded = pairs.src if subject.src.pad_id is None else subject.src.padded(pairs.src, SOURCE)
    try:
        rows = [_plain(subject, row) for row in write(pairs.src)]
        alone = [_plain(subject, row) for text in pairs.src.split(1) for row in write(text)]
        behind = [_plain(subject, row) for row in write(padded)]
    except Exception:  # the part that looks at `generate` says so
        return
    if any(isinstance(word, str) for row in rows for word in row):
        few, many, after = 0, *(sum(a != b for a, b in zip(alone, others, strict=True)) for others in (rows, behind))
    else:
        few, many, after = (_missed(pairs, found) for found in (alone, rows, behind))
    known = f"of {len(rows)} pairs that it knows by heart"
    ended = [(row, words) for row, words in zip(alone, pairs.words, strict=True) if words[-1] == subject.eos_id]
    right = sum(row[: len(words) - 1] == words[:-1] for row, words in ended) > len(ended) // 2
    if right and not any(subject.eos_id in row for row in alone):
        yield Finding.of("generate.no_end", f"{known}, it writes no eos_id {subject.eos_id} behind any.")
    elif few > 2:
        yield Finding.of("learning.unwritten", f"{known}, {few} are not what it writes.")
    elif many > few + 2:
        yield Finding.of("generate.batch", f"{known}, it writes {few} wrong alone, and {many} in a batch.")
    elif after > many + 2:
        yield Finding.of(
            "generate.padding", f"{known}, it writes {many} wrong, and {after} with padding behind the source."
        )


def _plain(subject: Subject, row: Any) -> list[Any]:
    """The best candidate's words, without the start sign."""
    words = row[0] if row and isinstance(row[0], list) else row
    return words[words[:1] == [subject.start_id] :]


def _missed(pairs: Pairs, rows: list[list[Any]]) -> int:
    """How many of the pairs are written otherwise; an end may be missing where a text has the greatest length."""
    longest = max(map(len, pairs.words))
    cut = [words[: longest - 1] for words in pairs.words]
    return sum(row[: len(words)] != words for row, words in zip(rows, cut, strict=True))
