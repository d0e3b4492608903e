"""Copies the weights of our modules into torch's and d2l's, so that outputs can be compared."""

import warnings

import torch
from torch import nn

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.model import Transformer


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.query_proj, ours.key_proj, ours.value_proj)
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    theirs.out_proj.load_state_dict(ours.output_proj.state_dict())


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    wraps = [ours.around_self_attention, ours.around_feed_forward]
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        wraps.insert(1, ours.around_cross_attention)
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
    for number, wrap in enumerate(wraps, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(wrap.norm.state_dict())


def torch_twin(ours: Transformer) -> nn.Transformer:
    """An nn.Transformer with the weights of our stacks. It has no embeddings and no output layer."""
    c = ours.config
    sizes = (c.d_model, c.num_heads, c.num_encoder_layers, c.num_decoder_layers, c.d_ff, 0.0, c.activation)
    with warnings.catch_warnings():  # with norm_first it says that its fast path is off
        warnings.simplefilter("ignore", UserWarning)
        theirs = nn.Transformer(*sizes, batch_first=True, norm_first=c.norm_first).to(ours.output.weight.dtype)
    stacks = ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder))
    for our_stack, their_stack in stacks:
        for mine, other in zip(our_stack.layers, their_stack.layers, strict=True):
            copy_layer(mine, other)
    if c.norm_first:
        theirs.encoder.norm.load_state_dict(ours.encoder.norm.state_dict())
        theirs.decoder.norm.load_state_dict(ours.decoder.norm.state_dict())
    else:  # nn.Transformer puts a norm at the end of a post-norm stack too, where the paper has none
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


def randomize(module: nn.Module, seed: int = 0) -> nn.Module:
    """Random values for every parameter, biases and norms too, so that no mistake hides behind a 0 or a 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.3)
            if p.dim() == 1:
                p.add_(0.5)
    return module
