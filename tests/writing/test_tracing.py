"""What the traces show is what the model computed."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from tests.model.references import randomize
from tests.model.test_model import random_ids, small
from tfm_lib.writing.tracing import record_attention, trace_shapes


def test_recorded_weights_have_names_and_shapes_and_sum_to_one():
    model = small()
    with record_attention(model) as maps:
        model(random_ids(2, 6), random_ids(2, 4))
    shapes = {name: tuple(w.shape) for name, w in maps.items()}
    assert shapes == {
        **{f"encoder.layers.{i}.self_attention": (2, 4, 6, 6) for i in range(2)},
        **{f"decoder.layers.{i}.self_attention": (2, 4, 4, 4) for i in range(2)},
        **{f"decoder.layers.{i}.cross_attention": (2, 4, 4, 6) for i in range(2)},
    }
    assert all(torch.allclose(w.sum(-1), torch.ones(w.shape[:-1])) and not w.requires_grad for w in maps.values())


def test_recording_changes_no_output_and_ends_with_its_block():
    model, src, tgt = randomize(small()), random_ids(2, 6), random_ids(2, 4)
    before = model(src, tgt)
    with record_attention(model) as maps:
        assert torch.allclose(model(src, tgt), before, atol=1e-5)
    recorded = dict(maps)
    model(random_ids(1, 3), random_ids(1, 2))
    assert maps.keys() == recorded.keys() and all(maps[name] is w for name, w in recorded.items())


def test_recording_ends_after_an_error():
    model = small()
    try:
        with record_attention(model):
            raise RuntimeError
    except RuntimeError:
        pass
    assert all(getattr(m, "on_weights", None) is None for m in model.modules())


def test_shapes_are_written_in_the_order_of_the_journey():
    model = small()
    trace = trace_shapes(model, random_ids(2, 6), random_ids(2, 4))
    names = [row[0] for row in trace.rows]
    assert max(name.count(".") for name in names) == 2, "three levels, unless more are asked for"
    assert names.index("encoder") < names.index("encoder.embedding.tokens") < names.index("encoder.layers.0")
    assert names.index("encoder.layers.1") < names.index("decoder.layers.0") < names.index("output")
    rows = {row[0]: row[1:] for row in trace.rows}
    assert rows["encoder.embedding.tokens"] == ("Embedding", "(2, 6)", "(2, 6, 16)", 30 * 16)
    assert rows["decoder.layers.1"][1:3] == ("(2, 4, 16) (2, 6, 16)", "(2, 4, 16)")
    assert rows["output"][2] == "(2, 4, 30)"
    with pytest.raises(FrozenInstanceError):
        trace.rows = []
    assert str(trace).splitlines()[0].split() == ["module", "class", "in", "out", "parameters"]


def test_depth_limits_the_look_and_no_hook_stays():
    model = small()
    assert [row[0] for row in trace_shapes(model, random_ids(1, 3), random_ids(1, 2), depth=1).rows] == [
        "encoder",
        "decoder",
        "output",
    ]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_recordings_nest_and_keep_a_callers_own_on_weights():
    model, seen = small(), []
    own = model.encoder.layers[0].self_attention
    own.on_weights = seen.append
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(random_ids(2, 6), random_ids(2, 4))
        assert outer.keys() == inner.keys() and all(torch.equal(outer[name], inner[name]) for name in inner)
        recorded = dict(inner)
        model(random_ids(1, 3), random_ids(1, 2))
    assert {weights.shape[0] for weights in outer.values()} == {1}, "the outer block goes on after the inner one"
    assert all(inner[name] is weights for name, weights in recorded.items()), "the inner one does not"
    assert [weights.shape[0] for weights in seen] == [2, 1] and own.on_weights == seen.append
