"""Scoring: numbers that can be counted by hand, and baselines on articles whose nearest is plain to see."""

import json
import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from tests.model.test_model import small
from tfm_lib.data.batches import encode_pairs
from tfm_lib.data.newsroom import compose
from tfm_lib.data.pairs import Pair, Splits
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.writing.decoding import greedy, summarize
from tfm_lib.writing.rouge import ANY_LANGUAGE, ENGLISH, lead, rouge_l_of_beginnings, tokenizer_for, unicode_words
from tfm_lib.writing.scoring import (
    Baselines,
    choose_k,
    evaluate,
    exact_match,
    first_words,
    nearest_summaries,
    score,
    slot_accuracy,
)

TRAIN = [
    Pair("the harbor was closed by the storm", "storm closes harbor"),
    Pair("the team won the final match", "team wins final"),
    Pair("the mayor spoke and the crowd listened", "storm closes harbor"),
]
DEV = [Pair("a b c d e f", "a b c"), Pair("g h i j k l", "g h i"), Pair("m n o", "x y z w")]
TEST = [Pair("a late storm over the harbor", "a late storm"), Pair("our team played a match", "Team Wins final")]
SPLITS = Splits(TRAIN, DEV, TEST)


@pytest.mark.parametrize(
    ("text", "reference", "wanted"),
    [
        # 3 of 4 words of each are common, 1 of 3 neighboring pairs, and the longest common subsequence has 3 words.
        ("storm closes old harbor", "storm closes harbor today", (3 / 4, 1 / 3, 3 / 4, 0)),
        ("a storm is here", "storm", (2 / 5, 0, 2 / 5, 0)),  # precision 1/4, recall 1: F1 is 2 * 1/4 / (5/4)
        ("Floods", "flood", (1, 0, 1, 0)),  # stemmed
        ("Mädchen", "Rädchen", (0, 0, 0, 0)),  # they have a part in common, but no word
        ("STRASSE, schön", "straße schön", (1, 1, 1, 0)),  # case and marks do not count
        ("привет мир", "привет всем", (1 / 2, 0, 1 / 2, 0)),
        ("东京 iPhone 发布", "东京 iPad 发布", (4 / 5, 1 / 2, 4 / 5, 0)),  # 东, 京, the name, 发, 布
    ],
)
def test_scores_by_hand(text, reference, wanted):
    scores = score([text], [reference])
    assert (scores.rouge1, scores.rouge2, scores.rougeL, scores.exact) == pytest.approx(wanted)
    assert exact_match(["Team wins", "team wins", "team won", ""], ["team wins"] * 4) == 0.5
    half = score([text, "nothing shared"], [reference, reference])
    assert half.rouge1 == pytest.approx(scores.rouge1 / 2), "the mean"


@pytest.mark.parametrize("text", ["привет мир", "Ü", "你好", "สวัสดี", "हिन्दी", "ça va", "🎉", "?!", "42", "a"])
def test_every_text_equals_itself(text):
    assert score([text], [text]).rouge1 == score([text], [text]).rougeL == 1
    assert score([text], ["completely other words"]).rouge1 == 0
    assert unicode_words("हिन्दी में e\u0301te\u0301 \uff21\uff22") == ["हिन्दी", "में", "été", "ab"], "signs, normal forms"


@pytest.mark.parametrize(
    "text", ["Floods closed 3 roads, don't they?", "The café's re-opening: $1,000!", "closed_roads  x-y"]
)
def test_english_is_scored_as_published(text):
    reference = "storms and floods closed the café road 3 times"
    published = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score(reference, text)
    references = [reference] + ["a reference of more English words"] * 20  # so that é is one letter of many
    scores = score([text] + [""] * 20, references)
    assert published["rouge1"].fmeasure > 0
    for name, value in published.items():
        assert getattr(scores, name) == pytest.approx(value.fmeasure / 21, abs=0)


def test_a_tokenizer_is_chosen_by_one_letter_of_two_hundred():
    assert tokenizer_for(["a" * 199 + "é"]) is ENGLISH and tokenizer_for(["a" * 198 + "é"]) is ANY_LANGUAGE
    assert tokenizer_for(["42"]) is ENGLISH


@pytest.mark.parametrize(
    ("dev", "k"),
    [
        (DEV, 3),
        ([Pair("late floods here", "flood today")], 2),  # by its stem, as in the score
        ([Pair("a x b c", "z b")], 1),  # of equals the first
        ([Pair("a b c d e f g h", "z")], 1),
        ([Pair("a b c d e f g h", "a b c d")], 4),  # as many as the longest summary has
        # ROUGE-L of the first 1, 2, 3 words: 1/2, 4/5, 1 for the first pair, and 1 each time for the second.
        ([Pair("a b c", "a b c"), Pair("storm", "storm")], 3),
        ([Pair("привет мир снова и снова", "привет мир")], 2),
    ],
)
def test_k_is_the_best_on_the_development_set(dev, k):
    assert choose_k(dev) == k
    assert first_words("one two  three", 2) == "one two"


