"""The check-up names what was planted in seven strangers' models, and calls none of the healthy ones sick."""

import pytest
import torch
from torch import nn

from tests.checkup.sick_models import PLANTS
from tests.checkup.strangers import FAULTS, STYLES, planted
from tests.checkup.test_checkup import parts_of
from tfm_lib.checkup import checkup

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
IDS = {"vocab_size": 40, "pad_id": 0, "start_id": 1, "eos_id": 2, "time_limit": 10_000}
TWO = IDS | {"src_pad_id": 0, "pad_id": 1, "start_id": 2, "eos_id": 3}
HEALTHY = [*({"style": style} for style in STYLES), *(fault for fault in FAULTS if fault["kind"] == "healthy")]
SICK = [fault for fault in FAULTS if fault["kind"] != "healthy"]
# The first one with each code that no plant has: with the plants, one fault for each code.
FIRST = {fault["code"]: fault for fault in reversed(SICK) if fault["code"] not in {plant.code for plant in PLANTS}}
MISSED = "bf_leaves_training bf_mask_of_target es_norm_over_batch oo_cache_none oo_needs_a_mask do_softmax_over_batch"
ASKED = [*FIRST.values(), *(fault for fault in SICK if fault["id"] in MISSED.split())]


def examined(fault, **how):
    torch.manual_seed(0)
    model, given = planted(fault).build()
    return checkup(model, **(TWO if fault["style"] == "two_vocabularies" else IDS), **given, **how)


@pytest.mark.parametrize("fault", ASKED, ids=lambda fault: fault["id"])
def test_a_fault_that_no_plant_has_or_that_was_once_missed_is_named(fault):
    report = examined(fault, parts=parts_of(fault["code"]), quick=True)
    assert fault["code"] in report.codes, report


@pytest.mark.parametrize(
    ("name", "head", "table"),
    [("tv_beams_mixed", "fc_out", "trg_tok"), ("oo_cache_at_zero", "lm_head", "shared")],
)
def test_writing_is_followed_to_a_tied_head_that_is_no_module(name, head, table):
    sick_one = next(fault for fault in SICK if fault["id"] == name)
    for fault, sick in ((sick_one, True), ({"style": sick_one["style"]}, False)):
        model, given = planted(fault).build()
        delattr(model, head)
        setattr(model, head, lambda x, model=model: torch.einsum("...d,vd->...v", x, getattr(model, table).weight))
        codes = checkup(model, **(TWO if name.startswith("tv") else IDS), **given, parts="cache").codes
        assert (sick_one["code"] in codes) == sick


def test_beams_of_one_text_after_the_other_are_not_texts_of_a_batch():
    model, given = planted({"style": "two_vocabularies"}).build()
    write = given.pop("generate")
    one_by_one = {"generate": lambda src: [write(text)[0] for text in src.split(1)]}
    assert "generate.batch" not in checkup(model, **TWO, **given, **one_by_one, parts="cache").codes


def test_a_mask_that_only_the_encoder_lacks_while_it_writes_shows_when_it_has_learned():
    fault = {"old": "model.encode(src, src_mask).", "new": "model.encode(src, src_mask | True)."}
    torch.manual_seed(0)
    model, given = planted({"id": "tiny", "style": "two_vocabularies", **fault}).build()
    for part in model.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.Embedding):
            torch.nn.init.normal_(part.weight, std=0.02)
    for part, sick in (("cache", False), ("learning", True)):
        assert ("generate.padding" in checkup(model, **TWO, **given, parts=part).codes) == sick


def test_the_order_of_the_past_is_asked_of_a_model_that_shifts_its_target():
    shifted = "        x = self.trg_tok(F.pad(trg[:, :-1], (1, 0), value=TRG_BOS))"
    old = "        x = self.trg_tok(trg) + self.trg_pos(pos)"
    for new, sick in ((shifted, True), (f"{shifted} + self.trg_pos(pos)", False)):
        model, _ = planted({"id": "shifts", "style": "two_vocabularies", "old": old, "new": new}).build()
        assert ("positions.target_none" in checkup(model, **TWO, parts="positions").codes) == sick


class Shared(nn.Module):
    """One table for both sides and the scores, so that each weight has a gradient whatever happens to the source."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.table, self.mistake = nn.Embedding(40, 32), mistake

    def forward(self, src, tgt):
        read = self.table(src).mean(1, keepdim=True)
        tgt = torch.full_like(tgt, 3) if self.mistake == "guesses" and self.training else tgt
        return (
            self.table(tgt).cumsum(1) + (read.detach() if self.mistake == "detached" else read)
        ) @ self.table.weight.T


@pytest.mark.parametrize(("mistake", "code"), [("detached", "gradients.unreached"), ("guesses", "causality.blind")])
def test_a_source_without_gradient_and_a_target_that_training_does_not_read_are_seen(mistake, code):
    for what in (mistake, ""):
        report = checkup(Shared(what), **IDS, parts=["causality", "gradients"])
        assert (code in report.codes) == bool(what), report


@pytest.mark.slow
@pytest.mark.parametrize("fault", SICK, ids=lambda fault: fault["id"])
def test_the_whole_round_names_it_first(fault):
    report = examined(fault)
    assert report.findings[0].code == fault["code"] or report.findings[0].severity == "doubtful", report
    assert fault["code"] in report.codes and report.cause(fault["code"]) is None, report


@pytest.mark.slow
@pytest.mark.parametrize("fault", HEALTHY, ids=lambda fault: fault.get("id", fault["style"]))
def test_no_healthy_stranger_is_called_sick(fault):
    report = examined(fault)
    assert report.healthy and not report.not_tried, report


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tf_bare", "cache"),
        ("oo_mask_second", "causality"),
        ("oo_head_in_forward", "loss"),
        ("tf_loss_turns", "loss"),
        ("tv_named_scores", "shapes"),
        ("bf_no_ends", "learning"),
        ("oo_mask_is_asked_for", "padding"),
        ("bf_wide", "positions"),
    ],
)
def test_what_was_once_called_sick_is_healthy(name, part):
    report = examined(next(fault for fault in FAULTS if fault["id"] == name), parts=part, quick=True)
    assert report.healthy and report.tried == [part], report


def test_86_faults_and_12_oddities_of_7_strangers_are_planted_in_text_that_occurs_once():
    assert len({fault["id"] for fault in FAULTS}) == len(FAULTS) == 98 and len(SICK) == 86
    for fault in FAULTS:
        planted(fault)
    for old in ("no such text", "nn."):
        with pytest.raises(ValueError, match=r"times in einsum.py, not once"):
            planted({"id": "x", "style": "einsum", "old": old, "new": ""})
