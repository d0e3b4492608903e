"""Layers by hand; test_model.py holds them to torch's."""

import pytest
import torch
from torch import nn

from tfm_lib.layers import DecoderLayer, EncoderLayer, FeedForward, Residual


def test_by_default_layers_are_the_papers():
    """Post-norm, and a tenth of what a sub-layer adds is dropped."""
    for layer in (Residual(8), EncoderLayer(8, 2, 16), DecoderLayer(8, 2, 16)):
        wraps = [module for module in layer.modules() if isinstance(module, Residual)]
        assert {(wrap.norm_first, wrap.dropout.p) for wrap in wraps} == {(False, 0.1)}
    x = torch.randn(3, 8)
    assert torch.equal(Residual(8)(x, torch.zeros_like), nn.functional.layer_norm(x, [8]))


def test_residual_drops_what_the_sublayer_adds_and_never_the_way_around():
    residual = Residual(4, dropout=0.999999, norm_first=True)
    x = torch.randn(3, 4)
    assert torch.equal(residual(x, lambda y: y * 100), x)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="relu, gelu, silu, got 'tanh'"):
        FeedForward(4, 8, "tanh")
