"""Each lesson under each rounding: every cell runs, every claim holds, and no strict cell shows anything else.

Slow. `make test-slow LESSON=04` takes one lesson; what is known from an earlier run is not run again.
"""

import os
from pathlib import Path

import pytest

from tests.proof.environment import ROOT, ROUNDINGS, why_not_compared
from tests.proof.roundings import outcome

LESSON = os.environ.get("LESSON", "")
LESSONS = sorted((ROOT / "notebooks").glob(f"{LESSON.zfill(2)}_*.ipynb" if LESSON else "*.ipynb"))


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not_compared()), reason="outputs are compared in the locked environment only")
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_holds_under_every_rounding(lesson: Path, rounding: str, record_property):
    found = outcome(lesson, rounding)
    record_property("rounding", f"{lesson.stem} under {rounding} ({found.instructions})")
    for cell in found.loose:
        record_property("changed", f"loose {cell}")
    assert not found.failed
    assert not found.strict, "\n".join(found.strict)
    assert not found.claims, "\n".join(found.claims)
