"""The tests notice when the package is broken by chance, anywhere in what is taught."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forks, which Windows does not have")
@pytest.mark.slow
def test_of_200_mutants_drawn_by_chance_the_tests_kill_nineteen_in_twenty():
    command = [sys.executable, str(HERE / "mutants.py"), "200", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[1])
    assert done.returncode == 0 and "of 200 mutants killed" in done.stdout, done.stdout + done.stderr
