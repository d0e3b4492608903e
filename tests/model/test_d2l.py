"""Equal to d2l, but for masks that hide everything and scores below its fill value, where d2l is wrong."""

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
