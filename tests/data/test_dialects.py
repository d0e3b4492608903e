"""Known pairs in files of random dialects: what is read are these pairs, or it is refused with the right line."""

import codecs
import csv
import gzip
import io
import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfm_lib.data.fields import NULLS
from tfm_lib.data.pairs import Pair, read_pairs

SIGNS = [*"aä中ก\U0001f600 ,;|\"'`=#{[<\\.\u2028"]
ENCODINGS = {
    "utf-8": b"", "utf-8-sig": b"", "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
}  # fmt: skip


def text(random: Random, lines: bool) -> str:
    signs = [*SIGNS, "\n", "\t"] if lines else SIGNS
    drawn = "".join(random.choices(signs, k=random.randrange(1, 30))).strip() or "x"
    return "x" if drawn in NULLS else drawn


def table(random: Random, rows: list[dict], names: list[str]) -> str:
    """As the csv module writes it, with Excel's first line, blank rows and more columns now and then."""
    out, mark = io.StringIO(), random.choice(",;\t|")
    if any("\t" in row[name] for row in rows for name in names):
        mark = random.choice(",;|")  # a cell with both a tab and a line's end might as well be two rows of tabs
    end = random.choice(["\n", "\r\n", "\r"])
    quoting = csv.QUOTE_ALL  # else the module quotes no \n in a cell where rows end in \r
    if end != "\r":
        quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    writer = csv.writer(out, delimiter=mark, lineterminator=end, quoting=quoting)
    out.write(random.choice(["", "", end, f"sep={mark}{end}"]))
    writer.writerow(names)
    for row in rows:
        writer.writerow([row[name] for name in names])
        out.write(random.choice(["", "", "", end]))
    return out.getvalue()


def records(random: Random, rows: list[dict]) -> str:
    ascii_only = random.random() < 0.5
    if random.random() < 0.3:
        return json.dumps(rows, ensure_ascii=ascii_only, indent=random.choice([None, 1]))
    end = random.choice(["\n", "\r\n", "\r", "\n\n"])
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + end for row in rows)


def one_file(random: Random, folder: Path) -> tuple[Path, list[str], list[Pair], int]:
    """A file, what its fields are called, its pairs, and how many of its rows hold none."""
    fields, kind = ["article", "summary"], random.choice(["table", "json", "parquet"])
    pairs = [Pair(text(random, True), text(random, True)) for _ in range(random.randrange(1, 12))]
    rows = [dict(zip(fields, pair, strict=True)) | {"id": str(n)} for n, pair in enumerate(pairs)]
    broken = random.choice([0, 0, 1, 3])
    for _ in range(broken):
        side, nothing = random.choice(fields), random.choice(["", "NaN", *([None] if kind != "table" else [])])
        rows.insert(random.randrange(len(rows) + 1), {"article": "a", "summary": "b", "id": "0"} | {side: nothing})
    if kind != "table" and random.random() < 0.3:
        rows = [{"id": row["id"], "pair": {"from": row["article"], "to": row["summary"]}} for row in rows]
        fields = ["pair.from", "pair.to"]
    path = folder / random.choice(
        {"table": ["a.csv", "a.tsv"], "json": ["a.jsonl", "a.json", "a.txt"]}.get(kind, ["a.bin"])
    )
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path, fields, pairs, broken
    names = random.sample(["id", "article", "summary"], 3)
    content = table(random, rows, names) if kind == "table" else records(random, rows)
    encoding, mark = random.choice(list(ENCODINGS.items()))
    data = mark + content.encode(encoding)
    if random.random() < 0.2:
        data, path = gzip.compress(data), path.with_name(path.name + ".gz")
    path.write_bytes(data)
    return path, fields, pairs, broken


def unbroken(text: str) -> str:
    """A line that ends another way is the same text."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 340), marks=pytest.mark.slow)])
def test_random_files_give_their_pairs(seeds, tmp_path):
    for seed in seeds:
        path, fields, pairs, broken = one_file(Random(seed), tmp_path)
        if broken:
            with pytest.raises(ValueError, match=f"{broken} of {len(pairs) + broken} rows are no pairs"):
                read_pairs(path, fields)
        found, wanted = (
            [Pair(*map(unbroken, pair)) for pair in some] for some in (read_pairs(path, fields, skip=True), pairs)
        )
        assert found == wanted, f"seed {seed}: {path.read_bytes()[:2000]!r}"
        path.unlink()
