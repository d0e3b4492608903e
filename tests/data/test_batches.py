"""Vocabulary and batches: round trips, cutting, the shift, properties of the buckets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tfm_lib.data.batches import Batch, Examples, encode_pairs, pad_rows, plan_batches
from tfm_lib.data.newsroom import TEN_PAIRS
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import EOS_ID, PAD_ID, START_ID, UNKNOWN_ID, Vocabulary

TEXTS = ["the cat sat, and 3 dogs ran.", "who saw the cat?", "the end"]


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary.of_words(TEXTS)


@pytest.fixture(scope="module")
def byte_pairs() -> Vocabulary:
    return Vocabulary.of_byte_pairs(TEXTS, 300)


def test_words_come_back_each_with_one_id(words: Vocabulary) -> None:
    for text in TEXTS:
        assert words.decode([START_ID, *words.encode(text), EOS_ID, PAD_ID]) == text
    assert words.pieces(words.encode("The cat ran.")) == ["the", "cat", "ran", "."]
    assert min(words.encode("The cat ran.")) > UNKNOWN_ID
    assert words.pieces([PAD_ID, START_ID, EOS_ID, UNKNOWN_ID]) == ["[pad]", "[start]", "[eos]", "[unk]"]
    parts = Vocabulary.of_words(["a ##b c"])  # marks of a subword in other vocabularies
    assert parts.decode(parts.encode("a ##b c")) == "a ##b c"


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


def test_frequent_pieces_become_one_id_at_the_start_of_a_text_and_within_it() -> None:
    vocabulary = Vocabulary.of_byte_pairs(["banana banana bandana"] * 10, 266)
    assert len(vocabulary) == 266
    assert vocabulary.pieces(vocabulary.encode("banana banana")) == ["banana", "banana"]
    assert len({*vocabulary.encode("banana banana")}) == 1


def test_vocabulary_comes_back_from_json(words: Vocabulary, byte_pairs: Vocabulary) -> None:
    for vocabulary in (words, byte_pairs):
        again = Vocabulary.from_json(vocabulary.to_json())
        for text in [*TEXTS, "[eos] unseen"]:
            assert again.encode(text) == vocabulary.encode(text) == vocabulary.encode_all([text])[0]


FOREIGN = Tokenizer(models.WordLevel({"[pad]": 0, "</s>": 1, "<unk>": 2}, unk_token="<unk>"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Vocabulary.of_byte_pairs(TEXTS, 259), ValueError, "260 ids or more, got 259"),
        (lambda: Vocabulary(FOREIGN), ValueError, r"'\[unk\]'\) have the ids \[0, None, None, None\] in this one; "),
        (lambda: Vocabulary(FOREIGN, ["[pad]", "</s>"]), ValueError, "needs tokens for pad, start, eos and unknown"),
        (lambda: Vocabulary.from_json("no json"), ValueError, "this is no vocabulary .*give what Vocabulary.to_json"),
        (lambda: Vocabulary.from_json("[]"), ValueError, "this is no vocabulary"),
        (lambda: Vocabulary.from_json('{"version": "1.0"}'), ValueError, "this is no vocabulary"),
        (lambda: Vocabulary.of_words(TEXTS).encode(5), TypeError, "must be a str, got int"),
        (lambda: Vocabulary.of_words("flood closes"), TypeError, r"got one; use \['flood closes'\]"),
        (lambda: Vocabulary.of_words(["flood closes bridge"]).decode([7]), ValueError, r"0\.\.6, got 7"),
        (lambda: Vocabulary.of_words(["flood closes bridge"]).decode([-1]), ValueError, r"0\.\.6, got -1"),
        (lambda: pad_rows([]), ValueError, "no rows to pad; give one list of ids at least"),
        (lambda: plan_batches(of_lengths([(3, 1), (10, 4)]), 14), ValueError, "an example of 15 tokens, a limit of 14"),
    ],
)
def test_what_cannot_be_is_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
    assert len(Vocabulary.of_byte_pairs(TEXTS, 260)) == 260


def test_cut_texts_are_counted() -> None:
    vocabulary = Vocabulary.of_words(TEXTS)
    examples = encode_pairs([Pair("the cat ran", "the end"), Pair("the end", "the cat ran")], vocabulary, 2, 2)
    assert [len(ids) for ids in examples.articles + examples.summaries] == [2, 2, 2, 2]
    assert str(examples) == "2 pairs; cut for length: 1 articles, 1 summaries"
    assert examples.batch([1, 0, 1]).labels[:, 2].tolist() == [PAD_ID, EOS_ID, PAD_ID], "no end where it was cut"


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
        articles, summaries = zip(*(sizes[i] for i in indices), strict=True)
        assert len(indices) * (max(articles) + max(summaries) + 1) <= limit
    assert plan == plan_batches(examples, limit, seed)


def test_order_changes_with_epoch_and_seed_and_padding_is_rare() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 60, (2000, 2), generator=generator).tolist()
    examples = of_lengths(sizes)
    plan = plan_batches(examples, 1000)
    assert plan == plan_batches(examples, 1000, seed=0, epoch=0)
    assert plan != plan_batches(examples, 1000, epoch=1) != plan_batches(examples, 1000, seed=1)
    widths = [(max(sizes[i][0] for i in batch), len(batch)) for batch in plan]
    places, used = sum(width * rows for width, rows in widths), sum(size[0] for size in sizes)
    assert used / places > 0.95
    firsts = [sizes[batch[0]][0] for batch in plan]
    assert firsts != sorted(firsts), "batches must not come by length"


def test_examples_of_one_size_share_a_batch_by_chance() -> None:
    """Were they left in their order, the same ones would meet in every epoch."""
    examples = of_lengths([(3, 1)] * 20)
    plans = [plan_batches(examples, 20, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(len(batch) == 4 for plan in plans for batch in plan)
    companies = [{frozenset(batch) for batch in plan} for plan in plans]
    assert len({frozenset(company) for company in companies}) == 4
    assert all(company != {frozenset(range(n, n + 4)) for n in range(0, 20, 4)} for company in companies)


def test_a_batch_may_be_full_to_the_last_place() -> None:
    assert plan_batches(of_lengths([]), 63) == []
    assert [len(batch) for batch in plan_batches(of_lengths([(1, 19)] * 3), 63)] == [3]
    assert [len(batch) for batch in plan_batches(of_lengths([(19, 1)] * 3), 63)] == [3]
    assert sorted(len(batch) for batch in plan_batches(of_lengths([(1, 19)] * 3), 62)) == [1, 2]
    # Sorted by articles, the second has the longer summary: together they take 2 * (2 + 9), and a third 3 * (3 + 9).
    assert sorted(map(sorted, plan_batches(of_lengths([(1, 0), (2, 8), (3, 0)]), 35))) == [[0, 1], [2]]
    assert plan_batches(of_lengths([(10, 4)]), 15) == [[0]]


def test_ten_pairs_are_short_and_not_copied() -> None:
    assert len({article for article, _ in TEN_PAIRS}) == len({summary for _, summary in TEN_PAIRS}) == 10
    for article, summary in TEN_PAIRS:
        assert 8 <= len(article.split()) <= 18 and 4 <= len(summary.split()) <= 7
        assert set(summary.split()) - set(article.split()), f"every word of {summary!r} is in its article"
        assert (article + summary).replace(" ", "").isalpha() and (article + summary).islower()


def bart_like() -> Vocabulary:
    """With the ids of BART: start and end are one token."""
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "flood": 4, "closes": 5, "bridge": 6}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece()
    return Vocabulary(tokenizer, special_tokens=["<pad>", "</s>", "</s>", "<unk>"])


def test_ids_come_from_the_vocabulary(words: Vocabulary) -> None:
    assert (words.pad_id, words.start_id, words.eos_id, words.unknown_id) == (PAD_ID, START_ID, EOS_ID, UNKNOWN_ID)
    for vocabulary in (bart_like(), Vocabulary.from_json(bart_like().to_json())):
        assert (vocabulary.pad_id, vocabulary.start_id, vocabulary.eos_id, vocabulary.unknown_id) == (1, 2, 2, 3)
        assert vocabulary.unknown_words("storm closes bridge") == ["storm"]
        assert vocabulary.decode([2, 4, 5, 2, 1]) == "flood closes"
        pairs = [Pair("flood closes bridge", "flood"), Pair("flood", "closes bridge")]
        batch = encode_pairs(pairs, vocabulary, 9, 9).batch([1, 0])
        assert batch.src.tolist() == [[4, 1, 1], [4, 5, 6]]
        assert batch.decoder_input.tolist() == [[2, 5, 6], [2, 4, 1]]
        assert batch.labels.tolist() == [[5, 6, 2], [4, 2, 1]]
        assert batch.pad_id == batch.to("cpu").pad_id == 1
