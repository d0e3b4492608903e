"""Runs the items of a notebook in this process."""

from tests.nbclaims.tests.conftest import run  # noqa: F401 (a fixture)
