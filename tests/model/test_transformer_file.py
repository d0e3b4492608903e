"""docs/transformer.py, the whole in one file to copy: it is the package's model under the same names, and it learns."""

import ast

import torch

from docs import transformer as listing
from tests.lessons.anatomy import COLUMNS
from tests.model.references import randomize
from tfm_lib.data.newsroom import TEN_PAIRS
from tfm_lib.lessons import course_file
from tfm_lib.model import Transformer, TransformerConfig

SOURCE = course_file("docs/transformer.py").read_text(encoding="utf-8")
SIZES = dict(d_model=listing.D_MODEL, num_heads=listing.HEADS, d_ff=listing.D_FF)
LAYERS = dict(num_encoder_layers=listing.LAYERS, num_decoder_layers=listing.LAYERS)


def test_with_the_weights_of_the_package_it_gives_the_logits_of_the_package():
    """Biases of 0 and norms of 1 would hide a part that is left out."""
    file, package = listing.Transformer(40), Transformer(TransformerConfig(vocab_size=40, **SIZES, **LAYERS))
    assert sum(p.numel() for p in file.parameters()) == sum(p.numel() for p in package.parameters()), "tied as well"
    file.load_state_dict(randomize(package).state_dict())
    file, package = file.double().eval(), package.double().eval()
    src = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, listing.PAD, listing.PAD, listing.PAD]])
    tgt = torch.tensor([[listing.START, 20, 21, 22], [listing.START, 23, listing.PAD, listing.PAD]])
    with torch.no_grad():
        torch.testing.assert_close(file(src, tgt), package(src, tgt), rtol=1e-10, atol=1e-10)


def test_it_learns_all_ten_summaries_of_the_course(capsys):
    assert list(zip(listing.ARTICLES, listing.SUMMARIES, strict=True)) == TEN_PAIRS
    listing.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[-10:] == [f"right: {summary}" for _, summary in TEN_PAIRS]


def test_it_needs_torch_and_nothing_of_the_course_and_is_short():
    imports = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} == {"itertools", "math", "torch"}
    lines = SOURCE.splitlines()
    assert max(map(len, lines)) <= COLUMNS, "a page would cut it off"
    assert sum(bool(line.strip()) for line in lines) - 2 * len(TEN_PAIRS) <= 160, "a few screens"


def test_lesson_06_links_it_as_its_listing():
    assert "](../docs/transformer.py)" in course_file("notebooks/06_full_model.ipynb").read_text(encoding="utf-8")
