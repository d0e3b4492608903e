"""The tests notice when the package is broken: by hand, in places that matter, and by chance, anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations import MUTATIONS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutations run in forks, which Windows does not have")
HERE = Path(__file__).parent


def run(script: str, *arguments: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, cwd=HERE.parent
    )
    print(done.stdout)
    return done


def test_a_few_mutations_of_every_module_are_caught():
    done = run("mutations.py", "--sample")
    assert done.returncode == 0 and done.stdout.count("caught  ") == 30, done.stdout + done.stderr


@pytest.mark.slow
def test_every_mutation_is_caught():
    done = run("mutations.py")
    assert done.returncode == 0 and done.stdout.count("caught  ") == len(MUTATIONS), done.stdout + done.stderr


@pytest.mark.slow
def test_of_200_mutants_drawn_by_chance_the_tests_kill_nineteen_in_twenty():
    done = run("mutants.py", "200", "0")
    assert done.returncode == 0 and "of 200 mutants killed" in done.stdout, done.stdout + done.stderr
