"""Equal to d2l where d2l is right, and different, as documented, where it is wrong."""

from importlib.metadata import version

import pytest
import torch

from tfm_lib.attention import AdditiveAttention, attention
from tfm_lib.masks import length_mask, masked_softmax
from tfm_lib.positions import sinusoidal_table

LENGTHS = [None, torch.tensor([2, 3]), torch.tensor([[1, 3, 2], [4, 4, 1]])]


@pytest.fixture(scope="module")
def d2l():
    """Imported by the first test that runs, since it takes seconds."""
    return pytest.importorskip("d2l.torch", reason="without d2l, which pip install --no-deps d2l==1.0.3 adds")


def test_it_runs_under_current_numpy_and_pandas(d2l):
    """Its own pins are older."""
    assert all(int(version(name).split(".")[0]) >= 2 for name in ("numpy", "pandas"))
    sizes = {"vocab_size": 10, "num_hiddens": 8, "ffn_num_hiddens": 16, "num_heads": 2, "num_blks": 2, "dropout": 0.0}
    encoder = d2l.TransformerEncoder(**sizes)
    assert encoder(torch.ones(2, 4, dtype=torch.long), torch.tensor([2, 4])).shape == (2, 4, 8)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_attention(lengths, d2l):
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 4, 5), torch.randn(2, 4, 6)
    scores = query @ key.mT
    assert torch.allclose(masked_softmax(scores, lengths), d2l.masked_softmax(scores.clone(), lengths), atol=1e-6)
    mask = None if lengths is None else length_mask(lengths, 4).squeeze(1)
    reference = d2l.DotProductAttention(dropout=0.0)(query, key, value, lengths)
    assert torch.allclose(attention(query, key, value, mask), reference, atol=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_additive_attention(lengths, d2l):
    """Two matrices and a vector, without a bias, which the softmax would lose; the widths may differ."""
    ours, theirs = AdditiveAttention(5, 7, 8), d2l.AdditiveAttention(num_hiddens=8, dropout=0.0)
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 4, 7), torch.randn(2, 4, 6)
    theirs(query, key, value, lengths)  # its lazy layers get their sizes
    for mine, other in ((ours.query_proj, theirs.W_q), (ours.key_proj, theirs.W_k), (ours.score, theirs.w_v)):
        other.load_state_dict(mine.state_dict())
    assert torch.allclose(ours(query, key, value, lengths), theirs(query, key, value, lengths), atol=1e-6)


def test_positional_encoding(d2l):
    theirs = d2l.PositionalEncoding(12, dropout=0.0, max_len=60)
    assert torch.allclose(sinusoidal_table(60, 12), theirs.P[0], atol=1e-5)


def test_where_d2l_is_wrong(d2l):
    scores, empty = torch.randn(1, 2, 4), torch.tensor([0])
    assert torch.allclose(d2l.masked_softmax(scores.clone(), empty), torch.full((1, 2, 4), 0.25)), "sees padding"
    assert (masked_softmax(scores, empty) == 0).all()
    scores, two = torch.tensor([[[-2e6, -2e6, 0.0, 0.0]]]), torch.tensor([2])
    assert d2l.masked_softmax(scores.clone(), two).tolist() == [[[0.0, 0.0, 0.5, 0.5]]], "below its fill value, too"
    assert masked_softmax(scores, two).tolist() == [[[0.5, 0.5, 0.0, 0.0]]]
    d2l.masked_softmax(scores, two)
    assert scores.tolist() != [[[-2e6, -2e6, 0.0, 0.0]]], "it changes its input"
    scores, transposed = torch.zeros(2, 3, 4), torch.tensor([[1, 2], [3, 4], [1, 1]])
    d2l.masked_softmax(scores.clone(), transposed)
    with pytest.raises(ValueError, match=r"\(3, 2\)"):
        masked_softmax(scores, transposed)
