"""What others get of the repository: its last commit."""

import subprocess
from pathlib import Path

from tests import ROOT


def checkout(course: Path) -> None:
    """The files of the last commit, in a new folder."""
    course.mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=course, input=files, check=True)


def publish(course: Path) -> None:
    """A repository with the last commit alone: from a clone that was cut short, as in CI, pip would clone forever."""
    checkout(course)
    someone = "-c user.name=someone -c user.email=someone -c commit.gpgsign=false"
    for command in ("init --quiet", "add --all --force", f"{someone} commit --quiet --message course"):
        subprocess.run(["git", *command.split()], cwd=course, check=True)
