"""What later lessons build stands on one seam: `attend`, which is told where queries and keys stand.

Each variant decodes over the cache as it does without one, and beam search finds what a plain one finds.
"""

import pytest
import torch
from torch import nn

from tests.model.test_model import random_ids, small
from tests.writing.test_beam_search import assert_plain
from tests.writing.test_decoding import lively
from tfm_lib.attention import MultiHeadAttention, Positions
from tfm_lib.layers import EncoderLayer
from tfm_lib.masks import padding_mask
from tfm_lib.model import Transformer
from tfm_lib.writing.beam import search
from tfm_lib.writing.cache import DecoderCache, KeyValueCache
from tfm_lib.writing.decoding import Writer, after_the_end, write


def turn(x, at):
    """Rotary positions (Su et al. 2021): pair i of a head turns by at * 10000^(-2i/Dh)."""
    angle = at[:, None] * 10000 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])  # (T, Dh/2)
    even, odd = x[..., ::2], x[..., 1::2]
    turned = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class Rotary(MultiHeadAttention):
    def attend(self, query, key, value, mask, positions, *, causal):
        query, key = turn(query, positions.query), turn(key, positions.key)
        return super().attend(query, key, value, mask, positions, causal=causal)


class Grouped(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.key_proj, self.value_proj = (nn.Linear(d_model, d_model // 2) for _ in range(2))

    def attend(self, query, key, value, mask, positions, *, causal):
        key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))  # two heads share one key
        return super().attend(query, key, value, mask, positions, causal=causal)


class Prefix(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.prefix = nn.Parameter(torch.randn(2, 1, num_heads, 3, d_model // num_heads))

    def attend(self, query, key, value, mask, positions, *, causal):
        more = self.prefix.expand(-1, len(query), -1, -1, -1)
        key, value = (torch.cat(both, dim=2) for both in zip(more, (key, value), strict=True))
        mask = None if mask is None else nn.functional.pad(mask, (3, 0), value=True)
        return super().attend(query, key, value, mask, positions, causal=causal)


VARIANTS = [Rotary, Grouped, Prefix]


def built(variant, seed=0):
    model = lively(seed, num_decoder_layers=2, norm_first=True)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.self_attention = variant(16, 4)
        for p in layer.self_attention.parameters():
            nn.init.normal_(p, std=0.7)
    return model.double().eval()


@pytest.mark.parametrize("variant", [MultiHeadAttention, *VARIANTS])
def test_each_way_to_attend_decodes_over_the_cache_as_without_and_a_variant_is_not_the_plain_one(variant):
    model, plain = built(variant), built(MultiHeadAttention)
    src, tgt = random_ids(3, 6, high=8), random_ids(3, 7, high=8)
    src[1, 4:] = 0
    mask = padding_mask(src, 0)
    logits = model(src, tgt)
    weights = {name: p for name, p in model.state_dict().items() if "prefix" not in name}
    for name, wide in plain.state_dict().items():
        if weights[name].shape != wide.shape:  # keys and values that every two heads have in common
            weights[name] = weights[name].unflatten(0, (2, 4)).repeat_interleave(2, dim=0).flatten(0, 1)
    plain.load_state_dict(weights)
    assert torch.allclose(plain(src, tgt), logits, atol=1e-10) == (variant in (MultiHeadAttention, Grouped))
    memory = model.encode(src)
    for cut in ([1] * 7, [3, 4], [2, 1, 4], [7]):
        cache = DecoderCache(2, 7, 6)
        parts = [model.decode(part, memory, src_mask=mask, cache=cache) for part in tgt.split(cut, dim=1)]
        assert torch.allclose(torch.cat(parts, dim=1), logits, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_beam_search_over_a_variant_is_the_plain_one(variant):
    lengths = set()
    for seed in range(5):
        model, src = built(variant, seed), random_ids(3, 6, high=8)
        src[1, 3:] = 0
        lengths |= {len(text) for texts in assert_plain(model, src, 6, num_beams=3) for _, text in texts}
    assert len(lengths) > 2


def test_places_are_told_and_not_guessed():
    layer, x = Rotary(16, 4).double(), torch.randn(1, 5, 16, dtype=torch.float64)
    at = Positions.counted(5, 5)
    assert at.query.tolist() == at.key.tolist() == [0, 1, 2, 3, 4]
    moved = Positions(at.query + 100, at.key + 100)  # what counts is the distance
    assert torch.allclose(layer(x, x, x, positions=at), layer(x, x, x, positions=moved), atol=1e-10)
    swapped = Positions(at.query.flip(0), at.key)
    assert not torch.allclose(layer(x, x, x, positions=at), layer(x, x, x, positions=swapped), atol=1e-3)
    last = Positions.counted(2, 5, past=3)
    assert last.query.tolist() == [3, 4] and last.key.tolist() == [0, 1, 2, 3, 4]
    assert torch.allclose(layer(x[:, 3:], x, x, positions=last), layer(x, x, x, positions=at)[:, 3:], atol=1e-10)


class DecoderOnly(nn.Module):
    """The smallest language model, one encoder layer under a causal mask, and what decoding asks of any model."""

    pad_id, eos_id = 0, 2

    def __init__(self, attention):
        super().__init__()
        self.tokens, self.layer, self.output = nn.Embedding(8, 16), EncoderLayer(16, 4, 32), nn.Linear(16, 8)
        self.layer.self_attention = attention(16, 4)
        for p in self.parameters():
            nn.init.normal_(p, std=0.9)

    def forward(self, ids, cache=None):
        past = 0 if cache is None else cache.length
        at = Positions.counted(ids.shape[1], past + ids.shape[1], past)
        return self.output(self.layer(self.tokens(ids), None, cache, at, causal=True))  # (B, T, V)

    def going_on_with(self, prompt, longest):
        self.start, self.source = prompt[:, -1], torch.arange(len(prompt))
        self.cache = KeyValueCache(prompt.shape[1] + longest)
        self(prompt[:, :-1], self.cache)
        return self

    def next_logits(self, token):
        return self(token[:, None], self.cache)[:, -1]

    def select(self, rows):
        self.source = self.source[rows]
        self.cache.select(rows)


@pytest.mark.parametrize("attention", VARIANTS)
@torch.no_grad()
def test_a_decoder_only_model_writes_over_its_cache_what_it_writes_without(attention):
    lengths = set()
    for seed in range(6):
        torch.manual_seed(seed)
        model = DecoderOnly(attention).double().eval()
        prompt = random_ids(4, 5, high=8)
        written = write(model.going_on_with(prompt, 6), 6, lambda logits: logits.argmax(-1))
        best = model(torch.cat([prompt, written], dim=1))[:, 4:-1].argmax(-1)
        ended = after_the_end(written, 2)
        assert torch.equal(written, best.masked_fill(ended, 0))
        lengths |= set((~ended).sum(1).tolist())
        found = search(model.going_on_with(prompt, 6), 6, num_beams=1).tokens[:, 0]
        assert torch.equal(found, written[:, : found.shape[1]])
    assert len(lengths) > 1


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_built_on_the_meta_device_takes_its_weights_and_is_whole(tied):
    model = small(tied=tied)
    with torch.device("meta"):
        empty = Transformer(model.config)
    src, tgt = random_ids(2, 5), random_ids(2, 4)
    assert empty(src.to("meta"), tgt.to("meta")).shape == (2, 4, 30) and empty.output.weight.is_meta
    empty.load_state_dict(model.state_dict(), assign=True)
    empty.tie()
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    assert count(empty) == count(model)
    assert torch.equal(empty.eval()(src, tgt), model(src, tgt))


def test_no_mask_of_the_source_hides_nothing_and_a_forgotten_one_never_means_that():
    model, src, tgt = small(), random_ids(2, 5), random_ids(2, 4)
    src[0, 3:] = model.config.pad_id
    shown = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    memory = model.encode(src, None)
    assert torch.allclose(memory, model.encode(src, shown)) and not torch.equal(model.encode(src), memory)
    logits = model.decode(tgt, memory, src_mask=None)
    assert torch.allclose(logits, model.decode(tgt, memory, src_mask=shown), atol=1e-6)
    assert torch.allclose(Writer(model, src, 4, None).memory, memory)
    with pytest.raises(TypeError, match="src_mask"):
        model.decode(tgt, memory)
    with pytest.raises(TypeError, match="a mask must be a boolean tensor.*got str"):
        model.encode(src, "pading")