def test_all_beginnings_have_the_rouge_l_of_the_published_scorer():
    draw, kinds = random.Random(0), ["storm", "Storms", "a", "it's", "harbor", "-", "closed"]
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    for _ in range(100):
        summary, article = (" ".join(draw.choices(kinds, k=draw.randrange(1, 9))) for _ in range(2))
        words = article.split()
        expected = [scorer.score(summary, first_words(article, k))["rougeL"].fmeasure for k in range(len(words) + 1)]
        assert rouge_l_of_beginnings(summary, words, ENGLISH.split) == expected


def plain_nearest(train: list[Pair], article: str) -> str:
    """The same from the formula: the cosine of two vectors over all words."""
    bags = [pair.article.split() for pair in train]
    idf = {word: math.log(len(bags) / sum(word in bag for bag in bags)) for bag in bags for word in bag}

    def vector(words: list[str]) -> list[float]:
        return [(1 + math.log(words.count(word))) * idf[word] if word in words else 0.0 for word in sorted(idf)]

    query = vector(article.lower().split())
    cosines = [
        sum(a * b for a, b in zip(query, row, strict=True)) / (math.hypot(*row) * math.hypot(*query))
        for row in map(vector, bags)
    ]
    best, second = sorted(cosines)[-1:-3:-1]
    assert best - second > 1e-9, "the nearest is one alone"
    return train[cosines.index(best)].summary


def test_the_nearest_is_that_of_the_formula():
    draw, kinds = random.Random(0), "abcdefgh"

    def text() -> str:
        return " ".join(draw.choices(kinds, weights=range(1, 9), k=draw.randint(4, 12)))

    train = [Pair(text(), f"summary {n}") for n in range(12)]
    articles = [text().title() for _ in range(60)]
    assert nearest_summaries(train, articles) == [plain_nearest(train, article) for article in articles]
    assert nearest_summaries(TRAIN[:1], articles[:1]) == ["storm closes harbor"]  # alone, no word of it weighs anything


def test_one_table_of_the_model_beside_the_baselines():
    table = evaluate(["a late storm", "team"], SPLITS)
    assert list(table.scores) == ["model", "first 3 words", "most frequent summary", "nearest training article"]
    assert table.scores["model"] == score(["a late storm", "team"], ["a late storm", "Team Wins final"])
    assert table.scores["nearest training article"].exact == 0.5
    lines = str(table).splitlines()
    assert lines[0].split() == ["2", "pairs", "ROUGE-1", "ROUGE-2", "ROUGE-L", "exact"]
    assert len({len(line) for line in lines}) == 1, "the columns are aligned"
    assert lines[1].split() == ["model", "75.0", "50.0", "75.0", "50.0"]
    content = json.loads(json.dumps(table.to_dict()))
    assert content["scores"]["model"] == {"rouge1": 0.75, "rouge2": 0.5, "rougeL": 0.75, "exact": 0.5}
    assert content["rouge counts"] == "words stemmed as English"


def test_baselines_made_once_serve_every_test_set(monkeypatch):
    known = Baselines(TRAIN, DEV)
    assert known.most_frequent == "storm closes harbor" == Baselines(TRAIN[:2], DEV).most_frequent, (
        "of equals the first"
    )
    fresh = evaluate(["a late storm"] * 2, SPLITS)
    monkeypatch.setattr("tfm_lib.writing.scoring.choose_k", None)
    assert evaluate(["a late storm"] * 2, SPLITS, baselines=known) == fresh


def test_a_bar_is_drawn_where_it_is_asked_for(capsys):
    evaluate(["a late storm"] * 2, SPLITS)
    assert capsys.readouterr().err == ""
    evaluate(["a late storm"] * 2, SPLITS, progress=True)
    assert "scoring" in capsys.readouterr().err


def test_the_table_of_stories_has_their_slots():
    stories = [
        compose("planting", "shrubs", "Anna Weber", "Oslo", "Monday", 12),
        compose("strike", "doctors", "Mei Tanaka", "Lima", "Friday", 5),
    ]
    # In place of "in oslo", and of "on friday, led by tanaka".
    texts = ["weber plants 12 flowers in lima on monday", "5 physicians strike in lima on sunday"]
    assert slot_accuracy(texts, stories) == {"who": 0.5, "what": 0.5, "where": 0.5, "when": 0.5, "how_many": 1}
    test = [Pair(story.article, story.summary) for story in stories]
    table = evaluate([texts[0], ""], Splits(TRAIN, DEV, test), stories)
    assert table.to_dict()["scores"]["model"]["slots"] == pytest.approx(3 / 10)
    assert str(table).splitlines()[0].split()[-2:] == ["exact", "slots"]
    assert str(table).splitlines()[1].split()[-1] == "30.0"


