"""Every number in the README and the pages is held by a check here, by a test elsewhere, or by a source.

A number that is new, or changed, is in no phrase of the table any more, and has to be held first.
"""

import re
from collections.abc import Callable
from statistics import NormalDist

import pytest
import torch
from torch import nn

from docs import landscape
from tests.learning import test_kill
from tests.lessons import anatomy
from tests.nbclaims import cells, lint, numbers
from tests.nbclaims.prose import sentences
from tests.pages import links, test_coverage
from tfm_lib.data import newsroom
from tfm_lib.lessons import LESSONS
from tfm_lib.model import Transformer, TransformerConfig

FILES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((links.ROOT / "docs").glob("*.md")))]
CLAIM = re.compile(r"(?<=[^`\s])<!--.*?-->(?!`)")
LINK = re.compile(r"(!?)\[([^\]]*)\]\([^)]*\)")
# No measure: a year, the number of a lesson or a section, the axis and the part of a vector that are 0 or 1 long.
NAMED = re.compile(r"0\d|(?:19|20)\d\d|[01]")
Check = Callable[[], bool] | str  # what computes it, the test that holds it (file::name), or a source


class Cited(str):
    """Where a number comes from that nobody can compute here."""


def plain(file: str) -> str:
    """A page with the words of its links, without its claims, and without its pictures, whose words others hold."""
    text = (links.ROOT / file).read_text(encoding="utf-8").replace("\N{MULTIPLICATION SIGN}", "x")
    return LINK.sub(lambda match: "" if match[1] else match[2], CLAIM.sub("", text))


def flat(file: str) -> str:
    return " ".join(plain(file).split())


def measured(*texts: str) -> bool:
    return all(any(number.measured for number in numbers.numbers_in(text)) for text in texts)


def the_example_is_in_order() -> bool:
    """The example of claims is one that the lint would take."""
    text = (links.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [example] = re.findall(r"(?:^    .*<!-- .*\n)+", text, re.MULTILINE)
    example = "\n".join(line.strip() for line in example.splitlines())
    return not [*lint.number_findings(example), *lint.form_findings(example)] and 64.1**0.5 < 8.1


def bytes_of_training_a_parameter() -> int:
    layer = nn.Linear(1, 1, bias=False)
    adam = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1)).backward()
    adam.step()
    [state] = adam.state.values()
    held = [layer.weight, layer.weight.grad, state["exp_avg"], state["exp_avg_sq"]]
    return sum(tensor.element_size() for tensor in held)


def the_bell_curve_divides_by_twice_the_squared_width() -> bool:
    bell, distance = torch.distributions.Normal(0.0, 3.0), torch.tensor(2.0)
    return torch.allclose(bell.log_prob(distance) - bell.log_prob(torch.tensor(0.0)), -(distance**2) / (2 * 3.0**2))


def order_is_taken() -> bool:
    claim = '6.2 < moves["post-norm"] / moves["pre-norm"] < 6.4'
    text = f"Post-norm moves 6.3 times as far as pre-norm<!-- claim: {claim} -->."
    return claim in flat("CONTRIBUTING.md") and not [*lint.number_findings(text), *lint.order_of_words_findings(text)]


def bits(*types: torch.dtype) -> list[int]:
    return [torch.finfo(kind).bits for kind in types]


def halves() -> list[str]:
    model = Transformer(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8))
    return [name for name, part in model.named_children() if hasattr(part, "layers")]


def an_exercise_has_three_cells() -> bool:
    books = [cells.read(path) for path in sorted((links.ROOT / "notebooks").glob("*.ipynb"))]
    tagged = [tag for book in books for cell in book.cells for tag in cells.tags(cell)]
    return tagged.count("exercise") == 2 * tagged.count("solution") > 0


def lesson_10_is_there() -> bool:
    return "10_scale" in [lesson.name for lesson in LESSONS]


def lesson_11_is_there() -> bool:
    return "11_real_text" in [lesson.name for lesson in LESSONS]


def lesson_12_is_there() -> bool:
    return "12_pretrained" in [lesson.name for lesson in LESSONS]


