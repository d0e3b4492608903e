"""Every number in the README and the pages is held by a check here, by a test elsewhere, or by a source.

A number that is new, or changed, is in no phrase of the table any more, and has to be held first.
"""

import re
from collections.abc import Callable, Iterable
from statistics import NormalDist

import pytest
import torch
from torch import nn

from docs import landscape
from tests.learning import test_kill
from tests.lessons import anatomy, rules
from tests.lessons import plain as english
from tests.nbclaims import cells, lint, numbers
from tests.nbclaims.prose import sentences
from tests.pages import links
from tfm_lib.commands.tasks import WRITTEN
from tfm_lib.data import newsroom
from tfm_lib.grading import sandbox
from tfm_lib.lessons import LESSONS

# The numbers of checkup.md are those of code in its table, which is what the check-up prints.
PAGES = sorted(path for path in (links.ROOT / "docs").glob("*.md") if path.name != "checkup.md")
FILES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in PAGES)]
CLAIM = re.compile(r"(?<=[^`\s])<!--.*?-->(?!`)")
LINK = re.compile(r"(!?)\[([^\]]*)\]\([^)]*\)")
# No measure: a year, the number of a lesson or a section, the axis and the part of a vector that are 0 or 1 long.
NAMED = re.compile(r"0\d|(?:19|20)\d\d|[01]")
LESSON = {lesson.number for lesson in LESSONS}  # no measure, either: "lesson 13", "| 13 Your own", "| 13, section 2"
AT_LESSON = re.compile(r"(?:\b[Ll]essons?\s+|\|\s*)\Z"), re.compile(r"\W| [A-Z]|, (?:section|“)")
SOURCES = [path.read_text(encoding="utf-8") for path in (links.ROOT / "tests").rglob("test_*.py")]
TESTS = {name for source in SOURCES for name in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}
Check = Callable[[], bool] | str  # what computes it, the test that holds it, or a source


class Cited(str):
    """Where a number comes from that nobody can compute here."""


FROM_CODE = Cited("the phrase is written with the value that the code has")


def plain(file: str) -> str:
    """A page with the words of its links, without its claims, and without its pictures, whose words others hold."""
    text = (links.ROOT / file).read_text(encoding="utf-8").replace("\N{MULTIPLICATION SIGN}", "x")
    return LINK.sub(lambda match: "" if match[1] else match[2], CLAIM.sub("", text))


def measured(*texts: str) -> bool:
    return all(any(number.measured for number in numbers.numbers_in(text)) for text in texts)


