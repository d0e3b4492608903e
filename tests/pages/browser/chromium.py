"""The browser that the tests marked `browser` drive."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

INSTALL = "python -m playwright install --with-deps chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Playwright's own Chromium or, where it is not installed, the system's, without a window.

    Raises FileNotFoundError where there is neither: these tests are not skipped.
    """
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = own if Path(own).exists() else shutil.which("chromium") or shutil.which("google-chrome")
        if path is None:
            raise FileNotFoundError(f"no Chromium: there is none at {own}, nor on the PATH; install it by `{INSTALL}`")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])  # it reads our pages only
        yield browser
        browser.close()