def lesson_13_is_there() -> bool:
    return "13_your_own" in [lesson.name for lesson in LESSONS]


def lesson_14_is_there() -> bool:
    return "14_before_and_beside" in [lesson.name for lesson in LESSONS]


def lesson_15_is_there() -> bool:
    return "15_cheaper_attention" in [lesson.name for lesson in LESSONS]


def lesson_16_is_there() -> bool:
    return "16_families_and_scale" in [lesson.name for lesson in LESSONS]


def lesson_17_is_there() -> bool:
    return "17_adapt_and_compress" in [lesson.name for lesson in LESSONS]


def lesson_18_is_the_last() -> bool:
    return LESSONS[-1].name == "18_pictures_and_text"


CODERS = ["encoder", "decoder"]
SPEED = "test_benchmarks.py::test_the_readme_quotes_the_page"
PENCIL = "test_landscape.py::test_the_pencil_gives_what_the_table_says"
PAIRS = "test_landscape.py::test_the_pairs_of_the_table_are_those_of_the_masks"
SIZES = "test_landscape.py::test_the_page_tells_the_sizes_of_the_picture"
BUILT = "test_landscape.py::test_biases_and_norms_are_less_than_half_a_percent"
SINCE = "test_landscape.py::test_what_was_built_since_is_what_its_configuration_says"
HEADS_KEEP = "test_landscape.py::test_what_all_heads_would_keep"
BEST_KEYS = "test_landscape.py::test_one_layer_after_each_five_and_the_best_keys"
MESSAGE = "test_landscape.py::test_the_page_shows_each_picture_with_its_message"
PLANS = "test_teaching.py::test_the_plans_name_the_lessons"
MINUTES = "test_teaching.py::test_a_row_has_the_minutes_of_its_lesson"
NAMES = "test_symbol_names.py::test_names_mean_what_their_row_says"
FSDP = "test_scaling.py::test_fsdp_around_our_layers_trains_as_one_process_does"
SECTIONS = "test_sources.py::test_the_page_of_symbols_gives_the_sections_of_the_paper"

