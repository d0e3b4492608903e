"""What the traces show is what the model computed."""

import pytest
import torch

from tests.model.references import randomize
from tests.model.test_model import random_ids, small
from tfm_lib.writing.tracing import record_attention, trace_shapes


def test_recorded_weights_have_names_and_shapes_and_sum_to_one_and_recording_ends_with_its_block():
    model, src, tgt = randomize(small()), random_ids(2, 6), random_ids(2, 4)
    before = model(src, tgt)
    with record_attention(model) as maps:
        assert torch.allclose(model(src, tgt), before, atol=1e-5)
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == {
        **{f"encoder.layers.{i}.self_attention": (2, 4, 6, 6) for i in range(2)},
        **{f"decoder.layers.{i}.self_attention": (2, 4, 4, 4) for i in range(2)},
        **{f"decoder.layers.{i}.cross_attention": (2, 4, 4, 6) for i in range(2)},
    }
    assert all(torch.allclose(w.sum(-1), torch.ones(w.shape[:-1])) and not w.requires_grad for w in maps.values())
    with pytest.raises(RuntimeError), record_attention(model):
        raise RuntimeError
    assert all(getattr(module, "on_weights", None) is None for module in model.modules())


def test_recordings_nest_and_keep_a_callers_own_on_weights():
    model, calls = small(), []
    attention = model.encoder.layers[0].self_attention
    attention.on_weights = calls.append
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(random_ids(2, 6), random_ids(2, 4))
        assert outer.keys() == inner.keys() and all(torch.equal(outer[name], inner[name]) for name in inner)
        recorded = dict(inner)
        model(random_ids(1, 3), random_ids(1, 2))
    assert {weights.shape[0] for weights in outer.values()} == {1}, "the outer block goes on after the inner one"
    assert all(inner[name] is weights for name, weights in recorded.items()), "the inner one does not"
    assert [weights.shape[0] for weights in calls] == [2, 1] and attention.on_weights == calls.append


def test_shapes_are_written_in_the_order_of_the_calls_and_no_hook_stays():
    model, src, tgt = small(), random_ids(2, 6), random_ids(2, 4)
    trace = trace_shapes(model, src, tgt)
    names = [row[0] for row in trace.rows]
    assert max(name.count(".") for name in names) == 2, "three levels, unless more are asked for"
    assert names.index("encoder") < names.index("encoder.embedding.tokens") < names.index("encoder.layers.0")
    assert names.index("encoder.layers.1") < names.index("decoder.layers.0") < names.index("output")
    rows = {row[0]: row[1:] for row in trace.rows}
    assert rows["encoder.embedding.tokens"] == ("Embedding", "(2, 6)", "(2, 6, 16)", 30 * 16)
    assert rows["decoder.layers.1"][1:3] == ("(2, 4, 16) (2, 6, 16)", "(2, 4, 16)")
    assert rows["output"][2] == "(2, 4, 30)"
    assert "encoder.embedding.dropout" not in rows
    lines = str(trace).splitlines()
    assert lines[0].split() == ["module", "class", "in", "out", "parameters"]
    assert len({line.index(kind) for line, (_, kind, *_) in zip(lines[1:], trace.rows, strict=True)}) == 1, "aligned"
    assert [row[0] for row in trace_shapes(model, src, tgt, depth=1).rows] == ["encoder", "decoder", "output"]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
