"""The check-up names what was planted in seven strangers' models, and calls none of the healthy ones sick."""

import pytest
import torch

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


def examined(fault, **how):
    torch.manual_seed(0)
    model, given = planted(fault).build()
    return checkup(model, **(TWO if fault["style"] == "two_vocabularies" else IDS), **given, **how)


@pytest.mark.parametrize("fault", FIRST.values(), ids=lambda fault: fault["id"])
def test_a_fault_that_no_plant_has_is_named(fault):
    report = examined(fault, parts=parts_of(fault["code"]), quick=True)
    assert fault["code"] in report.codes, report


def test_beams_are_followed_to_a_tied_head_that_is_no_module():
    mixed = next(fault for fault in SICK if fault["id"] == "tv_beams_mixed")
    for fault, sick in ((mixed, True), ({"style": mixed["style"]}, False)):
        model, given = planted(fault).build()
        del model.fc_out
        model.fc_out = lambda x, model=model: torch.nn.functional.linear(x, model.trg_tok.weight)
        assert ("generate.beams" in checkup(model, **TWO, **given, parts="cache").codes) == sick


def test_the_order_of_the_past_is_asked_of_a_model_that_shifts_its_target():
    shifted = "        x = self.trg_tok(F.pad(trg[:, :-1], (1, 0), value=TRG_BOS))"
    old = "        x = self.trg_tok(trg) + self.trg_pos(pos)"
    for new, sick in ((shifted, True), (f"{shifted} + self.trg_pos(pos)", False)):
        model, _ = planted({"id": "shifts", "style": "two_vocabularies", "old": old, "new": new}).build()
        assert ("positions.target_none" in checkup(model, **TWO, parts="positions").codes) == sick


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
    ],
)
def test_what_was_once_called_sick_is_healthy(name, part):
    report = examined(next(fault for fault in HEALTHY if fault.get("id") == name), parts=part, quick=True)
    assert report.healthy and report.tried == [part], report


def test_75_faults_and_10_oddities_of_7_strangers_are_planted_in_text_that_occurs_once():
    assert len({fault["id"] for fault in FAULTS}) == len(FAULTS) == 85 and len(SICK) == 75
    for fault in FAULTS:
        planted(fault)
    for old in ("no such text", "nn."):
        with pytest.raises(ValueError, match=r"times in einsum.py, not once"):
            planted({"id": "x", "style": "einsum", "old": old, "new": ""})
