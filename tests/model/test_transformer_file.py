"""docs/transformer.py, the whole in one file to copy: it is the package's model under the same names, and it learns."""

import ast

import torch

from docs import transformer as whole
from tests.lessons.anatomy import COLUMNS
from tfm_lib.data.newsroom import TEN_PAIRS
from tfm_lib.lessons import course_file
from tfm_lib.model import Transformer, TransformerConfig

SOURCE = course_file("docs/transformer.py").read_text(encoding="utf-8")
SIZES = {
    "d_model": whole.D_MODEL,
    "num_heads": whole.HEADS,
    "d_ff": whole.D_FF,
    "num_encoder_layers": whole.LAYERS,
    "num_decoder_layers": whole.LAYERS,
}


def two_models() -> tuple[whole.Transformer, Transformer]:
    """The file's and the package's model in double precision, with the same weights, copied by name."""
    torch.manual_seed(1)
    file, package = whole.Transformer(40), Transformer(TransformerConfig(vocab_size=40, **SIZES))
    with torch.no_grad():
        for parameter in package.parameters():  # biases of 0 and norms of 1 would hide a part that is left out
            parameter.add_(0.1 * torch.randn_like(parameter))
    file.load_state_dict(package.state_dict())
    return file.double().eval(), package.double().eval()


def test_with_the_weights_of_the_package_it_gives_the_logits_of_the_package():
    file, package = two_models()
    src = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, whole.PAD, whole.PAD, whole.PAD]])
    tgt = torch.tensor([[whole.START, 20, 21, 22], [whole.START, 23, whole.PAD, whole.PAD]])
    with torch.no_grad():
        torch.testing.assert_close(file(src, tgt), package(src, tgt), rtol=1e-10, atol=1e-10)


def test_padding_of_the_source_changes_nothing_and_no_position_sees_the_future():
    file, _ = two_models()
    src, tgt = torch.tensor([[11, 12, 13]]), torch.tensor([[whole.START, 20, 21, 22]])
    padded = torch.tensor([[11, 12, 13, whole.PAD, whole.PAD]])
    with torch.no_grad():
        logits = file(src, tgt)
        torch.testing.assert_close(file(padded, tgt), logits, rtol=1e-10, atol=1e-10)
        changed = file(src, torch.tensor([[whole.START, 20, 30, 31]]))
    torch.testing.assert_close(changed[:, :2], logits[:, :2], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(changed[:, 2:], logits[:, 2:])


def test_both_sides_and_the_output_share_one_table():
    model = whole.Transformer(40)
    assert model.output.weight is model.encoder.embedding.tokens.weight is model.decoder.embedding.tokens.weight
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in two_models()[1].parameters())


def test_its_pairs_are_those_of_the_course():
    assert list(zip(whole.ARTICLES, whole.SUMMARIES, strict=True)) == TEN_PAIRS


def test_it_learns_all_ten_summaries(capsys):
    whole.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[-10:] == [f"right: {summary}" for _, summary in TEN_PAIRS]


def test_it_needs_torch_and_nothing_of_the_course():
    imports = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} == {"itertools", "math", "torch"}


def test_it_reads_on_a_few_screens_whose_lines_nothing_cuts_off():
    lines = SOURCE.splitlines()
    pairs = 2 * len(TEN_PAIRS)
    assert max(map(len, lines)) <= COLUMNS
    assert sum(bool(line.strip()) for line in lines) - pairs <= 160
