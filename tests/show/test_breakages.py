"""What is switched off in a model: by hand on small ones, and the record of what the shipped one then writes."""

import json

import pytest
import torch

from benchmarks.start_here import broken_machine
from benchmarks.start_here.breakages import breaking, write_anew, write_broken
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.lessons import course_file
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.machine import PARTS, RECORD, SWITCHED, head_names, layer_names, machine

RECORDED = json.loads(course_file(RECORD).read_text(encoding="utf-8"))
SRC, TGT = torch.tensor([[5, 6, 7, 5]]), torch.tensor([[1, 8, 9]])


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return Transformer(TransformerConfig(vocab_size=12, max_length=16, norm_first=True, **sizes)).eval()


def logits(model: Transformer, *off: str, src: torch.Tensor = SRC, tgt: torch.Tensor = TGT) -> torch.Tensor:
    with torch.inference_mode(), breaking(model, off):
        return model(src, tgt)


def test_each_part_changes_what_comes_out_and_is_there_again(model):
    healthy = logits(model)
    for off in (*PARTS, *layer_names(model), *head_names(model)):
        assert not torch.allclose(logits(model, off), healthy, atol=1e-4), off
        assert torch.equal(logits(model), healthy), off
    assert len(layer_names(model)) == 4 and len(head_names(model)) == 6 * 3


def test_without_positions_the_order_of_the_source_is_not_seen(model):
    turned = SRC.flip(1)
    assert not torch.allclose(logits(model), logits(model, src=turned), atol=1e-4)
    assert torch.allclose(logits(model, "positions"), logits(model, "positions", src=turned), atol=1e-5)


def test_without_the_causal_mask_a_word_sees_those_after_it_and_else_it_does_not(model):
    other = torch.tensor([[1, 8, 4]])
    assert torch.allclose(logits(model)[:, :2], logits(model, tgt=other)[:, :2], atol=1e-6)
    assert not torch.allclose(logits(model, "causal")[:, :2], logits(model, "causal", tgt=other)[:, :2], atol=1e-4)


def test_all_heads_of_the_cross_attention_off_the_story_is_not_heard(model):
    off = [f"decoder.layers.{n}.cross_attention" for n in (0, 1)]
    other = torch.tensor([[9, 9, 3, 4]])
    assert torch.equal(logits(model, *off), logits(model, *off, src=other))
    heads = [f"{name}.{head}" for name in off for head in (0, 1)]
    assert torch.equal(logits(model, *off), logits(model, *heads))


def test_a_model_of_layers_that_are_off_gives_the_norm_of_its_input(model):
    with torch.inference_mode():
        found = logits(model, *layer_names(model))
        assert torch.allclose(found, model.output(model.decoder.norm(model.decoder.embedding(TGT))), atol=1e-6)


def test_scores_without_scaling_are_larger_by_the_root_of_the_width(model):
    attention = model.encoder.layers[0].self_attention
    query, key = torch.randn(2, 1, 2, 3, 8)  # (B, H, T, Dh) each
    with breaking(model, ["scaling"]):
        found = attention.attend(query, key, key, None, None, causal=False)
    assert torch.allclose(found, (query @ key.mT).softmax(-1) @ key, atol=1e-5)


def test_a_text_that_is_read_anew_at_each_step_is_the_same():
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(make_newsroom(0, train=1).test[0].article)])
    anew = write_anew(model, src, 16)[0].tolist()
    cached = write_broken(model, [], src, 16)[0].tolist()
    assert anew[: len(cached)] == cached and {*anew[len(cached) :]} <= {model.config.pad_id}


def test_a_part_that_there_is_not_is_refused(model):
    with pytest.raises(ValueError, match=r"no part is called masks, encoder.layers.2; there are positions, causal"):
        logits(model, "masks", "positions", "encoder.layers.2")


@pytest.mark.slow
def test_the_record_has_all_that_the_machine_switches_off():
    rows = [row["off"] for row in RECORDED["rows"]]
    assert rows == broken_machine.parts()
    assert (RECORDED["draws"], RECORDED["stories"]) == (broken_machine.DRAWS, broken_machine.STORIES)
    data = machine().widget.data
    named = [name for part in data["parts"] for name, _ in part["names"]]  # a head alone before all of a layer
    assert sorted(named) == sorted(rows) and rows == [*data["measured"]]
    assert [part["kind"] for part in data["parts"]] == [*SWITCHED]


@pytest.mark.slow
@pytest.mark.parametrize("off", ["positions", "decoder.layers.0.cross_attention.4"])
def test_a_point_of_the_record_can_be_measured_again(off):
    [row] = [row for row in RECORDED["rows"] if row["off"] == off]
    second = broken_machine.Batch(make_newsroom(0).test[200:400])
    exact = (broken_machine.headlines(second, off) == second.right).all(-1).float().mean().item()
    assert exact == pytest.approx(row["exact"]["draws"][1], abs=0.006)


def test_what_the_machine_says_of_its_parts_is_what_was_measured():
    exact = {row["off"]: row["exact"]["mean"] for row in RECORDED["rows"]}
    heads = [share for name, share in exact.items() if name.count(".") == 4]
    assert len(heads) == 48
    assert sum(exact[""] - share < 0.01 for share in heads) > 36, "most heads are hardly missed"
    assert 2 <= sum(exact[""] - share > 0.05 for share in heads) <= 6, "a few are"
    [causal] = [row["changed"]["mean"] for row in RECORDED["rows"] if row["off"] == "causal"]
    assert causal < 0.01, "hardly anything"
    assert newsroom_model()[0].config.d_model // newsroom_model()[0].config.num_heads == 16, "the root is four"
