"""The tests notice when the package is broken: by hand, in places that matter, and by chance, anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, mutated

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutations run in forks, which Windows does not have")
HERE = Path(__file__).parent


def run(script: str, *arguments: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, cwd=HERE.parent
    )
    print(done.stdout)
    return done


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_still_breaks_what_it_names(mutation):
    """A change to the package shows at once which mutations it outdates; `make test-slow` says which are caught."""
    compile(mutated(mutation), mutation.module, "exec")
    assert (HERE / f"{mutation.tests}.py").is_file()


@forks
@pytest.mark.slow
def test_every_mutation_is_caught():
    done = run("mutations.py")
    assert done.returncode == 0 and done.stdout.count("caught  ") == len(MUTATIONS), done.stdout + done.stderr


@forks
@pytest.mark.slow
def test_of_200_mutants_drawn_by_chance_the_tests_kill_nineteen_in_twenty():
    done = run("mutants.py", "200", "0")
    assert done.returncode == 0 and "of 200 mutants killed" in done.stdout, done.stdout + done.stderr
