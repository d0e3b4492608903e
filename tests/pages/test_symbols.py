"""docs/symbols.md is right: every name in it exists, every term is defined where it says, masks mean what it says."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tfm_lib
from tests.nbclaims.cells import code_cells, markdown_cells, read
from tests.pages import links
from tfm_lib.attention import attention
from tfm_lib.lessons import LESSONS

PAGE = links.ROOT / "docs/symbols.md"
LIBRARIES = {  # the column of a library, and where its names are looked for
    "`tfm_lib`": ["tfm_lib"],
    "torch": ["torch"],
    "`transformers`": [
        "transformers",
        "transformers.modeling_outputs",
        "transformers.models.bart.modeling_bart",
        "transformers.models.marian.modeling_marian",
    ],
    "d2l": ["d2l.torch"],
}
ABSENT = object()


LETTERS, EXCEPTIONS, GLOSSARY, NAMES, MASKS = (
    links.table("docs/symbols.md", section) for section in ("Letters", "Exceptions", "Glossary", "Names", "Masks")
)


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def names(library: str) -> list[str]:
    """All code names of one library in the page."""
    found = [name for row in LETTERS + NAMES for name in code(row[library])]
    for row in MASKS:
        where, _, argument = row["argument"].partition(": ")
        found += code(argument) if where == library else []
    return found


# ----------------------------------------------------------------------------------------------------
# Every code name exists.


@cache
def library(column: str) -> list[ModuleType]:
    """The modules of a library's names, or a skip where it is not installed."""
    reason = f"{column} is not installed here, so its names were not looked up"
    return [pytest.importorskip(module, reason=reason) for module in LIBRARIES[column]]


def missing(name: str, modules: list[ModuleType]) -> str | None:
    """What part of a dotted name, or which argument in its brackets, is in none of the modules; None if all is."""
    path, _, argument = name.rstrip(")").partition("(")
    path = re.sub(r"^F\.", "nn.functional.", path)
    found: object = next((m for m in modules if step(m, path.split(".")[0]) is not ABSENT), modules[0])
    for part in path.split("."):
        if (found := step(found, part)) is ABSENT:
            return part
    return argument if argument and argument not in arguments(found) else None


def step(owner: object, name: str) -> object:
    """An attribute, a module in a package, a field, or an attribute that a class gives to its instances (the class)."""
    if hasattr(owner, name):
        return getattr(owner, name)
    if isinstance(owner, ModuleType) and hasattr(owner, "__path__"):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ModuleNotFoundError:
            return ABSENT
    if inspect.isclass(owner):
        bases = [base for base in owner.__mro__ if base not in (object, nn.Module)]
        if any(name in inspect.get_annotations(base) for base in bases) or name in arguments(owner):
            return owner
        if any(re.search(rf"self\.{name}\b(, self\.\w+)* = |\"{name}\"", source(base)) for base in bases):
            return owner
    return ABSENT


@cache
def source(owner: type) -> str:
    try:
        return textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):  # written in C
        return ""


def arguments(owner: object) -> list[str]:
    """The names of what a function or class takes; of one written in C, from the line that documents it."""
    try:
        return list(inspect.signature(owner).parameters)  # type: ignore[arg-type]
    except ValueError:
        head = (owner.__doc__ or "").split("->")[0]
        return re.findall(r"(\w+)(?=[,=)])", head)


def test_our_names_stand_where_they_are_defined():
    """Not where they are only imported: a reader opens that file."""
    for name in names("`tfm_lib`"):
        parts = name.partition("(")[0].split(".")
        found: Any = tfm_lib
        while isinstance(found, ModuleType):
            home, part = found, parts.pop(0)
            found = getattr(home, part, None) or importlib.import_module(f"{home.__name__}.{part}")
        assert found.__module__ == home.__name__, f"{name} is defined elsewhere"


@pytest.mark.parametrize("column", LIBRARIES)
def test_every_name_exists(column):
    modules = library(column)
    assert len(names(column)) > 20
    lost = {name: part for name in names(column) if (part := missing(name, modules))}
    assert lost == {}


