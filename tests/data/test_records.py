"""Files as others write them: read as meant, or refused by what they contain, with every broken row."""

import gzip
import json
import os
import re
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfm_lib.commands.options import expanded
from tfm_lib.data.pairs import Pair, read_pairs, read_splits, split_pairs, stem
from tfm_lib.data.texts import open_texts
from tfm_lib.pretrained.summarizer import find_checkpoint

ROWS = [Pair("rain fell, they say", "rain"), Pair("snow fell", "snow")]
TABLE = 'article,summary\n"rain fell, they say",rain\nsnow fell,snow\n'
LINES = "".join(json.dumps(row._asdict()) + "\n" for row in ROWS)


def pairs_of(folder: Path, name: str, content: str | bytes, **options) -> list[Pair]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_pairs(folder / name, **options)


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "blank lines first": ("a.csv", "\n\r\n" + TABLE),
        "blank rows of a spreadsheet": ("a.csv", TABLE + ",\n,,\n"),
        "a blank row first": ("a.csv", ',,""\n' + TABLE),
        "trailing empty columns": ("a.csv", TABLE.replace("\n", ",,\n")),
        "blanks after the comma": ("a.csv", 'article, summary\n"rain fell, they say", "rain"\n"snow fell", "snow"\n'),
        "a comma in another header": (
            "a.tsv",
            "id, no\tarticle\tsummary\n1\train fell, they say\train\n2\tsnow fell\tsnow",
        ),
        "UTF-16 without one": ("a.csv", TABLE.encode("utf-16-le")),
        "JSON lines, called .csv": ("a.csv", LINES),
        "a table, called .txt": ("a.txt", TABLE),
        "gzip without the ending": ("a.csv", gzip.compress(TABLE.encode(), mtime=0)),
    }.values(),
    ids=str,
)
def test_what_others_write_is_read_as_it_is_meant(tmp_path, name, content):
    assert pairs_of(tmp_path, name, content) == ROWS


@pytest.mark.parametrize("opening", ['"', '"quoted" ', '"', ""])
def test_quotes_are_ordinary_in_a_table_of_tabs_that_is_no_csv(tmp_path, opening):
    """A quote at the start of a cell once swallowed all rows up to the next one: 60 lines gave 48 pairs."""
    rows = [Pair(f"{opening}article {n}", f'{opening if n % 3 else ""}summary "{n}"') for n in range(60)]
    table = "article\tsummary\n" + "".join(f"{row.article}\t{row.summary}\n" for row in rows)
    assert pairs_of(tmp_path, "a.tsv", table) == rows
    quoted = 'article\tsummary\n"two\nlines"\t"a ""b"""\nplain\tsummary\n'
    assert pairs_of(tmp_path, "a.tsv", quoted) == [Pair("two\nlines", 'a "b"'), Pair("plain", "summary")]


def test_all_broken_rows_are_told_at_once_and_may_be_left_out(tmp_path):
    rows = [{"article": f"article {n}", "summary": [None, "NaN", " ", 7][n % 4] if n < 40 else "b"} for n in range(300)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(ValueError, match="40 of 300 rows are no pairs; mend them, or leave them out: --skip") as error:
        pairs_of(tmp_path, "a.jsonl", lines)
    first = "line 1, line 5, line 9, line 13, line 17 and 5 more: summary is null, which means that it is missing"
    assert str(error.value).splitlines()[1] == f"  {first}" and len(str(error.value).splitlines()) == 5
    messages = []
    assert len(pairs_of(tmp_path, "a.jsonl", lines, skip=True, say=messages.append)) == 260
    assert messages[0].startswith(f"a.jsonl: 300 rows, 260 pairs, 40 skipped\n  {first}")
    pq.write_table(pa.table({"article": ["a", "b"], "summary": ["c", None]}), tmp_path / "a.parquet")
    assert read_pairs(tmp_path / "a.parquet", skip=True) == [Pair("a", "c")]
    with pytest.raises(ValueError, match="none of 1 rows is a pair\n  line 1: not JSON"):
        pairs_of(tmp_path, "a.jsonl", "{\n", skip=True)


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"translation": {"en": "long text", "de": "kurz"}}, "translation.en,translation.de"),
        ({"messages": [{"role": "user", "content": "long text"}, {"role": "assistant", "content": "kurz"}]},
         "messages.0.content,messages.1.content"),
        ({"chat": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "long text"},
                   {"from": "gpt", "value": "kurz"}]}, "chat.1.value,chat.2.value"),
        ({"a": {"body": "long text", "about": {"n": 1, "abstract": "kurz"}}}, "a.body,a.about.abstract"),
        ({"id": "x", "dialogue": "long text", "gist": "kurz"}, "dialogue,gist"),
    ],
    ids=["translation", "messages", "conversation", "deep", "flat"],
)  # fmt: skip
def test_fields_inside_of_others_are_proposed_and_read(tmp_path, record, fields):
    with pytest.raises(ValueError, match=f"--fields {fields}(;|$)"):
        pairs_of(tmp_path, "a.jsonl", json.dumps(record))
    assert read_pairs(tmp_path / "a.jsonl", fields.split(",")) == [Pair("long text", "kurz")]


