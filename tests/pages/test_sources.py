"""What the docstrings of tfm_lib cite: in one table, so that a changed source shows, and only works that are known.

That a section says what it is cited for, people have looked up; its title stands here, beside words that whatever cites
it has to speak of.
"""

import ast
import re
from collections.abc import Iterator
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
    """A published work, its address where it has one at arXiv, and the places cited in it: title, words."""

    title: str
    arxiv: str = ""
    places: dict[str, tuple[str, str]] = {}  # noqa: RUF012  (nothing writes to it)


WORKS = {
    PAPER: Work(
        "Attention Is All You Need",
        "1706.03762",
        {
            "section 3.1": ("Encoder and Decoder Stacks", r"sublayer|self-attention|shift"),
            "section 3.2.1": ("Scaled Dot-Product Attention", r"variance|additive"),
            "section 3.2.2": ("Multi-Head Attention", r"num_heads"),
            "section 3.2.3": ("Applications of Attention in our Model", r"mask|cross-attention|self-attention"),
            "section 3.3": ("Position-wise Feed-Forward Networks", r"network at every position"),
            "section 3.4": ("Embeddings and Softmax", r"embedding|table|tying"),
            "section 3.5": ("Positional Encoding", r"sinusoid|sine|positions"),
            "section 5.3": ("Optimizer", r"learning rate|adam"),
            "section 5.4": ("Regularization", r"dropout"),
            "section 6.1": ("Machine Translation", r"beam|length penalty"),
            "equation 1": ("Attention(Q, K, V)", r"softmax\(query key|`attention_weights`"),
            "figure 1": ("The Transformer - model architecture", r"whole encoder-decoder"),
            "figure 2": ("Multi-Head Attention consists of several attention layers", r"[Mm]ulti-head"),
            "table 3": ("Variations on the Transformer architecture", r"base model"),
        },
    ),
    "Bahdanau et al. 2015": Work(
        "Neural Machine Translation by Jointly Learning to Align and Translate",
        "1409.0473",
        {"appendix A.1.2": ("Alignment Model", r"tanh")},
    ),
    "Alayrac et al. 2022": Work(
        "Flamingo: a Visual Language Model for Few-Shot Learning",
        "2204.14198",
        {"section 2.2": ("Conditioning frozen language models on visual representations", r"gates|looks into")},
    ),
    "Dosovitskiy et al. 2021": Work(
        "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
        "2010.11929",
        {"section 3.1": ("Vision Transformer (ViT)", r"patch")},
    ),
    "Beltagy et al. 2020": Work("Longformer: The Long-Document Transformer", "2004.05150"),
    "Box and Muller 1958": Work("A Note on the Generation of Random Normal Deviates"),
    "Choromanski et al. 2021": Work(
        "Rethinking Attention with Performers",
        "2009.14794",
        {"section 2.3": ("How to and how not to approximate softmax-kernels for Attention", r"random features")},
    ),
    "Dao et al. 2022": Work(
        "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", "2205.14135"
    ),
    "Devlin et al. 2019": Work(
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
        "1810.04805",
        {"appendix A.2": ("Pre-training Procedure", r"straight fall")},
    ),
    "Eckart and Young 1936": Work("The approximation of one matrix by another of lower rank"),
    "Fan et al. 2018": Work(
        "Hierarchical Neural Story Generation", "1805.04833", {"section 5": ("Experimental Setup", r"top_k")}
    ),
    "Gehring et al. 2017": Work(
        "Convolutional Sequence to Sequence Learning",
        "1705.03122",
        {"section 3.1": ("Position Embeddings", r"table that is trained")},
    ),
    "Glorot and Bengio 2010": Work("Understanding the difficulty of training deep feedforward neural networks"),
    "Holtzman et al. 2020": Work(
        "The Curious Case of Neural Text Degeneration",
        "1904.09751",
        {"section 3": ("Language Model Decoding", r"top_p")},
    ),
    "Junczys-Dowmunt et al. 2018": Work("Marian: Fast Neural Machine Translation in C++", "1804.00344"),
    "Kudo and Richardson 2018": Work(
        "SentencePiece: A simple and language independent subword tokenizer and detokenizer for Neural Text Processing",
        "1808.06226",
    ),
    "Lewis et al. 2020": Work(
        "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, and "
        "Comprehension",
        "1910.13461",
    ),
    "Zhang et al. 2020": Work(
        "PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive Summarization", "1912.08777"
    ),
    "Gu et al. 2016": Work("Incorporating Copying Mechanism in Sequence-to-Sequence Learning", "1603.06393"),
    "Hyyrö 2004": Work("Bit-parallel LCS-length computation revisited"),
    "Kitaev et al. 2020": Work("Reformer: The Efficient Transformer", "2001.04451"),
    "Koehn 2004": Work(
        "Statistical Significance Tests for Machine Translation Evaluation",
        places={"section 4": ("Paired Bootstrap Resampling", r"paired bootstrap")},
    ),
    "Levy et al. 2015": Work("Improving Distributional Similarity with Lessons Learned from Word Embeddings"),
    "Li et al. 2020": Work("PyTorch Distributed: Experiences on Accelerating Data Parallel Training", "2006.15704"),
    "Lin 2004": Work(
        "ROUGE: A Package for Automatic Evaluation of Summaries",
        places={"section 2": ("ROUGE-N", r"rouge"), "section 3": ("ROUGE-L", r"rouge")},
    ),
    "Manning et al. 2008": Work(
        "Introduction to Information Retrieval",
        places={
            "section 6.2": ("Term frequency and weighting", r"tf-idf"),
            "section 6.4": ("Variant tf-idf functions", r"tf-idf"),
        },
    ),
    "See et al. 2017": Work(
        "Get To The Point: Summarization with Pointer-Generator Networks",
        "1704.04368",
        {"section 2.2": ("Pointer-generator network", r"copy|pointer")},
    ),
    "Sennrich et al. 2016": Work(
        "Neural Machine Translation of Rare Words with Subword Units",
        "1508.07909",
        {"section 3.2": ("Byte Pair Encoding (BPE)", r"pieces of words")},
    ),
    "Shen et al. 2016": Work(
        "Minimum Risk Training for Neural Machine Translation",
        "1512.02433",
        {"section 3": ("Minimum Risk Training for Neural Machine Translation", r"risk")},
    ),
    "Szegedy et al. 2016": Work(
        "Rethinking the Inception Architecture for Computer Vision",
        "1512.00567",
        {"section 7": ("Model Regularization via Label Smoothing", r"label smoothing")},
    ),
    "Wang et al. 2020": Work("Linformer: Self-Attention with Linear Complexity", "2006.04768"),
    "Xiong et al. 2020": Work("On Layer Normalization in the Transformer Architecture", "2002.04745"),
}
CITED = {
    "attention.attention_weights": ["Vaswani et al. 2017, equation 1"],
    "attention.attention": ["Vaswani et al. 2017, equation 1", "Dao et al. 2022"],
    "attention.AdditiveAttention": ["Bahdanau et al. 2015, appendix A.1.2"],
    "attention.MultiHeadAttention": ["section 5.4", "Vaswani et al. 2017, section 3.2.2"],
    "data.batches.Batch.of": ["Vaswani et al. 2017, section 3.1"],
    "practice.own_transformer": ["Vaswani et al. 2017"],
    "pretrained.loading.from_pretrained": [
        "Lewis et al. 2020 (BART)",
        "Junczys-Dowmunt et al. 2018 (Marian)",
        "Zhang et al. 2020 (PEGASUS)",
    ],
    "data.published.SentencePieceVocabulary": ['Kudo and Richardson 2018, "SentencePiece"'],
    "writing.copying.Pointer": [
        'See et al. 2017, "Get To The Point", section 2.2',
        'Gu et al. 2016, "Incorporating Copying Mechanism"',
    ],
    "learning.head_start.word_vectors": [
        'Levy et al. 2015, "Improving Distributional Similarity with Lessons Learned from Word Embeddings"'
    ],
    "layers.FeedForward": ["Vaswani et al. 2017, section 3.3"],
    "layers.Residual": ["Vaswani et al. 2017, sections 3.1 and 5.4", "Xiong et al. 2020"],
    "layers.EncoderLayer": ["Vaswani et al. 2017, section 3.1"],
    "layers.DecoderLayer": ["Vaswani et al. 2017, section 3.1"],
    "masks.masked_softmax": ["Vaswani et al. 2017, section 3.2.3"],
    "model.TransformerConfig": ["table 3"],
    "model.TransformerConfig.scale": ["section 3.4"],
    "model.Transformer": ["Vaswani et al. 2017", "Glorot and Bengio 2010"],
    "model.Transformer.tie": ["section 3.4"],
    "writing.next_token.next_token_probs": ["Fan et al. 2018, section 5", "Holtzman et al. 2020, section 3"],
    "pretrained.pictures.GatedCrossAttention": ["Alayrac et al. 2022, section 2.2"],
    "pretrained.pictures.VisionTransformer": ["Dosovitskiy et al. 2021, section 3.1"],
    "positions.sinusoidal_table": ["Vaswani et al. 2017, section 3.5"],
    "positions.LearnedPositions": ["Gehring et al. 2017, section 3.1"],
    "learning.recipes.paper_rate": ["Vaswani et al. 2017, section 5.3"],
    "learning.recipes.linear_rate": ["Devlin et al. 2019 (BERT), appendix A.2"],
    "learning.risk.risk_step": ['Shen et al. 2016, "Minimum Risk Training for Neural Machine Translation", section 3'],
    "writing.rouge.lead": [
        'Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation", section 4'
    ],
    "writing.rouge.prefix_lcs": ['Hyyrö 2004, "Bit-parallel LCS-length computation revisited"'],
    "writing.scoring.score": ['Lin 2004, "ROUGE", sections 2 and 3'],
    "writing.scoring.nearest_summaries": [
        'Manning et al. 2008, "Introduction to Information Retrieval", sections 6.2 to 6.4'
    ],
    "show.drawings.architecture": ["Vaswani et al. 2017, figure 1"],
    "show.drawings.multi_head_attention": ["Vaswani et al. 2017, figure 2"],
    "show.plots.sinusoids": ["Vaswani et al. 2017, section 3.5"],
    "show.replacements.features": ["Choromanski et al. 2021, section 2.3"],
    "show.replacements.hashing": ["Kitaev et al. 2020"],
    "show.replacements.normals": ["Box and Muller 1958"],
    "show.replacements.rank": ["Eckart and Young 1936", 'Wang et al. 2020, "Linformer"'],
    "show.replacements.window": ["Beltagy et al. 2020"],
    "show.sinusoid_control.sinusoid_control": ["Vaswani et al. 2017, section 3.5"],
    "show.softmax_controls.softmax_temperature": ["Vaswani et al. 2017, section 3.2.1"],
    "learning.training.sequence_loss": ["Szegedy et al. 2016, section 7"],
    "learning.training.make_optimizer": ["Vaswani et al. 2017, section 5.3"],
    "data.vocabulary.Vocabulary.of_byte_pairs": [
        'Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", section 3.2'
    ],
    "learning.workers": ['Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"'],
}
OF_THE_PAGE = {  # the sections of the paper that docs/symbols.md gives for a term
    "Adam": "5.3",
    "additive attention": "3.2.1",
    "beam search": "6.1",
    "causal mask": "3.2.3",
    "cross-attention": "3.2.3",
    "embedding": "3.4",
    "learned positions": "3.5",
    "length penalty": "6.1",
    "mask": "3.2.3",
    "self-attention": "3.2.3",
    "shift": "3.1",
    "weight tying": "3.4",
}


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring of tfm_lib with its name; exercises and questions speak of sections of the lessons."""
    folder = links.ROOT / "tfm_lib"
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).with_suffix("").parts
        if inside[0] != "ask":
            yield from documented(ast.parse(path.read_text(encoding="utf-8")), ".".join(inside))


def documented(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
        yield name, " ".join(text.split())
    for child in ast.iter_child_nodes(node):
        yield from documented(child, f"{name}.{child.name}" if hasattr(child, "name") else name)


DOCSTRINGS = dict(docstrings())
FOUND = {name: [match[0] for match in CITATION.finditer(text)] for name, text in DOCSTRINGS.items()}


def places(words: str | None) -> list[str]:
    """ "sections 3.1 and 5.4" is section 3.1, section 5.4."""
    kind, *numbers = re.findall(rf"^\w+|{PLACE_NUMBER}", words or "none")
    return [f"{kind.removesuffix('s')} {number}" for number in numbers]


def test_what_is_cited_is_what_the_table_says():
    assert {name: citations for name, citations in FOUND.items() if citations} == CITED


@pytest.mark.parametrize("name", CITED)
def test_a_citation_is_of_a_known_work_and_speaks_of_what_is_there(name):
    text = DOCSTRINGS[name]
    for match in CITATION.finditer(text):
        work = WORKS[match["work"] or PAPER]
        assert work.title.startswith(match["title"] or "")
        for place in places(match["place"] or match["bare"]):
            title, words = work.places[place]
            assert re.search(words, text, re.IGNORECASE), f"{place} is {title!r}; {name} does not speak of it"


def test_no_citation_has_another_form():
    for name, text in DOCSTRINGS.items():
        rest = CITATION.sub("", text).replace("the 2017 paper", "")
        assert not re.search(r"\bet al\b|(?:19|20)\d\d\b|\barXiv\b|Source: (?![;.,])\S", rest), f"{name}: {rest}"


def test_every_work_and_place_is_cited():
    used = {match["work"] or PAPER for text in DOCSTRINGS.values() for match in CITATION.finditer(text)}
    assert used == set(WORKS)


@pytest.mark.parametrize("work", [work for work in WORKS if WORKS[work].arxiv])
def test_pages_and_lessons_that_link_a_work_name_its_first_author(work):
    paths = [*(links.ROOT / "docs").glob("*.md"), *(links.ROOT / "notebooks").glob("*.ipynb")]
    pages = "\n".join(text for path in paths for text in links.markdown_of(path))
    named = re.findall(rf"\[([^\]]*)\]\(https://arxiv\.org/abs/{WORKS[work].arxiv}\)", pages)
    years = {year for text in named for year in re.findall(r"\b(?:19|20)\d\d\b", text)}
    author, year = work.split()[0], int(work[-4:])
    assert all(text.startswith(author) or not re.match(r"[A-Z][^\0]*\d{4}", text) for text in named), named
    assert all(year - 1 <= int(other) <= year for other in years), years  # arXiv's year, or that of the conference


def test_the_page_of_symbols_gives_the_sections_of_the_paper():
    told = {row["term"]: re.findall(r"\b[1-9]\.\d(?:\.\d)?\b", row["paper"]) for row in NAMES}
    assert {term: numbers for term, numbers in told.items() if numbers} == {
        term: [number] for term, number in OF_THE_PAGE.items()
    }
    for term, number in OF_THE_PAGE.items():
        title, words = WORKS[PAPER].places[f"section {number}"]
        assert re.search(words, term, re.IGNORECASE), f"section {number} is {title!r}, which is not where {term} is"
