"""The check-up names what was planted in five strangers' models, and calls none of the healthy ones sick."""

import pytest
import torch

from tests.checkup.strangers import FAULTS, STYLES, planted
from tests.checkup.test_checkup import parts_of
from tfm_lib.checkup import checkup

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
IDS = {"vocab_size": 40, "pad_id": 0, "start_id": 1, "eos_id": 2, "time_limit": 10_000}
TWO = IDS | {"src_pad_id": 0, "pad_id": 1, "start_id": 2, "eos_id": 3}
HEALTHY = [*({"style": style} for style in STYLES), *(fault for fault in FAULTS if fault["kind"] == "healthy")]
SICK = [fault for fault in FAULTS if fault["kind"] != "healthy"]
UNSEEN = {"tv_beams_mixed"}  # its beams are no worse than some search may be
BY_HEART = {"oo_stops_early"}  # only of texts that end at different places


def examined(fault, **how):
    torch.manual_seed(0)
    model, given = planted(fault).build()
    return checkup(model, **(TWO if fault["style"] == "two_vocabularies" else IDS), **given, **how)


@pytest.mark.parametrize("fault", [f for f in SICK if f["id"] not in UNSEEN], ids=lambda fault: fault["id"])
def test_a_fault_in_a_strangers_model_is_named(fault):
    parts = ["learning"] if fault["id"] in BY_HEART else parts_of(fault["code"])
    report = examined(fault, parts=parts, quick=True)
    assert fault["code"] in report.codes, report


@pytest.mark.slow
@pytest.mark.parametrize("fault", SICK, ids=lambda fault: fault["id"])
def test_the_whole_round_names_it_first(fault):
    report = examined(fault)
    if fault["id"] in UNSEEN:
        assert report.healthy
        return
    assert report.findings[0].code == fault["code"] or report.findings[0].severity == "doubtful", report
    assert fault["code"] in report.codes and report.cause(fault["code"]) is None, report


@pytest.mark.slow
@pytest.mark.parametrize("fault", HEALTHY, ids=lambda fault: fault.get("id", fault["style"]))
def test_no_healthy_stranger_is_called_sick(fault):
    report = examined(fault)
    assert report.healthy and not report.not_tried, report