HELD: dict[str, dict[str, Check]] = {  # by file; each key is a phrase of the page as it is read
    "README.md": {
        "below 4 % none is drawn": "test_readme_picture.py::test_what_the_readme_says_of_the_summaries",
        "it knows 604 words": "test_readme_picture.py::test_what_the_readme_says_of_the_summaries",
        "with a ROUGE-L of 16.9, below the 22.9": "test_benchmarks.py::test_the_readme_says_how_long_it_takes_to_learn",
        "first 12 words of the abstract": "test_benchmarks.py::test_the_readme_says_how_long_it_takes_to_learn",
        "has 28.2 after": "test_benchmarks.py::test_the_readme_says_how_long_it_takes_to_learn",
        "and 29.9 with beam search": "test_benchmarks.py::test_the_readme_says_how_long_it_takes_to_learn",
        "it has 29.4 and 31.0.": "test_benchmarks.py::test_the_readme_says_how_long_it_takes_to_learn",
        "a training step is 1.7 times as fast, or 1.2 times without dropout": SPEED,
        "greedy decoding is 4.1 times as fast for 32 texts and 1.9 times for one": SPEED,
        "our beam search is 1.8 to 2.0 times as fast as BART's": SPEED,
        "On an AMD processor with AVX2 the training step is only 1.3 times as fast": SPEED,
        "five files of about 800 lines together": "test_benchmarks.py::test_the_readme_says_how_long_the_model_is",
        "kills a training 20 times": lambda: test_kill.KILLS == 20,
        "| 10 Scale |": lesson_10_is_there,
        "| 11 Real text |": lesson_11_is_there,
        "| 12 Published weights |": lesson_12_is_there,
        "| 13 Your own |": lesson_13_is_there,
        "Lesson 13 shows how": lesson_13_is_there,
        "| 14 Before and beside |": lesson_14_is_there,
        "| 15 Cheaper attention |": lesson_15_is_there,
        "| 16 Families and scale |": lesson_16_is_there,
        "| 17 Adapt and compress |": lesson_17_is_there,
        "| 18 Pictures and text |": lesson_18_is_the_last,
        "20,000 small stories, and two test sets": lambda: (
            (newsroom.make_newsroom.__kwdefaults__ or {})["train"] == 20_000
        ),
        "about 3 GB to download": Cited("not measured here: the lock has no sizes"),
        "6.5 GB on disk, more than half of it for the GPU": "test_setup.py::test_the_sizes_in_the_readme",
    },
    "CONTRIBUTING.md": {
        "5 to 7 sections and, before the exercises, at most 3,000 words, 50 cells and three outputs": lambda: (
            (anatomy.SECTIONS, anatomy.MOST_WORDS, anatomy.MOST_CELLS, anatomy.MOST_AGREEMENTS) == ((5, 7), 3000, 50, 3)
        ),
        "words / 180, half a minute a code cell, and the run: at most 30 in all": lambda: (
            (anatomy.WORDS_A_MINUTE, anatomy.MINUTES_A_CELL, anatomy.MOST_MINUTES) == (180, 0.5, 30)
        ),
        "have 88 columns at most": lambda: anatomy.COLUMNS == 88,
        "a run killed 20 times": lambda: test_kill.KILLS == 20,
        '"3 times", numbers with a comma (20,000) and, in words, fractions and multiples (a third, twice as, tenfold), '
        'a hundred and up, "nine of ten"': lambda: measured(
            "3 times", "20,000", "a third of", "twice as", "tenfold", "a hundred", "nine of ten", "eight lines"
        ),
        "The variance is 64.1, its root about 8": the_example_is_in_order,
        "It took 0.8 s there": the_example_is_in_order,
        "One head of 8 is an eighth": the_example_is_in_order,
        "A number in a word (half, twice, 3 times) may be off by 2 %": lambda: numbers.IN_A_WORD == 0.02,
        'not "more than 3 times", but "6.3 times"': lambda: measured("more than 3 times", "6.3 times"),
        "before the number allow 5 %": lambda: numbers.CLOSE == 0.05,
        "At most one claim of a lesson in ten": lambda: lint.MAX_BOUNDS == 1 / 10,
        '"Post-norm moves 6.3 times as far as pre-norm"': order_is_taken,
        '"More than 3" is a lower bound, "less than 3" an upper one': lambda: (
            [number.hedge for text in ("More than 3", "less than 3") for number in numbers.numbers_in(text)]
            == ["up", "down"]
        ),
        '"eight lines"': lambda: measured("eight lines"),
        "gets three cells": an_exercise_has_three_cells,
    },
    "docs/coverage.md": {
        f"| {label} |": "test_coverage.py::test_the_section_speaks_of_it" for _, label, *_ in test_coverage.ROWS
    },
    "docs/index.md": {},
    "docs/landscape.md": {
        "recurrence 8, convolution 4, dilated convolution 2, attention 1": MESSAGE,
        "read 3 vectors at once": MESSAGE,
        "among 64 positions": MESSAGE,
        "attention allows 4,096 pairs, or 2,080 looking back": MESSAGE,
        "Sparse Transformer 708, Transformer-XL 1,312, Reformer 273, window 556, Longformer 790, BigBird 946": MESSAGE,
        "an LSTM takes four times the work": "test_landscape.py::test_an_lstm_takes_four_times_the_work",
        "they take twice as much as the recurrence": "test_landscape.py::test_where_the_square_equals_a_recurrence",
        "with 64 positions": SIZES,
        "4,096 or 2,080": PAIRS,
        "| 708 |": PAIRS,
        "| 1,312 |": PAIRS,
        "| 273 |": PAIRS,
        "| 790 |": PAIRS,
        "| 946 |": PAIRS,
        "*l* is 8, *L* and *M* are 16, windows reach 4 to either side, *g* is 2 and *r* is 3": SIZES,
        "has 556 pairs, at most 9 for a query": "test_landscape.py::test_pairs_that_can_be_counted_by_hand",
        "into 8 buckets": SIZES,
        "A Linformer's table has 64 rows": lambda: landscape.POSITIONS == 64,
        "| 24 | 1,024 | 16 x 64 | 4,096 | 30,522 | 512 | 340 M | 334 M |": PENCIL,
        "| 48 | 1,600 | 25 x 64 | 6,400 | 50,257 | 1,024 | 1,558 M | 1,557 M |": PENCIL,
        "| 12 + 12 | 1,024 | 16 x 64 | 4,096 | 50,265 | 2,048 | 400 M | 406 M |": PENCIL,
        "T5-11B | 2019 | 24 + 24 | 1,024 | 128 x 128 | 65,536 | 32,128 | 0 | 11 B | 11.3 B |": PENCIL,
        "| 96 | 12,288 | 96 x 128 | 49,152 | 50,257 | 2,048 | 175.0 B | 174.6 B |": PENCIL,
        "| 118 | 18,432 | 48 x 256 | 73,728 | 256,000 | 0 | 540.35 B | 540.35 B |": PENCIL,
        r"$2da + 2d \cdot 256$ weights": PENCIL,
        "have 335, 1,558, 406 and 11,307 million parameters: less than half a percent more": BUILT,
        "The paper of BERT has 340 million": Cited("Devlin et al. 2019, section 3"),
        "**GPT-2's paper** says 1,542 million": Cited("Radford et al. 2019, table 2"),
        "400 million stands beside its weights": Cited("the README beside BART's weights in fairseq"),
        "**T5-11B** is not as wide": Cited("the name of the model"),
        "together are 16 times, and its feed-forward networks 64 times as wide as": "test_landscape.py::"
        "test_how_much_wider_t5_is_inside_than_its_vectors",
        "that is about 1,600 times in four years": "test_landscape.py::"
        "test_the_growth_in_the_prose_is_that_of_the_table",
        "70 billion parameters and four times as much text did better than 280 billion": Cited(
            "Hoffmann et al. 2022, abstract"
        ),
        "Mistral 7B | 2023 | 32 | 0 | a window of 4,096 | 2,048 |": SINCE,
        "Mixtral 8x7B | 2024 | 32 | 32 |": SINCE,
        "| 2,048 | 2 of 8 |": SINCE,
        "| 32 | 4 | Mamba | 2,048 | 2 of 16 |": SINCE,
        "| 22 | 8 | a window of 128 |": SINCE,
        "DeepSeek-V3 | 2024 | 61 | 61 |": SINCE,
        "| 576 | 8 of 256 |": SINCE,
        "gpt-oss-120b | 2025 | 36 | 18 | a window of 128 | 1,024 | 4 of 128 |": SINCE,
        "| 48 | 12 | linear attention | 1,024 | 10 of 512 |": SINCE,
        "GLM-5 | 2026 | 78 | 0 | 2,048 keys, chosen | 576 + 128 | 8 of 256 |": SINCE,
        "DeepSeek-V4-Flash | 2026 | 43 | 0 |": SINCE,
        "every 4 tokens made one, or every 128 | 128 + 32, or 4 | 6 of 256 |": SINCE,
        "Gemma 3 has one of these after each five": BEST_KEYS,
        "five of the eight that write would keep 8,192 numbers": HEADS_KEEP,
        "one vector of 512 numbers": HEADS_KEEP,
        "and 64 for the positions": HEADS_KEEP,
        "for its 128 heads it would be 40,960": HEADS_KEEP,
        "the best 2,048": BEST_KEYS,
        "the 128 numbers in the table": SINCE,
        "one vector for every 4 tokens, of which a query attends to the best 512": BEST_KEYS,
        "one for every 128 tokens, and then to all of them; the last 128 tokens": BEST_KEYS,
        "512 / 4 = 128, with 32 more for the small network that chooses, or 512 / 128 = 4": BEST_KEYS,
        "of 2026 writes 256 tokens at once": BEST_KEYS,
        "call GPT-4 a model of more than a trillion parameters in one": Cited("a rumor, called one"),
        "On arXiv the first 12 words of an abstract": "test_benchmarks.py::"
        "test_the_readme_says_how_long_it_takes_to_learn",
        "T5 from our blocks, lesson 12 |": lesson_12_is_there,
        "AlphaFold 2 |": Cited("the name of the program"),
        "training on texts of one's own, lesson 11 |": lesson_11_is_there,
        "on pairs of yours (lesson 12)": lesson_12_is_there,
        "stands in the test (lesson 11)": lesson_11_is_there,
        "is built, trained and measured in lesson 14": lesson_14_is_there,
        "all are built and measured in lesson 15": lesson_15_is_there,
        "The lessons end with 18": lesson_18_is_the_last,
    },
    "docs/scaling.md": {
        "a worker for each of, say, 4 GPUs": lambda: "--nnodes 2 --nproc-per-node 4" in flat("docs/scaling.md"),
        "16 bytes a parameter": lambda: bytes_of_training_a_parameter() == 16,
        "Each worker holds half of the parameters": FSDP,
    },
    "docs/symbols.md": {
        "| decoder | The half of the machine": lambda: halves() == CODERS,
        "| encoder | The half of the machine": lambda: halves() == CODERS,
        "in 16 bits that ends at 65,504; `bfloat16` reaches as far as 32 bits do": lambda: (
            torch.finfo(torch.float16).max == 65504
            and bits(torch.float16, torch.bfloat16, torch.float32) == [16, 16, 32]
        ),
        "divided by twice the squared width": the_bell_curve_divides_by_twice_the_squared_width,
        "Forward and backward passes in 16 bits, with weights, gradients and steps in 32": lambda: (
            bits(torch.bfloat16, torch.float32) == [16, 32]
        ),
        "One of the five things that a story tells": lambda: len(newsroom.SLOTS) == 5,
        "| Adam | 5.3": SECTIONS,
        '| beam search | 6.1, "beam search with a beam size of': SECTIONS,
        'with a beam size of 4"': Cited("Vaswani et al. 2017, section 6.1"),
        "| embedding | 3.4": SECTIONS,
        "| learned positions | 3.5": SECTIONS,
        "| length penalty | 6.1": SECTIONS,
        '"offset by one position" (3.1)': SECTIONS,
        "| weight tying | 3.4": SECTIONS,
        "| 10, section 2 |": lesson_10_is_there,
        "| 10, section 4 |": lesson_10_is_there,
        "| 11, section 2 |": lesson_11_is_there,
        "| 11, section 3 |": lesson_11_is_there,
        "| 11, section 6 |": lesson_11_is_there,
        "| 11, section 7 |": lesson_11_is_there,
        "| 12, section 3 |": lesson_12_is_there,
        "| 12, “T5 from the same blocks” |": lesson_12_is_there,
        "| 12, section 5 |": lesson_12_is_there,
        **{f"| 14, section {number} |": lesson_14_is_there for number in (1, 2, 4, 6)},
        "| 14, “what a layer can see” |": lesson_14_is_there,
        **{f"| 13, section {number} |": lesson_13_is_there for number in (2, 3)},
        "| 14, “the LSTM, and a gate in two places” |": lesson_14_is_there,
        **{f"| 15, section {number} |": lesson_15_is_there for number in (1, 2, 4, 5, 6)},
        **{f"| 16, section {number} |": lesson_16_is_there for number in (1, 2, 3, 5, 6)},
        **{f"| 17, section {number} |": lesson_17_is_there for number in (2, 3, 4, 5, 6, 7)},
        **{f"| 18, section {number} |": lesson_18_is_the_last for number in (1, 2, 3, 4, 5)},
        "| 15, “the way back without the table” |": lesson_15_is_there,
        "| 15, “memory of earlier segments” |": lesson_15_is_there,
        "draw such a range from every test set, and 95 % of them hold": lambda: (
            abs(NormalDist().cdf(1.96) * 2 - 1 - 0.95) < 1e-4
        ),
        "(rows D to 2 D)": NAMES,
        "(rows 2 D to 3 D)": NAMES,
    },
    "docs/teaching.md": {
        "8 GB of memory will do": Cited("advice; not measured"),
        "| 00 Start here | 25 |": MINUTES,
        "| 01 Attention | 28 | 8 in 103 |": MINUTES,
        "| 02 Masked softmax | 25 | 8 in 80 |": MINUTES,
        "| 03 Multi-head attention | 28 | 7 in 75 |": MINUTES,
        "| 04 Positional encoding | 27 | 8 in 97 |": MINUTES,
        "| 05 Layers | 29 | 6 in 81 |": MINUTES,
        "| 06 The full model | 27 | 7 in 94 |": MINUTES,
        "| 07 Training on toy summaries | 29 | 7 in 88 |": MINUTES,
        "| 08 Decoding | 29 | 7 in 96 |": MINUTES,
        "| 09 Speed | 29 | 7 in 66 |": MINUTES,
        "| 10 Scale | 20 | 1 in 20 |": MINUTES,
        "| 11 Real text | 29 | 9 in 99 |": MINUTES,
        "| 12 Published weights | 27 | 8 in 87 |": MINUTES,
        "| 14 Before and beside | 24 | 7 in 60 |": MINUTES,
        "| 15 Cheaper attention | 29 | 10 in 87 |": MINUTES,
        "| 13 Your own | 20 | 9 in 157 |": MINUTES,
        "there 13 comes first": lesson_13_is_there,
        "| 2 | 02 and 03 |": PLANS,
        "| 3 | 04 and 05 |": PLANS,
        "| 4 | 06; the first milestone of 13 |": PLANS,
        "| 5 | 07 |": PLANS,
        "| 6 | 08 |": PLANS,
        "| 7 | 09, and 10 for those who will train larger models; milestones of 13 |": PLANS,
        "| 8 | 11 and 12 |": PLANS,
        "| 9 | one of 14 to 18, a different one for each group |": PLANS,
        "| 10 | 13: each model examined": PLANS,
        "Lesson 13 ends part one": lesson_13_is_there,
        "| 16 Families and scale | 27 | 9 in 59 |": MINUTES,
        "| 17 Adapt and compress | 27 | 9 in 70 |": MINUTES,
        "| 18 Pictures and text | 27 | 9 in 60 |": MINUTES,
        "and those from 09 on": lambda: "09_speed" in [lesson.name for lesson in LESSONS],
        "506 minutes of reading, and 136 exercises in 1479 minutes": "test_teaching.py::test_the_minutes_are_added_up",
        "It opens with three questions": "test_questions.py::"
        "test_three_questions_of_the_spine_open_a_lesson_and_its_title_asks_none",
    },
}


