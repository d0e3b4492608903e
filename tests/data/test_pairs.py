"""Reading pairs: every format, every error with file, line and fix, splits that share no article."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfm_lib.data.pairs import Pair, read_pairs, read_splits, split_pairs, stem


def write(path: Path, pairs: list[Pair]) -> Path:
    """Write pairs, with a third field that readers ignore, in the format of the ending."""
    rows = [pair._asdict() | {"id": str(number)} for number, pair in enumerate(pairs)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["id", "article", "summary"])
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return path


def test_parquet_is_read_beyond_its_first_batch_of_rows_and_counts_them(tmp_path: Path) -> None:
    pairs = [Pair(f"article {n}", "summary") for n in range(70_000)]
    assert read_pairs(write(tmp_path / "a.parquet", pairs)) == pairs
    with pytest.raises(ValueError, match="row 70001: article is null"):
        read_pairs(write(tmp_path / "a.parquet", [*pairs, Pair(None, "summary")]))


GOOD = b'{"article": "a", "summary": "b"}\n'
BROKEN = {  # by the file's name: what it holds, and what is said
    "a.jsonl": [
        (GOOD + b'{"article": "a"', r"a\.jsonl: 1 of 2 rows are no pairs.*line 2: not JSON .*one whole JSON object"),
        (GOOD + b"\n" + b'{"article": "a"}', "line 3: the field summary is missing .*article.*add it"),
        (
            b'{"text": "a", "summary": "b"}',
            "line 1: the field article is missing .*text, summary.*--fields text,summary",
        ),
        (GOOD + b'{"article": " ", "summary": "b"}', "line 2: article is empty"),
        (GOOD + b'{"article": "a", "summary": 7}', "line 2: summary must be a string, got int"),
        (b'{"article": "a", "summary": null}', "line 1: summary is null, which means that it is missing"),
        (b'["a", "b"]', "line 1: expected an object with article and summary, got list"),
        (GOOD + '{"article": "\u00e4"}'.encode("latin-1"), "line 2: not UTF-8 .*save the file as UTF-8"),
        (b"\n", "no pairs in it; give each pair a line"),
        (rb'{"article": "a \ud83d", "summary": "b"}', r"article has half of a character \('\\ud83d'\); write"),
        (GOOD + b"[" * 200_000, "line 2: brackets nested too deeply; keep article and summary"),
        (b'{"summary": "b", "more": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "line 1: brackets nested"),
        ('{"article": "a", "summary": "b", "summary": "c"}\n', "line 1: the key summary comes twice"),
        ("{'article': 'a', 'summary': 'b'}\n", "line 1: not JSON .*double quotes"),
        ('{"article": "a", "summary": "b"},\n', "line 1: not JSON .*leave the comma at its end out"),
        ("<!DOCTYPE html>\n", "a web page"),
        (b"\x00\x01\x02\x00", "no text .*zero bytes"),
    ],
    "a.jsonl.gz": [
        (GOOD, "broken gzip .it begins otherwise"),
        (gzip.compress(GOOD * 9, mtime=0)[:-9], "broken gzip .*copy the file again"),
    ],
    "a.csv": [
        (b"article,summary\n", "no pairs in it"),
        (b"article,text\na,b\n", "line 1: .*name the columns; the field summary is missing"),
        (b"article,summary\na,b\na,b,c\n", "line 3: 3 cells, and 2 in the header; quote a text that holds commas"),
        (b"article,summary\na\n", "line 2: 1 cells, and 2 in the header"),
        (b"article,summary\na,b\na,\n", "line 3: summary is empty"),
        (b'article,summary\na,b\na,"b\na,b\n', "line 3: not CSV .*row that begins there"),
        (b'article,summary\n"a \\"b\\", c",d\n', "line 2: not CSV .*write each quote twice"),
        (b'article,summary\n"a \\", b",c\n', "line 2: 3 cells, and 2 in the header; .*write each quote twice"),
        (b'article,summary\na,"b\n', "line 2: not CSV .*row that begins there"),
        (b"article,summary\na,\xff\n", "line 2: not UTF-8"),
        (b"PK\x03\x04\x14", "a zip file, as workbooks of Excel"),
        (b"a text that is long enough to be cut off here,b\n1,2\n", "there are: a text that is long enough.{,20}…"),
        ("article,summary,summary\na,b,c\n", "line 1: the column summary comes twice; rename"),
        ("# by me\narticle,summary\na,b\n", r"line 1: this line has to name the columns.*there are: # by me"),
        ("a long text,b\nx,y\n", "has to name the columns.*there are: a long text, b"),
        (f"{'a ' * 50};b\nx;y\n", "if it is a row, write a line above it: article;summary"),
        ("Text des Autors;Kern\nlang, lang;kurz\n", "--fields 'Text des Autors,Kern'"),
        ('article;"summary, short"\na;b\n', 'there are: article, "summary, short".*--fields \'article,"summary'),
        ("sep=;\n", "no pairs in it"),
        ("\n\nsep=;\narticle;summary\na;b;c\n", "line 5: 3 cells, and 2 in .*quote a text that holds semicolons"),
    ],
    "A.JSONL": [(b"a text", "not JSON: it begins with 'a text'; each line is one whole JSON object")],
    "a.parquet": [(b"PAR1 not really", "not Parquet .*write the file again")],
    "a.txt": [(b"a text", r"no records; give a file that ends in \.jsonl, \.ndjson, \.json, \.csv, \.tsv, \.parquet")],
    "a.tsv": [
        ("article\tsummary\na\tb\tc\n", "line 2: 3 cells, and 2 in the header; quote a text that holds tabs"),
        ('article\tsummary\n"a ""b"""\tc\n"d\te\n', "line 3: not CSV .*the row that begins there"),
    ],
    "a.json": [
        ('[{"article": "a",\n', "a JSON array that breaks .*line 2"),
        ('{"article": "a",\n"summary": "b"}', "one JSON object over many lines"),
    ],
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [(name, *row) for name, rows in BROKEN.items() for row in rows],
    ids=lambda value: repr(value)[:40],
)
def test_a_broken_file_is_named_with_line_and_fix(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"(?s){message}") as error:
        read_pairs(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name)) and str(error.value).encode()


