"""What the docstrings of tfm_lib cite: only works and places that are known, by definitions that speak of them.

That a section says what it is cited for, people have looked up.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.pages import links
from tests.pages.test_symbols import NAMES

PLACE_NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"
PLACE = rf"(?:sections?|equation|figure|table|appendix) {PLACE_NUMBER}(?: (?:and|to) {PLACE_NUMBER})?"
WORK = r"[A-Z][\w-]+(?: et al\.| and [A-Z][\w-]+)? (?:19|20)\d\d"
CITATION = re.compile(
    rf'(?P<work>{WORK})(?: \(\w+\))?(?:, "(?P<title>[^"]+)")?(?:, (?P<place>{PLACE}))?|(?P<bare>{PLACE})'
)
PAPER = "Vaswani et al. 2017"  # also what a place without a work means


class Work(NamedTuple):
    """Its address where it has one at arXiv, how its title begins where one is cited, and words of cited places."""

    arxiv: str = ""
    title: str = ""
    places: dict[str, str] = {}  # noqa: RUF012  (nothing writes to it)


WORKS = {
    PAPER: Work(
        "1706.03762",
        places={
            "section 3.1": r"sublayer|self-attention|shift",
            "section 3.2.1": r"variance|additive",
            "section 3.2.2": r"num_heads",
            "section 3.2.3": r"mask|cross-attention|self-attention",
            "section 3.3": r"network at every position",
            "section 3.4": r"embedding|table|tying",
            "section 3.5": r"sinusoid|sine|positions",
            "section 5.3": r"learning rate|adam",
            "section 5.4": r"dropout",
            "section 6.1": r"beam|length penalty",
            "equation 1": r"softmax\(query key|`attention_weights`",
            "figure 1": r"whole encoder-decoder",
            "figure 2": r"[Mm]ulti-head",
            "table 3": r"base model",
        },
    ),
    "Bahdanau et al. 2015": Work("1409.0473", places={"appendix A.1.2": "tanh"}),
    "Alayrac et al. 2022": Work("2204.14198", places={"section 2.2": "gates|looks into"}),
    "Dosovitskiy et al. 2021": Work("2010.11929", places={"section 3.1": "patch"}),
    "Beltagy et al. 2020": Work("2004.05150"),
    "Bogoychev et al. 2020": Work(title="Edinburgh's Submissions to the 2020 Machine Translation Efficiency Task"),
    "Box and Muller 1958": Work(),
    "Choromanski et al. 2021": Work("2009.14794", places={"section 2.3": "random features"}),
    "Dao et al. 2022": Work("2205.14135"),
    "Devlin et al. 2019": Work("1810.04805", places={"appendix A.2": "straight fall"}),
    "Eckart and Young 1936": Work(),
    "Fan et al. 2018": Work("1805.04833", places={"section 5": "top_k"}),
    "Gehring et al. 2017": Work("1705.03122", places={"section 3.1": "table that is trained"}),
    "Glorot and Bengio 2010": Work(),
    "Holtzman et al. 2020": Work("1904.09751", places={"section 3": "top_p"}),
    "Jean et al. 2015": Work("1412.2007", "On Using Very Large Target Vocabulary"),
    "Kim et al. 2019": Work(title="From Research to Production and Back"),
    "Junczys-Dowmunt et al. 2018": Work("1804.00344"),
    "Kudo and Richardson 2018": Work("1808.06226", "SentencePiece"),
    "Lewis et al. 2020": Work("1910.13461"),
    "Zhang et al. 2020": Work("1912.08777"),
    "Gu et al. 2016": Work("1603.06393", "Incorporating Copying Mechanism"),
    "Hyyrö 2004": Work(title="Bit-parallel LCS-length computation revisited"),
    "Kitaev et al. 2020": Work("2001.04451"),
    "Koehn 2004": Work(
        "", "Statistical Significance Tests for Machine Translation Evaluation", {"section 4": "paired bootstrap"}
    ),
    "Levy et al. 2015": Work(title="Improving Distributional Similarity with Lessons Learned from Word Embeddings"),
    "Li et al. 2020": Work("2006.15704", "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"),
    "Lin 2004": Work("", "ROUGE", {"section 2": "rouge", "section 3": "rouge"}),
    "Manning et al. 2008": Work(
        "", "Introduction to Information Retrieval", {"section 6.2": "tf-idf", "section 6.4": "tf-idf"}
    ),
    "See et al. 2017": Work("1704.04368", "Get To The Point", {"section 2.2": "copy|pointer"}),
    "Sennrich et al. 2016": Work(
        "1508.07909", "Neural Machine Translation of Rare Words with Subword Units", {"section 3.2": "subwords"}
    ),
    "Shen et al. 2016": Work(
        "1512.02433", "Minimum Risk Training for Neural Machine Translation", {"section 3": "risk"}
    ),
    "Szegedy et al. 2016": Work("1512.00567", places={"section 7": "label smoothing"}),
    "Wang et al. 2020": Work("2006.04768", "Linformer"),
    "Xiong et al. 2020": Work("2002.04745"),
}


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring of tfm_lib with its place; exercises and questions speak of sections of the lessons."""
    folder = links.ROOT / "tfm_lib"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                place = f"{path.relative_to(folder)}:{getattr(node, 'lineno', 1)}"
                if not place.startswith("ask"):
                    yield place, " ".join(text.split())


