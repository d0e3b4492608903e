"""Style, types and workflows, as `make lint` has them checked: with the locked versions of the tools."""

import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.nbclaims.environment import why_not_compared

COMMANDS = [
    "ruff check",
    "ruff format --check",
    "mypy tfm_lib",
    "jactionlint --profile correctness --shellcheck= --pyflakes=",  # all that GitHub itself would refuse, and no taste
]
# Where the clone is read-only, the tools write nothing.
READ_ONLY = {} if os.access(ROOT, os.W_OK) else {"RUFF_NO_CACHE": "true", "MYPY_CACHE_DIR": os.devnull}


@pytest.mark.skipif(bool(why_not_compared()), reason="other versions find other things than those of the lock")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_tool_finds_nothing(command):
    found = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, env=os.environ | READ_ONLY, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
