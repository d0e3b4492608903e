"""Each lesson under each rounding: every cell runs, every claim holds, and no strict cell shows anything else.

`make test-slow` takes three roundings, `make test-weekly` the others, and `make test-slow LESSON=04` all six for one
lesson. What is known from an earlier run is not run again.
"""

import os

import pytest

from tests import ROOT
from tests.lessons.plugin import RANGE, ROUNDING
from tests.lessons.roundings import outcome
from tests.nbclaims.environment import ROUNDINGS, why_not_compared

LESSON = os.environ.get("LESSON", "")
LESSONS = sorted((ROOT / "notebooks").glob(f"{LESSON.zfill(2)}_*.ipynb" if LESSON else "*.ipynb"))
SLOW = ("default", "threads", "perturbed")
EACH = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else pytest.mark.weekly) for name in ROUNDINGS]


@pytest.mark.skipif(bool(why_not_compared()), reason="outputs are compared in the locked environment only")
@pytest.mark.parametrize("rounding", EACH)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_holds_under_every_rounding(lesson, rounding, record_property):
    found = outcome(lesson, rounding)
    changed = "; ".join(found.loose) or "none"
    record_property(ROUNDING, f"{lesson.stem}, {rounding} ({found.instructions}): loose cells that changed: {changed}")
    for part, numbers in found.ranges.items():
        record_property(RANGE, (f"{lesson.stem}, `{part}`", numbers))
    assert not found.faults, "\n".join(message for _, message, _ in found.faults)
