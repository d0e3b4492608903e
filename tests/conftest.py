"""What several test files share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """The browser of the tests that are marked so."""
    from tests.pages.browser.chromium import (
        chromium,  # here, since the other tests are collected where there is no Playwright
    )

    with chromium() as running:
        yield running