def test_what_is_no_file_and_no_two_fields(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_pairs(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="text and summary are both called article; name two fields"):
        read_pairs(write(tmp_path / "a.jsonl", MANY), ("article", "article"))


MANY = [Pair(f"article {number % 70}", f"summary {number}") for number in range(100)]


def test_splits_share_no_article_and_lose_no_pair() -> None:
    splits = split_pairs(MANY, seed=1)
    sets = [{pair.article for pair in split} for split in splits]
    assert not (sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])
    assert sorted([*splits.train, *splits.dev, *splits.test]) == sorted(MANY)
    assert len(sets[1]) == len(sets[2]) == 7
    assert splits == split_pairs(MANY, seed=1) != split_pairs(MANY, seed=2)
    # A pair stays on its side when others are added behind it in the order of the hash, wherever it stands.
    assert {p.article for p in split_pairs(MANY[::-1], seed=1).test} == sets[2]


def test_too_few_articles_to_split() -> None:
    with pytest.raises(ValueError, match="2 distinct articles; .* need 3"):
        split_pairs([Pair("a", "b"), Pair("a", "c"), Pair("b", "c")])


def test_dev_and_test_beside_the_training_file_are_used(tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        write(tmp_path / f"{name}.jsonl.gz", [Pair(name, name)])
    for given_path in (tmp_path, tmp_path / "train.jsonl.gz"):
        said: list[str] = []
        assert [split[0].article for split in read_splits(given_path, say=said.append)] == ["train", "dev", "test"]
        assert sum("train.jsonl.gz" in line for line in said) == 1
    other = write(tmp_path / "shop.jsonl.gz", MANY)
    assert read_splits(other) == split_pairs(MANY), "what stands beside another file is not its own"
    (tmp_path / "dev.jsonl.gz").unlink()
    (tmp_path / "test.jsonl.gz").unlink()
    write(tmp_path / "train.jsonl.gz", MANY)
    assert read_splits(tmp_path) == split_pairs(MANY)
    write(tmp_path / "train.csv", MANY)
    with pytest.raises(ValueError, match="train.csv and train.jsonl.gz are train twice; give one of them"):
        read_splits(tmp_path)


def test_a_list_that_is_written_as_text_is_learned_with_a_word(tmp_path: Path) -> None:
    lists, messages = [Pair("['a', \"b\"]", '["c"]'), Pair("[a] 'b'", "[b]")], []
    assert read_pairs(write(tmp_path / "a.csv", lists), say=messages.append) == lists
    assert messages[1].startswith("a.csv: 2 of the texts may be lists, such as ['a', \"b\"], and their brackets are")
    read_pairs(write(tmp_path / "b.csv", lists[1:]), say=messages.append)
    assert messages[2:] == ["b.csv: 1 row, 1 pair"]


def test_a_file_that_the_system_takes_for_train_is_it(tmp_path: Path) -> None:
    """As train.csv where the folder has Train.csv, and case makes no other file."""
    for name in ("train.csv", "dev.csv", "test.csv"):
        write(tmp_path / name, [Pair(name, name)])
    (tmp_path / "other.csv").hardlink_to(tmp_path / "train.csv")
    assert read_splits(tmp_path / "other.csv").dev == [Pair("dev.csv", "dev.csv")]
    assert stem(tmp_path / "other.csv") == tmp_path.name


def test_a_cell_of_a_csv_may_be_long_and_the_limit_of_others_stays(tmp_path: Path) -> None:
    limit, pair = csv.field_size_limit(), Pair("word, " * 30_000 + "end", "b")
    assert len(pair.article) > limit
    assert read_pairs(write(tmp_path / "a.csv", [pair])) == [pair]
    for number, (text, message) in enumerate([('a,"b', "not CSV"), ("a,b\n,b", "article is empty"), ("a", "cells")]):
        broken = tmp_path / f"{number}.csv"
        broken.write_text(f"article,summary\n{text}", encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_pairs(broken)
        assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("articles", "aside"), [(3, 1), (19, 1), (20, 2), (60, 6), (100, 10), (219, 10), (220, 11), (20_040, 1000)]
)
def test_how_many_articles_are_set_aside(articles: int, aside: int) -> None:
    """Ten where there are enough: a score on one or two pairs says nothing."""
    train, dev, test = split_pairs([Pair(f"article {n}", "summary") for n in range(articles)])
    assert (len(train), len(dev), len(test)) == (articles - 2 * aside, aside, aside)