def test_a_list_or_object_is_no_text_and_names_a_part_that_is_read(tmp_path):
    """Once both ended in a traceback, and so did a pipe, a table of commas, and dates that Python does not have."""
    record = {"article": ["long text", "more"], "summary": {"de": "kurz"}}
    with pytest.raises(ValueError, match=r"got list; .* such as article\.0"):
        pairs_of(tmp_path, "a.jsonl", 2 * (json.dumps(record) + "\n"))
    assert read_pairs(tmp_path / "a.jsonl", ["article.0", "summary.de"]) == 2 * [Pair("long text", "kurz")]
    for content in (",,\n,,\n", "\n"):
        with pytest.raises(ValueError, match="no pairs in it"):
            pairs_of(tmp_path, "a.csv", content)
    far = pa.array([10**18, 10**18], pa.timestamp("us"))
    pq.write_table(pa.table([[x[0] for x in ROWS], [x[1] for x in ROWS], far], [*Pair._fields, "when"]), tmp_path / "a")
    assert read_pairs(tmp_path / "a") == ROWS
    with pytest.raises(ValueError, match="a: not Parquet .*out of range"):
        read_pairs(tmp_path / "a", ["article", "when"])
    pq.write_table(pa.table([["a"], ["b"], ["c"]], ["article", "summary", "summary"]), tmp_path / "a")
    with pytest.raises(ValueError, match="the column summary comes twice"):
        read_pairs(tmp_path / "a")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_pipe_of_the_shell_is_read(tmp_path):
    os.mkfifo(tmp_path / "63")
    Thread(target=(tmp_path / "63").write_text, args=(LINES,), daemon=True).start()
    assert read_pairs(tmp_path / "63") == ROWS


def test_a_name_that_begins_with_a_tilde_is_no_home_folder(tmp_path, monkeypatch):
    """Once it ended in "Could not determine home directory", for a run's name, too."""
    monkeypatch.chdir(tmp_path)
    assert pairs_of(Path(), "~nobody.csv", TABLE) == ROWS == read_pairs(expanded("~nobody.csv"))
    assert next(open_texts("~nobody.csv")[1]) == ("line 2", ROWS[0].article)
    with pytest.raises(ValueError, match="~nobody: no trained model is there"):
        find_checkpoint("~nobody")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({field: {str(n): getattr(row, field) for n, row in enumerate(ROWS)} for field in Pair._fields}, "holds all"),
        ({str(n): row._asdict() for n, row in enumerate(ROWS)}, "holds all"),
        ({"version": "1", "data": [row._asdict() for row in ROWS]}, "holds all"),
        ([json.dumps(row._asdict(), indent=1) for row in ROWS], "over many lines"),
    ],
    ids=["columns of pandas", "index of pandas", "inside of another", "indented one after the other"],
)
def test_records_in_one_object_are_told_to_be_lines(tmp_path, content, message):
    with pytest.raises(ValueError, match=f"one JSON object .*{message}.*; write each record as an object on a line"):
        pairs_of(tmp_path, "a.json", "\n".join(content) if isinstance(content, list) else json.dumps(content))


@pytest.mark.parametrize(
    "record", [{"t": {"en": "rain", "pt-BR": "a chuva"}}, {"id": "7", "en": "rain", "de": "Regen"}]
)
def test_of_two_languages_it_is_said_which_one_is_written_and_how_to_turn_that_round(tmp_path, record):
    one, other = [f"t.{name}" for name in record["t"]] if "t" in record else ["en", "de"]
    turned = f"--fields {one},{other}; this reads {one} and writes {other}, and --fields {other},{one} the other way"
    with pytest.raises(ValueError, match=turned):
        pairs_of(tmp_path, "a.jsonl", json.dumps(record))


def test_the_names_of_the_hub_are_splits_and_nothing_is_ignored_in_silence(tmp_path):
    rows = {split: [Pair(f"{split} {n}", "b") for n in range(20)] for split in ("train", "validation", "test")}
    for split, pairs in rows.items():
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(p._asdict()) + "\n" for p in pairs))
    (tmp_path / "notes.csv").write_text(TABLE)
    messages = []
    assert [*read_splits(tmp_path, say=messages.append)] == [*rows.values()]
    assert f"ignored in {tmp_path}: notes.csv" in messages and messages[-1] == "train 20, dev 20, test 20 pairs"
    (tmp_path / "test.jsonl").unlink()
    splits = read_splits(tmp_path / "train.jsonl", say=messages.append)
    assert splits.dev == rows["validation"] and splits.test == split_pairs(rows["train"], wanted=["test"]).test
    assert len(splits.train) + len(splits.test) == 20 and "; test set aside of the training pairs" in messages[-1]


