"""What the browser tests share: a browser, and controls in tabs of their own."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browser.reader import alone
from tests.show.controls import LAPTOP, write_page
from tfm_lib.show.live import Live

INSTALL = "python -m playwright install --with-deps chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Playwright's own Chromium or, where it is not installed, the system's, without a window.

    Raises FileNotFoundError where there is neither: these tests are not skipped.
    """
    from playwright.sync_api import sync_playwright  # here, since other tests are collected where there is none

    with sync_playwright() as playwright:
        file = playwright.chromium.executable_path
        path = file if Path(file).exists() else shutil.which("chromium") or shutil.which("google-chrome")
        if path is None:
            raise FileNotFoundError(f"no Chromium: there is none at {file}, nor on the PATH; install it by `{INSTALL}`")
        with playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]) as chromium:  # our pages only
            yield chromium


@pytest.fixture
def show(browser, tmp_path) -> Iterator[Callable[..., Any]]:
    """Opens a control (a Locator) in a tab of its own, which asks nobody, until the test ends."""
    with ExitStack() as tabs:

        def open_tab(live: Live, viewport: dict = LAPTOP, scheme: str = "light", **options: Any) -> Any:
            options |= {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce"}
            page = tabs.enter_context(alone(browser, **options)).new_page()
            page.goto(write_page(tmp_path, live).as_uri())
            page.wait_for_function("document.querySelector('.tfm-control').shown")
            return page.locator(".tfm-control")

        yield open_tab
