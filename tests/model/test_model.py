"""The whole model: equal to nn.Transformer, without leaks, tied, and sane at the start."""

from dataclasses import FrozenInstanceError, asdict
from math import sqrt

import pytest
import torch

from tests.model.references import randomize, torch_twin
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.tracing import record_attention

SMALL = dict(vocab_size=30, d_model=16, num_heads=4, d_ff=32, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0)


def small(**changes) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**{**SMALL, **changes}))


def random_ids(*shape, low=3, high=30):
    return torch.randint(low, high, shape)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("layers", [(2, 2), (1, 3)])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_model_is_nn_transformer(norm_first, padded, layers, activation):
    sizes = {"num_encoder_layers": layers[0], "num_decoder_layers": layers[1]}
    model = randomize(small(norm_first=norm_first, activation=activation, **sizes).double())
    src, tgt = random_ids(3, 6), random_ids(3, 5)
    if padded:
        src[0, 4:] = src[1, :2] = 0
    hidden = src == 0
    out = torch_twin(model)(
        model.encoder.embedding(src),
        model.decoder.embedding(tgt),
        tgt_mask=torch.ones(5, 5).triu(1).bool(),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    assert torch.allclose(model(src, tgt), model.output(out), atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_future_token_leaves_earlier_logits_bit_equal(norm_first, positions):
    model = randomize(small(norm_first=norm_first, positions=positions))
    src, tgt = random_ids(2, 6), random_ids(2, 7)
    logits = model(src, tgt)
    for t in range(1, 7):
        changed = tgt.clone()
        changed[:, t] = (tgt[:, t] + 5) % 25 + 3
        after = model(src, changed)
        assert torch.equal(after[:, :t], logits[:, :t])
        assert not torch.allclose(after[:, t:], logits[:, t:])


@pytest.mark.parametrize("start_id", [0, 2])
def test_a_start_token_equal_to_padding_or_end_is_seen(start_id):
    """A padding mask guessed from the target's ids would hide the start token of Marian and of BART."""
    model = randomize(small(start_id=start_id))
    src = random_ids(1, 5)
    with record_attention(model) as maps:
        model(src, torch.tensor([[start_id, 5, 6]]))
    assert (maps["decoder.layers.0.self_attention"][0, :, :, 0] > 0).all()


def test_tied_weights_are_one_storage_and_save_two_tables():
    tied, untied = small(), small(tied=False)
    tables = lambda m: [m.encoder.embedding.tokens.weight, m.decoder.embedding.tokens.weight, m.output.weight]  # noqa: E731
    assert len({w.data_ptr() for w in tables(tied)}) == 1
    assert len({w.data_ptr() for w in tables(untied)}) == 3
    count = lambda m: sum(p.numel() for p in m.parameters())  # noqa: E731
    assert count(untied) - count(tied) == 2 * 30 * 16


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("embed_scale", [None, 1.0, 3.0])
def test_every_parameter_starts_as_wide_as_the_model_says(tied, embed_scale):
    """At least 2,000 numbers each: their standard deviation is known within 2 percent or so."""
    sizes = dict(vocab_size=500, d_model=64, d_ff=128, max_length=40, num_encoder_layers=1, num_decoder_layers=1)
    options = dict(positions="learned", embed_norm=True, norm_first=True, logits_bias=True)
    model = small(**sizes, **options, tied=tied, embed_scale=embed_scale)
    sides = model.encoder.layers[0].self_attention, model.decoder.layers[0].self_attention
    assert not torch.equal(*(side.query_proj.weight for side in sides)), "each is drawn on its own"
    kinds = set()
    for name, p in model.named_parameters():
        module, kind = name.split(".")[-2:]
        if module == "norm" or kind == "bias":
            assert (p == (module == "norm" and kind == "weight")).all(), name
            continue
        elif module == "tokens":
            std = 1 / 8
        elif module == "positions":
            std = (8 if embed_scale is None else embed_scale) / 8
        elif module == "output":
            std = 0.02
        else:
            std = sqrt(2 / sum(p.shape))
            assert 0.98 < p.abs().max().item() / (sqrt(3) * std) <= 1, f"{name} is not uniform"
        kinds.add(module)
        assert p.std().item() == pytest.approx(std, rel=0.07) and abs(p.mean().item()) < 0.1 * std, name
    assert kinds >= {"tokens", "positions", "query_proj", "output_proj", "expand"} and ("output" in kinds) != tied
    assert model.output.weight.std().item() == pytest.approx(1 / 8 if tied else 0.02, rel=0.05)


def test_dropout_sits_on_embeddings_behind_their_norm():
    side, ids = small(embed_norm=True, dropout=0.5).encoder.embedding, random_ids(4, 9)
    dropped, full = side(ids), side.eval()(ids)
    left = dropped != 0
    assert left.float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert torch.allclose(dropped[left], 2 * full[left])
    assert torch.allclose(full.mean(-1), torch.zeros(4, 9), atol=1e-5) and full.std().item() == pytest.approx(1, 0.01)


def test_the_configuration_is_the_papers_and_frozen():
    config = TransformerConfig(vocab_size=37000)
    assert asdict(config) == dict(
        vocab_size=37000, d_model=512, num_heads=8, d_ff=2048, num_encoder_layers=6, num_decoder_layers=6, dropout=0.1,
        max_length=512, norm_first=False, activation="relu", positions="sinusoidal", interleaved=True, endpoint=False,
        position_offset=0, embed_scale=None, embed_norm=False, tied=True, logits_bias=False,
        pad_id=0, start_id=1, eos_id=2,
    )  # fmt: skip
    assert config.scale == 512**0.5
    assert small().output.bias is None
    with pytest.raises(FrozenInstanceError):
        config.d_model = 3
    with pytest.raises(TypeError):
        TransformerConfig(30)  # all is given by name
    TransformerConfig(vocab_size=5, d_model=15, num_heads=5, positions="learned")  # which may be odd


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(vocab_size=0), "vocab_size must be at least 1, got 0"),
        (dict(d_model=10, num_heads=4), "d_model=10 and num_heads=4.*d_model=8"),
        (dict(num_heads=0), "num_heads must be at least 1"),
        (dict(num_decoder_layers=0), "num_decoder_layers"),
        (dict(d_model=15, num_heads=5), "must be even, got 15; use 20, or learned"),
        (dict(d_model=2, num_heads=2, endpoint=True), "got d_model 2; use 4, or endpoint=False"),
        (dict(dropout=1.0), r"\[0, 1\), got 1.0"),
        (dict(activation="tanh"), "relu, gelu, silu, got 'tanh'"),
        (dict(positions="rotary"), "'sinusoidal' or 'learned', got 'rotary'"),
        (dict(position_offset=-1), "position_offset must be at least 0, got -1"),
        (dict(pad_id=30), "pad_id must be an id of the vocabulary, 0..29, got 30"),
        (dict(eos_id=-1), "eos_id"),
        (dict(d_model=16.0), "d_model must be a whole number, got 16.0; round it"),
        (dict(max_length=16.5), "max_length must be a whole number, got 16.5"),
        (dict(position_offset=2.0), "position_offset must be a whole number"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        TransformerConfig(**{**SMALL, **changes})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (torch.tensor([[3, 30]]), "0..29, got 3 to 30"),
        (torch.tensor([[-1, 3]]), "0..29, got -1 to 3"),
        (torch.tensor([[]]), r"\(1, 0\) hold no token"),
        (torch.zeros(2, 3), r"integers, .*got torch.float32; use ids.long\(\)"),
        (torch.zeros(1, 3).bool(), r"integers, .*got torch.bool; use ids.long\(\)"),
        (torch.zeros(1, 3, dtype=torch.uint8), r"integers, .*got torch.uint8; use ids.long\(\)"),
        (torch.zeros(3).long(), r"\(batch, length\), got \(3,\); for one sequence use ids\[None\]"),
        (torch.zeros(1, 2, 3).long(), r"\(batch, length\), got \(1, 2, 3\); give each sequence a row"),
        (torch.zeros(1, 513).long(), "513 positions.*only 512.*max_length=513"),
    ],
)
def test_wrong_ids_are_refused_with_the_fix(bad, words):
    model, good = small(), random_ids(1, 4)
    for src, tgt in ((good, bad), (bad, good)):
        with pytest.raises(ValueError, match=words):
            model(src, tgt)