def test_one_tokenizer_for_a_whole_table_which_says_so():
    russian = [Pair("вчера буря закрыла порт", "буря закрыла порт"), Pair("команда выиграла матч", "команда выиграла")]
    table = evaluate(["буря закрыла порт"], Splits(russian, russian, [Pair("storm", "storm буря закрыла порт")]))
    assert str(table).splitlines()[-1] == "ROUGE counts Unicode words, characters where a script has no blanks."
    assert table.scores["model"].rouge1 == pytest.approx(6 / 7)
    assert table.to_dict()["rouge counts"] == "Unicode words, characters where a script has no blanks"


def test_there_is_one_summary_for_each_reference_and_story():
    for scorer in (score, slot_accuracy):
        for texts, references in ((["a"], ["a", "b"]), ([], [])):
            with pytest.raises(ValueError, match=f"{len(texts)} summaries for {len(references)} (references|stories)"):
                scorer(texts, references)


def test_summaries_stand_in_the_order_of_their_articles(capsys):
    vocabulary = Vocabulary.of_words(text for pair in TRAIN + TEST for text in pair)
    model = small(vocab_size=len(vocabulary))
    examples = encode_pairs([*TRAIN, *TEST], vocabulary, 20, 20)
    alone = [vocabulary.decode(greedy(model, torch.tensor([ids]), 5)[0].tolist()) for ids in examples.articles]
    assert len(set(alone)) > 1
    widths: list[tuple[int, ...]] = []
    model.encoder.register_forward_pre_hook(lambda module, args: widths.append(tuple(args[0].shape)))
    assert summarize(model, vocabulary, examples, 5, batch_size=2) == alone and not capsys.readouterr().err
    assert [rows for rows, _ in widths] == [2, 2, 1] and widths == sorted(widths, key=lambda shape: shape[1])


def test_a_lead_is_the_mean_difference_and_its_interval_that_of_drawn_pairs():
    references = [f"a b c {n}" for n in range(40)]
    ours = [f"a b c {n}" if n % 4 else "x" for n in range(40)]  # three quarters are right
    theirs = ["a b y z"] * 40  # half of each
    mean, low, high = lead(ours, theirs, references, ENGLISH)
    assert mean == pytest.approx(0.75 - 0.5)
    # The difference is 1/2 three times of four, and -1/2 else: so far is a mean of 40 from its own, at 95 %.
    assert high - low == pytest.approx(2 * 1.96 * (0.75 * 0.25 / 40) ** 0.5, rel=0.1)
    assert low < mean < high
    assert lead(ours, ours, references, ENGLISH) == (0, 0, 0), "pair by pair there is no difference"
    assert lead(ours[1:2], theirs[1:2], references[1:2], ENGLISH) == pytest.approx((0.5, 0.5, 0.5))


CHINESE = [
    Pair(f"{place}发生火灾。烧毁了{n}间房屋。消防队长说没有人受伤。", f"{place}火灾烧毁{n}间房屋")
    for n, place in enumerate(("东京", "武汉", "成都"), 13)
]


def test_baselines_of_a_script_without_blanks_are_no_whole_articles():
    """Every article was one word: the first word was all of it, and every article's nearest one the first."""
    base = Baselines(CHINESE, CHINESE)
    articles = [pair.article.replace("。", "、") for pair in CHINESE]
    texts = base.summarize(articles)
    assert 1 < base.k < 20 and texts[f"first {base.k} words"] != articles
    assert texts["nearest training article"] == [pair.summary for pair in CHINESE]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("می\u200cخواهم بروم", ["میخواهم", "بروم"]),  # noqa: RUF001 (a joiner inside of a word)
        ("क्\u200dष है", ["क्ष", "है"]),
        ("ไป\u200bบ้าน", ["ไ", "ป", "บ", "้", "า", "น"]),
        ("Ärger, 中文!", ["ärger", "中", "文"]),
    ],
)
def test_joiners_stand_inside_of_words_and_a_zero_width_space_between(text, words):
    assert ANY_LANGUAGE.split(text) == words


@given(st.text(alphabet="aä中文 ,.\u200c\u200b'ก้", max_size=20))
def test_pieces_are_the_text_again_and_hold_a_word_each(text):
    pieces = ANY_LANGUAGE.pieces(text)
    assert "".join(pieces) == text
    words = [word for piece in pieces for word in ANY_LANGUAGE.split(piece)]
    assert words == ANY_LANGUAGE.split(text) and all(len(ANY_LANGUAGE.split(piece)) <= 1 for piece in pieces)