def the_example_is_in_order() -> bool:
    """The example of claims is one that the lint would take."""
    text = (links.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [example] = re.findall(r"(?:^    .*<!-- .*\n)+", text, re.MULTILINE)
    example = "\n".join(line.strip() for line in example.splitlines())
    return not [*lint.PROSE["number"](example), *lint.form_findings(example)] and 64.1**0.5 < 8.1


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
    return claim in links.flat("CONTRIBUTING.md") and not [*lint.PROSE["number"](text), *lint.PROSE["order"](text)]


def an_exercise_has_three_cells() -> bool:
    books = [cells.read(path) for path in sorted((links.ROOT / "notebooks").glob("*.ipynb"))]
    tagged = [tag for book in books for cell in book.cells for tag in cells.tags(cell)]
    return tagged.count("exercise") == 2 * tagged.count("solution") > 0


HALF, FULL = torch.finfo(torch.float16), torch.finfo(torch.float32)
SPEED = "test_the_readme_quotes_the_page"
PENCIL = "test_the_pencil_gives_what_the_table_says"
PAIRS = "test_the_pairs_of_the_table_are_those_of_the_masks"
BUILT = "test_biases_and_norms_are_less_than_half_a_percent"
SECTIONS = "test_the_page_of_symbols_gives_the_sections_of_the_paper"
SINCE = "test_what_was_built_since_is_what_its_configuration_says"
HEADS_KEEP = "test_what_all_heads_would_keep"
BEST_KEYS = "test_one_layer_after_each_five_and_the_best_keys"
PLANS = "test_the_plans_name_the_lessons"
NAMES = "test_torch_has_the_three_projections_in_one_matrix_in_this_order"

HELD: dict[str, dict[str | re.Pattern, Check]] = {  # by file: phrases of the page as it is read, or rows of tables
    "README.md": {
        "below 4 % none is drawn": "test_what_the_readme_says_of_the_summaries",
        f"Summaries of more than {WRITTEN} tokens": FROM_CODE,
        "it knows 604 words": "test_what_the_readme_says_of_the_summaries",
        "with a ROUGE-L of 16.9, below the 22.9": "test_the_readme_says_how_long_it_takes_to_learn",
        "first 12 words of the abstract": "test_the_readme_says_how_long_it_takes_to_learn",
        "reaches 28.2 after": "test_the_readme_says_how_long_it_takes_to_learn",
        "and 29.9 with beam search": "test_the_readme_says_how_long_it_takes_to_learn",
        "it reaches 29.4 and 31.0.": "test_the_readme_says_how_long_it_takes_to_learn",
        "a training step is 1.7 times as fast, or 1.2 times without dropout": SPEED,
        "greedy decoding is 4.1 times as fast for 32 texts and 1.9 times for one": SPEED,
        "our beam search is 1.8 to 2.0 times as fast as BART's": SPEED,
        "On an AMD processor with AVX2 the training step is only 1.3 times as fast": SPEED,
        "five files of fewer than 850 lines together": "test_the_readme_says_how_long_the_model_is",
        "400 of 400 sentences": "test_four_hundred_sentences_become_what_the_engine_makes_of_them",
        f"kills a training {test_kill.KILLS} times": FROM_CODE,
        f"{newsroom.make_newsroom.__kwdefaults__['train']:,} small stories, and two test sets": FROM_CODE,
        "about 3 GB to download": Cited("not measured here: the lock has no sizes"),
        "7 GB on disk, more than half of it for the GPU": "test_the_sizes_in_the_readme",
    },
    "CONTRIBUTING.md": {
        "{} to {} sections and, before the exercises, at most {:,} words, {} cells and three outputs".format(
            *anatomy.SECTIONS, anatomy.MOST_WORDS, anatomy.MOST_CELLS
        ): lambda: anatomy.MOST_AGREEMENTS == 3,
        f"words / {anatomy.WORDS_A_MINUTE}, half a minute a code cell, and": lambda: anatomy.MINUTES_A_CELL == 0.5,
        f"the run: at most {anatomy.MOST_MINUTES} in all": FROM_CODE,
        f"at most {anatomy.MOST_WORDS_OF_PRACTICE} words and four cells": lambda: anatomy.MOST_CELLS_OF_PRACTICE == 4,
        "a mean of {} to {} words".format(*english.MEAN): FROM_CODE,
        f"It has at most {rules.MAX_LINES_OF_A_LISTING} lines": FROM_CODE,
        f"have {anatomy.COLUMNS} columns at most": FROM_CODE,
        f"in {rules.MOST_OF_A_CAPTION} words at most": FROM_CODE,
        f"a run killed {test_kill.KILLS} times": FROM_CODE,
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
    "docs/coverage.md": {re.compile(r"\| [^|]+ \|$", re.M): "test_the_section_speaks_of_it"},
    "docs/index.md": {},
    "docs/landscape.md": {
        "among 64 positions": "test_the_page_shows_each_picture_with_its_message_and_as_the_code_draws_it",
        "an LSTM takes four times the work": "test_work_beside_that_of_a_recurrence",
        "they take twice as much as the recurrence": "test_work_beside_that_of_a_recurrence",
        f"with {landscape.POSITIONS} positions": lambda: landscape.POSITIONS == landscape.STRIDE**2,
        re.compile(r"\| [\d,]+(?: or 2,080)? \|(?=[^|]*\|$)", re.M): PAIRS,
        f"*l* is {landscape.STRIDE}, *L* and *M* are {landscape.SEGMENT}, windows reach {landscape.NEAR} to either "
        f"side, *g* is {landscape.GLOBAL} and *r* is {landscape.RANDOM}": FROM_CODE,
        "allows 556 pairs, at most 9 for a query": "test_pairs_that_can_be_counted_by_hand",
        f"into {landscape.BUCKETS} buckets": FROM_CODE,
        f"A Linformer's table consists of {landscape.POSITIONS} rows": FROM_CODE,
        r"$2da + 2d \cdot 256$ weights": PENCIL,
        re.compile(r"^\|.* [\d.,]+ [MB] \|$", re.M): PENCIL,
        re.compile(r"^\| [^|]+ \| 20\d\d \| \d+ \| \d+ \|.*\|$", re.M): SINCE,
        "contain 335, 1,558, 406 and 11,307 million parameters: less than half a percent more": BUILT,
        "The paper of BERT says 340 million": Cited("Devlin et al. 2019, section 3"),
        "**GPT-2's paper** says 1,542 million": Cited("Radford et al. 2019, table 2"),
        "400 million is given beside its weights": Cited("the README beside BART's weights in fairseq"),
        "**T5-11B** is not as wide": Cited("the name of the model"),
        "are 16 times, and its feed-forward networks 64 times": "test_how_much_wider_t5_is_inside_than_its_vectors",
        "that is about 1,600 times in four years": "test_the_growth_in_the_prose_is_that_of_the_table",
        "70 billion parameters and four times as much text did better than 280 billion": Cited(
            "Hoffmann et al. 2022, abstract"
        ),
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
        "On arXiv the first 12 words of an abstract": "test_the_readme_says_how_long_it_takes_to_learn",
        "AlphaFold 2 |": Cited("the name of the program"),
        f"The lessons end with {LESSONS[-1].number}": FROM_CODE,
    },
    "docs/measured.md": {},
    "docs/scaling.md": {
        "a worker for each of, say, 4 GPUs": lambda: "--nnodes 2 --nproc-per-node 4" in links.flat("docs/scaling.md"),
        f"{bytes_of_training_a_parameter()} bytes per parameter": FROM_CODE,
        "Each worker holds half of the parameters": "test_fsdp_around_our_layers_trains_as_one_process_does",
    },
    "docs/symbols.md": {
        re.compile(r"^\| (?:de|en)coder \|[^|]*\| The half of the machine", re.M): Cited("what both words mean"),
        re.compile(r"^\| [^|]+ \|(?: \d\.\d[^|]*| [^|]*\(3\.1\)) \|", re.M): SECTIONS,
        f"in {HALF.bits} bits that ends at {HALF.max:,.0f}; `bfloat16` reaches as far as {FULL.bits} bits do": lambda: (
            torch.finfo(torch.bfloat16).max > 0.99 * FULL.max
        ),
        "divided by twice the squared width": the_bell_curve_divides_by_twice_the_squared_width,
        f"Forward and backward passes in {HALF.bits} bits, with weights, gradients and steps in {FULL.bits}": FROM_CODE,
        "One of the five facts that a story tells": lambda: len(newsroom.SLOTS) == 5,
        'with a beam size of 4"': Cited("Vaswani et al. 2017, section 6.1"),
        "95 % of their ranges contain the mean of all such pairs": lambda: round(NormalDist().cdf(1.96), 4) == 0.975,
        "(rows D to 2 D)": NAMES,
        "(rows 2 D to 3 D)": NAMES,
    },
    "docs/teaching.md": {
        "8 GB of memory is enough": Cited("advice; not measured"),
        "Of those lessons, 13 comes first": PLANS,
        re.compile(r"^\| \d\d [^|]+ \| \d+ \|[^|]*\|", re.M): "test_a_row_has_the_minutes_of_its_lesson",
        re.compile(r"^\| \d+ \| (?:\d\d|one of)[^|]*\|", re.M): PLANS,
        "the lessons from 09 on": lambda: "09_speed" in [lesson.name for lesson in LESSONS],
        "To 0.9": lambda: round(0.7 + 0.2, 9) == 0.9,
        "For 20 words in vectors of width 512": lambda: 8 * 20 * 512**2 > 4 * 20 * 512**2,  # FLOPs, see landscape.md
        **dict.fromkeys(
            (
                "Multiply all scores by 10",
                "The weights are 0.7, 0.2 and 0.1",
                "stays 512 and 8 heads become 16",
                "A target has 20 tokens",
                "half a point above model B on 300 pairs",
                "You hide 90 %",
            ),
            Cited("a question to ask, whose numbers are made up"),
        ),
        "518 minutes of reading, and 136 exercises in 1479 minutes": "test_the_minutes_are_added_up",
        "67 of the 136 exercises": (seeded := "test_the_exercises_whose_inputs_a_seed_changes_are_counted"),
        "32 functions are tried on fixed inputs, and 37 exercises": seeded,
        f"one folder of {sandbox.SIZE // 2**20} MiB": FROM_CODE,
        "On Ubuntu 24.04 and newer": Cited("reports of bubblewrap's users; the version that began it"),
        "a package in QTI 2.1": "test_qti_has_an_item_per_question_that_scores_its_right_choice",
        "3 GB of disk": Cited("less than half of the 6.5 GB with CUDA, as the README has it"),
        "it is 6.5 GB": Cited("du, on Linux"),
        "up to about 1 GB of memory": Cited("the resident memory of a kernel of a lesson, by ps"),
        "a lesson opens with three questions": "test_a_lesson_closes_with_seven_to_ten_questions_of_which_"
        "three_of_the_spine_open_it",
    },
}


def spans(phrase: str | re.Pattern, text: str) -> list[tuple[int, int]]:
    """Where a phrase is in a text, which may break its lines anywhere."""
    pattern = re.escape(phrase).replace(r"\ ", r"\s+") if isinstance(phrase, str) else phrase
    return [match.span() for match in re.finditer(pattern, text)]


def not_held(text: str, phrases: Iterable[str | re.Pattern]) -> list[str]:
    """The numbers of a text that are in no phrase, each with its sentence."""
    found = []
    for sentence in sentences(text):
        held = [span for phrase in phrases for span in spans(phrase, sentence.source)]
        for number in sentence.numbers:
            start, end = number.start, number.start + len(number.text)
            before, after = sentence.source[:start], sentence.source[end:]
            counts = re.search(r"\d", number.text) and not NAMED.fullmatch(number.text)
            lesson = number.text in LESSON and AT_LESSON[0].search(before) and AT_LESSON[1].match(after)
            section = re.search(r"\bsection\s+\Z", before)
            inside = any(begin <= start and end <= stop for begin, stop in held)
            if (number.measured or counts) and not lesson and not section and not inside:
                found.append(f"{number.text} in {sentence.text!r}")
    return found


def test_every_page_is_looked_at():
    assert list(HELD) == FILES


@pytest.mark.parametrize("file", FILES)
def test_every_number_of_a_page_is_held(file):
    assert not_held(plain(file), HELD[file]) == [], "hold it in the table above: by a check, a test or a source"


@pytest.mark.parametrize(("file", "phrase"), [(file, phrase) for file in FILES for phrase in HELD[file]])
def test_what_holds_a_number(file, phrase):
    assert spans(phrase, plain(file)), "the page says something else now"
    check = HELD[file][phrase]
    if isinstance(check, Cited):
        assert check
    elif isinstance(check, str):
        assert check in TESTS, f"there is no test {check}"
    else:
        assert check()


def test_a_new_number_is_found():
    assert not_held("It takes 7 GB, and kills a run 30 times.", []) != [] != not_held("Lesson 44 shows it.", [])
    assert len(not_held("It takes 7 GB, as in lesson 07, section 3, and a third of 2017.", ["takes 7 GB"])) == 1
