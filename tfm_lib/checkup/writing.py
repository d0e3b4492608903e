"""What a model writes that knows its pairs by heart: whether it is what it knows, and if not, what it is instead."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
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
    """Write what is known; alone and in a batch; with padding behind the source."""
    if subject.generate is None or not subject.two or subject.start_id is None:
        return
    write, _ = writer(subject)
    try:
        with torch.no_grad():
            rows = [_plain(subject, row) for row in write(pairs.src)]
            alone = [_plain(subject, row) for text in pairs.src.split(1) for row in write(text)]
            padded = subject.src.padded(pairs.src, SOURCE)
            behind = rows if subject.src.pad_id is None else [_plain(subject, row) for row in write(padded)]
    except Exception:  # the part that looks at `generate` says so
        return
    if rows and any(isinstance(word, str) for row in rows for word in row):
        known = list(map(len, rows)) != [] and rows == alone
        if known and sum(a != b for a, b in zip(rows, behind, strict=True)) > 2:
            yield Finding.of("generate.padding", f"of {len(rows)} texts, padding behind the source changes what it writes.")
        return
    many, few, after = (_missed(pairs, found) for found in (rows, alone, behind))
    if few > len(rows) // 2:
        yield _instead(subject, pairs, alone, few)
    elif many > few + 2:
        seen = f"of {len(rows)} pairs that it knows by heart, it writes {len(rows) - few} alone and {len(rows) - many} in a batch."
        yield Finding.of("generate.batch", seen)
    elif after > many + 2 and _missed(pairs, _by_logits(subject, padded, pairs)) <= many + 1:
        seen = f"of {len(rows)} pairs that it knows by heart, {after - many} are written otherwise when padding follows the source"
        yield Finding.of("generate.padding", f"{seen}, and its own logits are the same.")


def _plain(subject: Subject, row: Any) -> list[Any]:
    """The best candidate's words, without the start sign."""
    words = row[0] if row and isinstance(row[0], list) else row
    return words[words[:1] == [subject.start_id] :]


def _missed(pairs: Pairs, rows: list[list[Any]]) -> int:
    """How many of the pairs are written otherwise; an end may be missing where a text has the greatest length."""
    longest = max(map(len, pairs.words))
    cut = [words[: longest - 1] for words in pairs.words]
    return sum(row[: len(words)] != words for row, words in zip(rows, cut, strict=True))


def _instead(subject: Subject, pairs: Pairs, rows: list[list[int]], missed: int) -> Finding:
    """What it writes in the place of what it knows."""
    seen = f"of {len(rows)} pairs that it knows by heart, {missed} are not what it writes"
    others = {subject.pad_id, subject.eos_id, 0, 1} - {None, subject.start_id}
    ways: list[tuple[str, str, dict[str, Any]]] = [
        ("generate.last_token", "it writes as if it saw the last token alone", {"last": True}),
        ("generate.first_place", "it writes what the scores of the first position say", {"place": 0}),
        *(("generate.start", f"it writes as if it began with token {other}", {"start": other}) for other in others),
        ("generate.least", "it writes the least likely tokens", {"best": -1}),
    ]
    for code, told, how in ways:
        like = _by_logits(subject, pairs.src, pairs, **how)
        same = sum(a[: len(b)] == b for a, b in zip(rows, (row[: pairs.asked.shape[1] - 1] for row in like), strict=True))
        if same > 0.7 * len(rows):
            return Finding.of(code, f"{seen}: {told}.")
    return Finding.of("learning.unwritten", f"{seen}.")


@torch.no_grad()
def _by_logits(
    subject: Subject, src: Tensor, pairs: Pairs, *, last: bool = False, place: int = -1, start: int | None = None, best: int = 1
) -> list[list[int]]:
    """What its own logits write: of all tokens so far or the last, at this place, from this start."""
    told = torch.full_like(src[:, :1], pairs.tgt[0, 0] if start is None else start)
    for _ in range(pairs.asked.shape[1]):
        read = told[:, -1:] if last else told
        if subject.shifts:
            read = torch.cat([read[:, 1:], subject.tgt.ordinary[:1].expand(len(read), 1)], 1)
        new = (best * subject(read, src)[:, place]).argmax(-1)
        told = torch.cat([told, new[:, None].to(told.device)], 1)
    rows = told[:, 1:].tolist()
    return [row[: row.index(subject.eos_id) + 1] if subject.eos_id in row else row for row in rows]
