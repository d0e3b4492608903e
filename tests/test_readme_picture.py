"""The README's picture is the drawing that the lessons show."""

import pytest

from tests.proof.environment import ROOT, why_not_compared
from tfm_lib.drawings import architecture


@pytest.mark.skipif(bool(why_not_compared()), reason="pixels are compared in the locked environment only")
def test_the_picture_is_what_the_code_draws():
    path = ROOT / "docs" / "architecture.png"
    drawn = architecture().png()
    assert path.read_bytes() == drawn, "write architecture().png() to docs/architecture.png"
