"""The tests notice when the package is broken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutations run in forks, which Windows does not have")
def test_every_mutation_is_caught():
    script = Path(__file__).with_name("mutations.py")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=script.parent.parent)
    missed = [line for line in run.stdout.splitlines() if line.startswith("MISSED")]
    assert not missed, "the tests don't notice:\n" + "\n".join(missed)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("caught  ") >= 25