DOCSTRINGS = cache(lambda: dict(docstrings()))  # when the first test asks


def places(words: str | None) -> list[str]:
    """ "sections 3.1 and 5.4" is section 3.1, section 5.4."""
    kind, *numbers = re.findall(rf"^\w+|{PLACE_NUMBER}", words or "none")
    return [f"{kind.removesuffix('s')} {number}" for number in numbers]


def test_a_citation_is_of_a_known_work_and_speaks_of_what_is_there():
    for name, text in DOCSTRINGS().items():
        for match in CITATION.finditer(text):
            work = WORKS[match["work"] or PAPER]
            assert (match["title"] or work.title) == work.title, name
            for place in places(match["place"] or match["bare"]):
                assert re.search(work.places[place], text, re.IGNORECASE), f"{name} does not speak of what {place} says"


def test_no_citation_has_another_form():
    for name, text in DOCSTRINGS().items():
        rest = CITATION.sub("", text).replace("the 2017 paper", "")
        assert not re.search(r"\bet al\b|(?:19|20)\d\d\b|\barXiv\b|Source: (?![;.,])\S", rest), f"{name}: {rest}"


def test_every_work_and_place_is_cited():
    matches = [match for text in DOCSTRINGS().values() for match in CITATION.finditer(text)]
    cited = {(m["work"] or PAPER, place) for m in matches for place in places(m["place"] or m["bare"])}
    in_page = {(PAPER, f"section {number}") for row in NAMES for number in sections(row)}
    assert cited | in_page >= {(name, place) for name, work in WORKS.items() for place in work.places}
    assert {match["work"] or PAPER for match in matches} == set(WORKS)


@pytest.mark.parametrize("work", [work for work in WORKS if WORKS[work].arxiv])
def test_pages_and_lessons_that_link_a_work_name_its_first_author(work):
    paths = [*(links.ROOT / "docs").glob("*.md"), *(links.ROOT / "notebooks").glob("*.ipynb")]
    pages = "\n".join(text for path in paths for text in links.markdown_of(path))
    named = re.findall(rf"\[([^\]]*)\]\(https://arxiv\.org/abs/{WORKS[work].arxiv}\)", pages)
    years = {year for text in named for year in re.findall(r"\b(?:19|20)\d\d\b", text)}
    author, year = work.split()[0], int(work[-4:])
    assert all(text.startswith(author) or not re.match(r"[A-Z][^\0]*\d{4}", text) for text in named), named
    assert all(year - 1 <= int(other) <= year for other in years), years  # arXiv's year, or that of the conference


def sections(row: dict[str, str]) -> list[str]:
    """The sections of the paper that the page of symbols gives for a term."""
    return re.findall(r"\b[1-9]\.\d(?:\.\d)?\b", row["paper"])


def test_the_page_of_symbols_gives_the_sections_of_the_paper():
    found = [(row["term"], number) for row in NAMES for number in sections(row)]
    assert len(found) > 10
    for term, number in found:
        words = WORKS[PAPER].places[f"section {number}"]
        assert re.search(words, term, re.IGNORECASE), f"section {number} is not where {term} is"
