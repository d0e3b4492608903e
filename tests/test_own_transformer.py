"""A Transformer that shares no code with ours is healthy and is the paper's; each of eight faults in it is named."""

import inspect

import pytest
import torch

from tfm_lib.practice import own_transformer
from tfm_lib.practice.own_transformer import OwnTransformer, given
from tfm_lib.checkup import PARTS, checkup
from tfm_lib.model import Transformer, TransformerConfig

# name: what is replaced, by what, the code that names it, the part that finds it.
SICK = {
    "future": (".tril()", ".tril(1)", "causality.off_by_one", "causality"),
    "keys": ("(src != self.pad_id)", "(src == self.pad_id)", "padding.inverted", "padding"),
    "positions": ("x + positions(ids.shape[1], self.d).to(x)", "x", "positions.none", "positions"),
    "shift": (
        "logits = self(src, tgt[:, :-1])\n        return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:]",
        "logits = self(src, tgt)\n        return F.cross_entropy(logits.flatten(0, 1), tgt",
        "loss.no_shift", "loss",
    ),
    "source": ("self.other(x, memory, seen)", "self.other(x, x, mask)", "source.ignored", "source"),
    "dropout": (
        "return self.drop(x + ", "return torch.dropout(x + ", "dropout.eval", "shapes",
    ),
    "sharing": (
        "[Layer(d, heads, d_ff, dropout, cross=True) for _ in range(layers)]",
        "[Layer(d, heads, d_ff, dropout, cross=True)] * layers", "gradients.shared", "gradients",
    ),
    "softmax": ("return self.out(x)", "return self.out(x).softmax(-1)", "output.probabilities", "shapes"),
}  # fmt: skip


def sick(name):
    """The own model with this fault, run from its changed source."""
    old, new, code, part = SICK[name]
    source = inspect.getsource(own_transformer)
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in it"
    source = source.replace(old, new)
    if name == "dropout":
        source = source.replace(".to(x))", ".to(x), 0.1, True)")
    space = {"__name__": "sick"}
    exec(compile(source, f"<{name}>", "exec"), space)
    torch.manual_seed(0)
    return space["OwnTransformer"](24, 0, 1, 2, d=32), code, part


def own():
    torch.manual_seed(0)
    return OwnTransformer(24, 0, 1, 2, d=32)


def test_the_own_model_is_healthy():
    model = own()
    report = checkup(model, **given(model))
    assert report.healthy and not report.not_tried, report
    assert report.tried == list(PARTS)


@pytest.mark.parametrize("name", SICK)
def test_the_report_names_the_fault(name):
    model, code, part = sick(name)
    report = checkup(model, **given(model), parts=part, quick=True)
    assert code in report.codes, report
    healthy = own()
    assert code not in checkup(healthy, **given(healthy), parts=part, quick=True).codes


def test_attention_is_that_of_torch():
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=dice) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(own_transformer.attend(q, k, v, mask), wanted)


def test_positions_by_hand():
    wanted = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.8414710, 0.5403023, 0.0099998, 0.9999500]])
    torch.testing.assert_close(own_transformer.positions(2, 4), wanted, atol=1e-6, rtol=0)


def test_it_learns_ten_pairs_and_writes_them():
    torch.manual_seed(0)
    model = OwnTransformer(24, 0, 1, 2, d=32, dropout=0.0)
    src = torch.randint(3, 24, (10, 6))
    tgt = torch.cat([torch.full((10, 1), 1), src[:, :3], torch.full((10, 1), 2)], 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        model.loss(src, tgt).backward()
        optimizer.step()
    model.eval()
    assert torch.equal(model.generate(src), tgt[:, 1:])


# How its parts are called in tfm_lib.model.
OURS = {
    "itself": "self_attention", "other": "cross_attention", "q": "query_proj", "k": "key_proj", "v": "value_proj",
    "o": "output_proj", "ff.0": "feed_forward.expand", "ff.2": "feed_forward.contract",
}  # fmt: skip


def as_ours(state):
    """Its weights under the names of tfm_lib.model."""
    renamed = {}
    for name, tensor in state.items():
        if name in ("words.weight", "out.weight"):
            continue
        side, number, rest = name.split(".", 2)
        around = ["self_attention", *(["cross_attention"] if side == "decoder" else []), "feed_forward"]
        if rest.startswith("norms."):
            _, place, kind = rest.split(".")
            rest = f"around_{around[int(place)]}.norm.{kind}"
        else:
            part, kind = rest.rsplit(".", 1)
            rest = ".".join([OURS[part] if part in OURS else ".".join(OURS[one] for one in part.split(".")), kind])
        renamed[f"{side}.layers.{number}.{rest}"] = tensor
    table = state["words.weight"]
    tables = ("encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight", "output.weight")
    return renamed | dict.fromkeys(tables, table)


def test_its_weights_in_our_model_give_the_same_logits():
    model = own().eval()
    config = TransformerConfig(
        vocab_size=24, d_model=32, num_heads=4, d_ff=128, num_encoder_layers=2, num_decoder_layers=2, max_length=64
    )
    ours = Transformer(config).eval()
    ours.load_state_dict(as_ours(model.state_dict()))
    src = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0]])
    tgt = torch.tensor([[1, 4, 3], [1, 9, 9]])
    torch.testing.assert_close(ours(src, tgt), model(src, tgt), atol=1e-5, rtol=1e-5)