# By term, for rows that could change places with others: what each of their names has in it.
PLAIN = "beam search, decoder, decoder layer, dropout, encoder layer, key, mask, query, start token, temperature, value"
TELLING = {term: term[:4] for term in PLAIN.split(", ")} | {
    "H": "heads",
    "D": "d_model|num_hiddens",
    "Dh": "head_dim",
    "V": "vocab|num_embeddings",
    "memory": "memory|encoder_hidden",
    "token": "src|tgt|ids|_X",
    "encoder": "^(?!.*decode).*encode",
    "self-attention": "EncoderLayer.self_att|Block.attention",
    "cross-attention": "DecoderLayer.(cross|multihead|encoder)_att",
    "projection, queries": "quer|q_|W_q|in_proj",
    "projection, keys": "key|k_|W_k|in_proj",
    "projection, values": "value|v_|W_v|in_proj",
    "projection, output": "out|W_o",
    "feed-forward network, width": "d_ff|feedforward|ffn",
    "embedding, scale": "scale",
    "weight tying": "tie",
    "padding": "pad",
    "end token": "eos",
    "padding mask": "padding|attention_mask",
    "top-k": "top_k",
    "top-p": "top_p",
    "length penalty": "length_penalty",
    "sampling": "sampl|multinomial",
    "greedy decoding": "greedy|generate|predict",
}
ROWS = {row.get("term") or row["letter"]: row for row in LETTERS + NAMES}


@pytest.mark.parametrize("term", TELLING)
def test_a_name_stands_in_its_row_and_not_in_that_of_another(term):
    named = [name for column in LIBRARIES for name in code(ROWS[term][column])]
    assert named and [name for name in named if not re.search(TELLING[term], name, re.IGNORECASE)] == []


def test_torch_has_the_three_projections_in_one_matrix_in_this_order():
    """That it does, lesson 03 proves: its layer and torch's compute the same with the same weights."""
    rows = [ROWS[f"projection, {which}"]["torch"].partition(" (")[2] for which in ("queries", "keys", "values")]
    assert rows == ["rows 0 to D)", "rows D to 2 D)", "rows 2 D to 3 D)"]


# ----------------------------------------------------------------------------------------------------
# Every term is defined where the page says.


def test_the_tables_are_in_alphabetical_order_and_name_nothing_twice():
    for rows in (GLOSSARY, NAMES):
        terms = [row["term"].casefold() for row in rows]
        assert terms == sorted(set(terms))


def test_each_other_name_leads_to_one_term():
    others = [re.sub(r" \(.*?\)", "", name) for row in GLOSSARY for name in row["also called"].split(", ")]
    names = [name.casefold() for name in others if len(name) > 1] + [row["term"].casefold() for row in GLOSSARY]
    assert len(others) > 100 and sorted(names) == sorted(set(names))


def test_every_term_that_has_names_is_explained():
    terms = {row["term"] for row in GLOSSARY}
    assert [row["term"] for row in NAMES if row["term"].split(",")[0] not in terms] == []


def test_the_letters_are_the_legend_of_the_package():
    legend = re.findall(r"\b([A-Z]h?) {2,3}\w", tfm_lib.__doc__ or "")
    assert sorted(row["letter"] for row in LETTERS) == sorted(legend)
    shapes = " ".join(re.sub(r"`[^`]*`", "", row["shape"]) for row in NAMES)
    assert set(re.findall(r"\b[A-Z]h?\b", shapes)) <= set(legend)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_a_lesson_uses_the_letters_of_the_page_and_its_own_exceptions(lesson):
    book = read(lesson.file)
    comments = re.findall("#.*", "\n".join(cell.source for cell in code_cells(book)))
    shapes = " ".join(re.findall(r"\(([A-Z][^()]*,[^()]*)\)", " ".join(comments)))
    own = ", ".join(row["letter"] for row in EXCEPTIONS if row["lesson"] == lesson.number)
    in_shapes, formulas = re.sub(r"\$.*?\$", "", own), re.findall(r"\$(.*?)\$", own)
    legend = {row["letter"] for row in LETTERS}
    assert {*re.findall(r"\b[A-Z]h?\b", shapes)} - legend == {*re.findall("[A-Z]", in_shapes)}

    math = " ".join(re.findall(r"\$[^$\n]+\$", "\n".join(cell.source for cell in markdown_cells(book))))
    assert {*re.findall(r"[\w)]\^\{?T\b", math)} == {formula for formula in formulas if formula.endswith("^T")}
    assert all(formula in math for formula in formulas)


@pytest.mark.parametrize("row", GLOSSARY, ids=lambda row: row["term"])
def test_a_definition_is_one_sentence(row):
    meaning = row["in plain words"]
    assert meaning[0].isupper() and meaning.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", meaning) and len(meaning.split()) <= 30


