"""Vocabulary, reading pairs, and batches: round trips, every reading error, properties of the buckets."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_lib.newsroom import TEN_PAIRS
from tfm_lib.summaries import (
    EOS_ID,
    PAD_ID,
    START_ID,
    UNKNOWN_ID,
    Batch,
    Examples,
    Pair,
    Vocabulary,
    encode_pairs,
    plan_batches,
    read_pairs,
    read_splits,
    split_pairs,
)

TEXTS = ["the cat sat, and 3 dogs ran.", "who saw the cat?", "the end"]
PAIRS = [Pair('a long Article, with "quotes"\nand lines', "its summary"), Pair("zweiter Text über Äpfel", "Äpfel")]


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary.of_words(TEXTS)


@pytest.fixture(scope="module")
def byte_pairs() -> Vocabulary:
    return Vocabulary.of_byte_pairs(TEXTS, 300)


@pytest.mark.parametrize("text", TEXTS)
def test_words_come_back(words: Vocabulary, text: str) -> None:
    assert words.decode(words.encode(text)) == text
    assert words.decode([START_ID, *words.encode(text), EOS_ID, PAD_ID]) == text


def test_a_word_has_one_id_and_a_mark_its_own(words: Vocabulary) -> None:
    assert words.pieces(words.encode("The cat ran.")) == ["the", "cat", "ran", "."]
    assert min(words.encode("The cat ran.")) > UNKNOWN_ID


def test_unknown_words_are_marked_and_named(words: Vocabulary) -> None:
    assert words.unknown_words("the Zebra saw an end, twice") == ["Zebra", "an", "twice"]
    assert words.decode(words.encode("the zebra")) == "the [unk]"


@pytest.mark.parametrize("text", ["[pad]", "the [eos] cat", "[start][unk]", "[EOS]"])
def test_a_special_token_in_a_text_is_text(words: Vocabulary, byte_pairs: Vocabulary, text: str) -> None:
    assert not {PAD_ID, START_ID, EOS_ID} & {*words.encode(text), *byte_pairs.encode(text)}
    assert byte_pairs.decode(byte_pairs.encode(text)) == text.lower()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_byte_pairs_write_every_text(byte_pairs: Vocabulary, text: str) -> None:
    ids = byte_pairs.encode(text)
    # Lower case as the tokenizers library understands it, character by character, so compare after it.
    assert byte_pairs.encode(byte_pairs.decode(ids)) == ids
    assert UNKNOWN_ID not in ids
    if text.isascii():
        assert byte_pairs.decode(ids) == text.strip().lower()


def test_frequent_pieces_become_one_id() -> None:
    vocabulary = Vocabulary.of_byte_pairs(["banana banana bandana"] * 10, 266)
    assert len(vocabulary) == 266
    assert vocabulary.pieces(vocabulary.encode("banana")) == ["banana"]


def test_vocabulary_comes_back_from_its_file(tmp_path: Path, words: Vocabulary, byte_pairs: Vocabulary) -> None:
    for vocabulary in (words, byte_pairs):
        vocabulary.save(tmp_path / "vocabulary.json")
        again = Vocabulary.load(tmp_path / "vocabulary.json")
        for text in [*TEXTS, "[eos] unseen"]:
            assert again.encode(text) == vocabulary.encode(text) == vocabulary.encode_all([text])[0]


def test_vocabulary_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="260 ids or more, got 259"):
        Vocabulary.of_byte_pairs(TEXTS, 259)
    foreign = Vocabulary.of_words(TEXTS).to_json().replace("[pad]", "<pad>")
    with pytest.raises(ValueError, match="first ids of a vocabulary"):
        Vocabulary.from_json(foreign)


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
        with (
            gzip.open(path, "wt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open("w", encoding="utf-8") as file
        ):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet", "A.JSONL"])
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str) -> None:
    assert read_pairs(write(tmp_path / name, PAIRS)) == PAIRS


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", PAIRS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\n\n"))
    assert read_pairs(path) == PAIRS


GOOD = b'{"article": "a", "summary": "b"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", GOOD + b'{"article": "a"', r"a\.jsonl, line 2: not JSON .*one whole JSON object"),
        ("a.jsonl", GOOD + b"\n" + b'{"article": "a"}', "line 3: the field summary is missing .*article.*rename"),
        ("a.jsonl", b'{"text": "a", "summary": "b"}', "line 1: the field article is missing .*text, summary"),
        ("a.jsonl", GOOD + b'{"article": " ", "summary": "b"}', "line 2: article is empty; fill it or drop"),
        ("a.jsonl", GOOD + b'{"article": "a", "summary": 7}', "line 2: summary must be a string, got int"),
        ("a.jsonl", b'{"article": "a", "summary": null}', "line 1: summary must be a string, got NoneType"),
        ("a.jsonl", b'["a", "b"]', "line 1: expected an object .*got list"),
        ("a.jsonl", GOOD + '{"article": "\u00e4"}'.encode("latin-1"), "line 2: not UTF-8 .*save the file as UTF-8"),
        ("a.jsonl", b"\n", "no pairs in it; give each pair a line"),
        ("a.jsonl.gz", GOOD, "line 1: broken gzip"),
        ("a.jsonl.gz", gzip.compress(GOOD * 9)[:-9], "line .*: broken gzip"),
        ("a.csv", b"article,summary\n", "no pairs in it"),
        ("a.csv", b"article,text\na,b\n", "line 2: the field summary is missing"),
        ("a.csv", b"article,summary\na,b\na,b,c\n", "line 3: not as many cells as the header; quote"),
        ("a.csv", b"article,summary\na\n", "line 2: not as many cells"),
        ("a.csv", b"article,summary\na,b\na,\n", "line 3: summary is empty"),
        ("a.csv", b'article,summary\na,b\na,"b\na,b\n', "after line 2: not CSV .*quotes there"),
        ("a.csv", b"article,summary\na,\xff\n", "line 2: not UTF-8"),
        ("a.parquet", b"PAR1 not really", "not Parquet .*write the file again"),
        ("a.txt", GOOD, r"unknown ending; give a file that ends in \.jsonl, \.jsonl\.gz, \.csv, \.parquet"),
    ],
)
def test_a_broken_file_is_named_with_line_and_fix(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_pairs(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))


def test_a_parquet_of_wrong_columns_is_named_with_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"article": ["a", None], "summary": ["b", "c"]}), path)
    with pytest.raises(ValueError, match="row 2: article must be a string, got NoneType"):
        read_pairs(path)
    pq.write_table(pa.table({"article": ["a"], "summary": [3]}), path)
    with pytest.raises(ValueError, match="row 1: summary must be a string, got int"):
        read_pairs(path)
    pq.write_table(pa.table({"article": ["a"]}), path)
    with pytest.raises(ValueError, match="row 1: the field summary is missing"):
        read_pairs(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_pairs(tmp_path / "a.jsonl")


MANY = [Pair(f"article {number % 70}", f"summary {number}") for number in range(100)]


def test_splits_share_no_article_and_lose_no_pair() -> None:
    splits = split_pairs(MANY, seed=1)
    sets = [{pair.article for pair in split} for split in splits]
    assert not (sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])
    assert sorted([*splits.train, *splits.dev, *splits.test]) == sorted(MANY)
    assert len(sets[1]) == len(sets[2]) == 3
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
        assert [split[0].article for split in read_splits(given_path)] == ["train", "dev", "test"]
    (tmp_path / "dev.jsonl.gz").unlink()
    with pytest.raises(ValueError, match="test.jsonl.gz is beside it alone; give both"):
        read_splits(tmp_path)
    (tmp_path / "test.jsonl.gz").unlink()
    write(tmp_path / "train.jsonl.gz", MANY)
    assert read_splits(tmp_path) == split_pairs(MANY)
    write(tmp_path / "train.csv", MANY)
    with pytest.raises(ValueError, match="2 files named train"):
        read_splits(tmp_path)


def test_cut_texts_are_counted() -> None:
    vocabulary = Vocabulary.of_words(TEXTS)
    examples = encode_pairs([Pair("the cat ran", "the end"), Pair("the end", "the cat ran")], vocabulary, 2, 2)
    assert [len(ids) for ids in examples.articles + examples.summaries] == [2, 2, 2, 2]
    assert str(examples) == "2 pairs; cut for length: 1 articles, 1 summaries"


def test_the_shift_by_hand() -> None:
    batch = Batch.of([[7, 8, 9], [7]], [[5], [5, 6]])
    assert batch.src.tolist() == [[7, 8, 9], [7, 0, 0]]
    assert batch.decoder_input.tolist() == [[1, 5, 0], [1, 5, 6]]
    assert batch.labels.tolist() == [[5, 2, 0], [5, 6, 2]]
    assert batch.src.dtype == batch.labels.dtype == torch.int64


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=60)


def of_lengths(sizes: list[tuple[int, int]]) -> Examples:
    return Examples([[4] * article for article, _ in sizes], [[4] * summary for _, summary in sizes], 0, 0)


@given(sizes=lengths, limit=st.integers(40, 200), seed=st.integers(0, 5))
def test_each_example_is_in_one_batch_and_no_batch_over_the_limit(sizes: list, limit: int, seed: int) -> None:
    examples = of_lengths(sizes)
    plan = plan_batches(examples, limit, seed)
    assert sorted(index for batch in plan for index in batch) == list(range(len(sizes)))
    for indices in plan:
        batch = Batch.of([examples.articles[i] for i in indices], [examples.summaries[i] for i in indices])
        assert batch.src.numel() + batch.decoder_input.numel() <= limit
    assert plan == plan_batches(examples, limit, seed)


def test_order_changes_with_epoch_and_seed_and_padding_is_rare() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 60, (2000, 2), generator=generator).tolist()
    examples = of_lengths(sizes)
    plan = plan_batches(examples, 1000)
    assert plan != plan_batches(examples, 1000, epoch=1) != plan_batches(examples, 1000, seed=1)
    widths = [(max(sizes[i][0] for i in batch), len(batch)) for batch in plan]
    places, used = sum(width * rows for width, rows in widths), sum(size[0] for size in sizes)
    assert used / places > 0.95
    firsts = [sizes[batch[0]][0] for batch in plan]
    assert firsts != sorted(firsts), "batches must not come by length"


def test_an_example_over_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="an example of 15 tokens, a limit of 14"):
        plan_batches(of_lengths([(3, 1), (10, 4)]), 14)


def test_ten_pairs_are_short_and_not_copied() -> None:
    assert len({article for article, _ in TEN_PAIRS}) == len({summary for _, summary in TEN_PAIRS}) == 10
    for article, summary in TEN_PAIRS:
        assert 8 <= len(article.split()) <= 18 and 4 <= len(summary.split()) <= 7
        assert set(summary.split()) - set(article.split()), f"every word of {summary!r} is in its article"
        assert (article + summary).replace(" ", "").isalpha() and (article + summary).islower()