def not_held(text: str, phrases: list[str]) -> list[str]:
    """The numbers of a text that stand in no phrase, each with its sentence."""
    found = []
    for sentence in sentences(text):
        patterns = [re.escape(phrase).replace(r"\ ", r"\s+") for phrase in phrases]
        held = [match.span() for pattern in patterns for match in re.finditer(pattern, sentence.source)]
        for number in sentence.numbers:
            start, end = number.start, number.start + len(number.text)
            counts = re.search(r"\d", number.text) and not NAMED.fullmatch(number.text)
            section = re.search(r"\bsection\s+\Z", sentence.source[:start])
            inside = any(begin <= start and end <= stop for begin, stop in held)
            if (number.measured or counts) and not section and not inside:
                found.append(f"{number.text} in {sentence.text!r}")
    return found


def test_every_page_is_looked_at():
    assert list(HELD) == FILES


@pytest.mark.parametrize("file", FILES)
def test_every_number_of_a_page_is_held(file):
    assert not_held(plain(file), list(HELD[file])) == [], "hold it in the table above: by a check, a test or a source"


@pytest.mark.parametrize(("file", "phrase"), [(file, phrase) for file in FILES for phrase in HELD[file]])
def test_what_holds_a_number(file, phrase):
    assert phrase in flat(file), "the page says something else now"
    check = HELD[file][phrase]
    if isinstance(check, Cited):
        assert check
    elif isinstance(check, str):
        where, _, name = check.partition("::")
        [path] = (links.ROOT / "tests").rglob(where)
        assert f"def {name}(" in path.read_text(encoding="utf-8"), f"there is no test {check}"
    else:
        assert check()


def test_a_new_number_is_found():
    assert not_held("It takes 7 GB, and kills a run 30 times.", []) != []
    assert len(not_held("It takes 7 GB, as in lesson 07, section 3, and a third of 2017.", ["takes 7 GB"])) == 1