@pytest.mark.parametrize("row", [*LETTERS, *GLOSSARY], ids=lambda row: row.get("term", row.get("letter")))
def test_the_section_named_speaks_of_the_term(row):
    match = re.fullmatch(r"\[(\d\d|landscape), (?:section (\d+)|“[^”]+”)\]\((\S+?)#(\S+)\)", row["lesson"])
    assert match, f"{row['lesson']} is no link to a section"
    number, section, file, anchor = match.groups(default="deeper")
    path = (PAGE.parent / file).resolve()
    assert path.name.startswith(number) and anchor.startswith(f"{section}-")
    title = anchor.partition("-")[2]
    now = [there for there in links.anchors(path) if there.partition("-")[2] == title] or links.anchors(path)
    assert anchor in now, f"{path.name} has no section {anchor} any more; there is {', '.join(now)}"
    if "term" in row:
        sections = links.sections(links.markdown_of(path))
        text = f"{sections['']}\n{sections[anchor]}".casefold()
        lost = [word for word in re.findall(r"\w+", row["term"].casefold()) if word[:5] not in text]  # greedy, greedily
        assert not lost, f"section {anchor} of {path.name} does not mention {', '.join(lost)}"


# ----------------------------------------------------------------------------------------------------
# Masks mean what the page says: of three keys, the mask singles out the last; does the query see it?

X = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])  # (B, S, D) = (1, 3, 2)
MARKED = torch.tensor([[False, False, True]])  # (B, S)


def multihead(changed: torch.Tensor, **masks: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return nn.MultiheadAttention(2, 1, batch_first=True)(X, changed, changed, **masks)[0]


def transformer(src: torch.Tensor, tgt: torch.Tensor, **masks: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return nn.Transformer(2, 2, 1, 1, 4, dropout=0.0, batch_first=True)(src, tgt, **masks)[:, :1]


SEES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "`tfm_lib`: `attention.attention(mask)`": lambda x: attention(X, x, x, MARKED[:, None]),
    "torch: `F.scaled_dot_product_attention(attn_mask)`": lambda x: F.scaled_dot_product_attention(
        X, x, x, attn_mask=MARKED[:, None]
    ),
    "torch: `nn.MultiheadAttention.forward(attn_mask)`": lambda x: multihead(x, attn_mask=MARKED.expand(3, 3)),
    "torch: `nn.MultiheadAttention.forward(key_padding_mask)`": lambda x: multihead(x, key_padding_mask=MARKED),
    "torch: `nn.Transformer.forward(src_key_padding_mask)`": lambda x: transformer(
        x, X, src_key_padding_mask=MARKED, memory_key_padding_mask=MARKED
    ),
    "torch: `nn.Transformer.forward(tgt_mask)`": lambda x: transformer(X, x, tgt_mask=MARKED.expand(3, 3)),
}


@pytest.mark.parametrize("argument", SEES)
def test_true_means_what_the_page_says(argument):
    [means] = [row["True or 1 means"] for row in MASKS if row["argument"] == argument]
    changed = X.clone()
    changed[0, 2] = torch.tensor([-3.0, 5.0])
    sees = not torch.allclose(SEES[argument](X), SEES[argument](changed))
    assert means == ("may attend" if sees else "**hidden**")


def test_floats_are_added_in_transformers_only_with_four_axes():
    [transformers, *_] = library("`transformers`")
    torch.manual_seed(0)
    sizes = {"d_model": 8, "vocab_size": 20, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    counts = {f"{side}_{part}": 1 for side in ("encoder", "decoder") for part in ("layers", "attention_heads")}
    encoder = transformers.BartModel(transformers.BartConfig(**sizes, **counts)).eval().encoder
    ids, seen = torch.tensor([[4, 5, 6]]), torch.tensor([[1, 1, 0]])
    floats = torch.zeros(1, 3).masked_fill(seen == 0, -torch.inf)

    def out(mask: torch.Tensor) -> torch.Tensor:
        return encoder(ids, attention_mask=mask).last_hidden_state

    torch.testing.assert_close(out(floats[:, None, None].expand(1, 1, 3, 3)), out(seen))
    torch.testing.assert_close(out(floats), out(1 - seen))
    assert not torch.allclose(out(floats), out(seen), atol=1e-4)