@pytest.mark.parametrize(
    ("data", "name"), [("a.b.jsonl.gz", "a.b"), ("news/data", "news"), ("news/data/train.csv", "news"), ("old", "old")]
)
def test_pairs_are_called_as_their_file_or_as_the_folder_of_their_splits(tmp_path, data, name):
    for folder in ("news/data", "old"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("a.b.jsonl.gz", "news/data/train.csv"):
        (tmp_path / file).touch()
    assert stem(tmp_path / data) == name


def test_a_split_comes_in_parts_and_in_the_folder_of_the_hub(tmp_path):
    (tmp_path / "data").mkdir()
    for part in range(2):
        table = pa.Table.from_pylist([{"article": f"{part} {n}", "summary": "b"} for n in range(30)])
        pq.write_table(table, tmp_path / "data" / f"train-0000{part}-of-00002.parquet")
    assert sum(map(len, read_splits(tmp_path))) == 60
    (tmp_path / "data" / "train.csv").write_text(TABLE)
    with pytest.raises(ValueError, match=r"train-.* and train\.csv are train twice|give one"):
        read_splits(tmp_path)


def test_a_folder_of_datasets_or_of_folders_is_told_what_to_give(tmp_path):
    (tmp_path / "de").mkdir()
    with pytest.raises(ValueError, match="give one, or a file"):
        read_splits(tmp_path)
    (tmp_path / "en").mkdir()
    (tmp_path / "en/train.csv").write_text(TABLE)
    with pytest.raises(ValueError, match=f"give one of its folders, such as {re.escape(str(tmp_path / 'en'))}"):
        read_splits(tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "train/data-00000-of-00001.arrow").touch()
    with pytest.raises(ValueError, match=r"datasets\.load_from_disk\(.*train'\)\.to_json\('train\.jsonl'\)"):
        read_splits(tmp_path)


def test_an_article_in_other_letters_is_the_same_article(tmp_path):
    pairs = [Pair(text, "b") for n in range(40) for text in (f"article {n}", f"ARTICLE  {n}")]
    train, dev, test = ({" ".join(p.article.lower().split()) for p in side} for side in split_pairs(pairs))
    assert not train & dev and not train & test and not dev & test and len(train | dev | test) == 40
    (tmp_path / "train.jsonl").write_text(LINES)
    (tmp_path / "test.jsonl").write_text(LINES.upper().replace("ARTICLE", "article").replace("SUMMARY", "summary"))
    (tmp_path / "dev.jsonl").write_text('{"article": "hail", "summary": "hail"}\n')
    messages = []
    read_splits(tmp_path, say=messages.append)
    assert messages[-1] == "2 of 2 test articles are in the training set, too: scores flatter it"


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.tsv", "article\tsummary\nrain fell\train\n", [("line 2", "rain fell")]),
        ("a.json", '[\n {"article": "rain fell"}\n]', [("record 1", "rain fell")]),
        ("a.txt", '{"article": "rain fell"}\n', [("line 1", "rain fell")]),
        ("a.txt", "rain fell\rsnow fell\r", [("line 1", "rain fell\n"), ("line 2", "snow fell\n")]),
        ("a.txt", "rain fell\nsnow fell".encode("utf-16"), [("line 1", "rain fell\n"), ("line 2", "snow fell")]),
        ("a.txt", "[Music] rain fell", [("line 1", "[Music] rain fell")]),
        ("a.jsonl.gz", gzip.compress(b'{"article": "rain fell"}\n', mtime=0), [("line 1", "rain fell")]),
    ],
)
def test_texts_to_summarize_are_read_as_pairs_are(tmp_path, name, content, texts):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert [*open_texts(str(tmp_path / name))[1]] == texts


@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1",
        b"PK\x03\x04 of Word",
        b"<html>\n<p>rain</p>",
        b"%PDF-1.7",
        b"\x89PNG\x00\x00\x00",
    ],
)
def test_what_holds_no_texts_is_refused_once(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.txt: .*(save|git lfs pull)|a\.txt: no text"):
        open_texts(str(tmp_path / "a.txt"))


def test_an_empty_line_before_records_is_one_of_them(tmp_path):
    (tmp_path / "a.txt").write_text('\n{"article": "rain fell"}\n')
    assert [text for _, text in open_texts(str(tmp_path / "a.txt"))[1]][1:] == ["rain fell"], "a line out for each in"
