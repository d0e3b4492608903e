"""A reader's eyes and hands on a control: what it shows, what it says, and its knobs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.show.controls import LAPTOP, PHONE

on_both_screens = pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
NOT_READ = [("", 0), ("fire " * 73, 73)]  # stories that no model reads, and their tokens
on_both_screens_and_schemes = pytest.mark.parametrize(
    ("viewport", "scheme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"]
)


@contextmanager
def alone(browser: Any, host: str = "file:", **options: Any) -> Iterator[Any]:
    """A context of the browser; a question to anybody but the host, and any error in a page, fails the test."""
    asked, errors = list[str](), list[str]()
    with browser.new_context(**options) as context:
        context.on("request", lambda request: asked.append(request.url))
        context.on("weberror", lambda error: errors.append(str(error.error)))
        context.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        yield context
    assert asked and [url for url in asked if not url.startswith((host, "data:", "blob:", "about:"))] == errors == []


def shown(root: Any) -> dict[str, Any]:
    """What it has computed."""
    return root.evaluate("root => root.shown")


def words(root: Any) -> str:
    return root.locator(".tfm-words").inner_text().replace("\N{NO-BREAK SPACE}", " ")


def note(root: Any) -> str:
    return root.locator(".tfm-note").inner_text()


def pick(root: Any, label: object, name: str = "") -> None:
    """One of a few choices, by its label, and by the name of the group if several have that label."""
    group = root.get_by_role("radiogroup", name=name) if name else root
    group.get_by_label(str(label), exact=True).check(force=True)


def near(found: Any, expected: Tensor, atol: float = 1e-4, about: str = "") -> None:
    """What a control has computed is what torch computes, (...)."""
    numbers = torch.as_tensor(found, dtype=expected.dtype)
    torch.testing.assert_close(numbers, expected, rtol=0, atol=atol, msg=lambda difference: f"{about} {difference}")


def slide(root: Any, *places: int) -> dict[str, Any]:
    """Move each slider to its place; what is shown then."""
    for slider, place in zip(root.locator("input[type=range]").all(), places, strict=True):
        slider.fill(str(place))
    return shown(root)


def type_story(root: Any, text: str) -> None:
    root.locator("textarea").fill(text)


def middle(element: Any) -> tuple[float, float]:
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(root: Any, start: tuple[float, float], *path: tuple[float, float]) -> None:
    """Press the mouse at a place of the page, move it over others, and let it go."""
    mouse = root.page.mouse
    mouse.move(*start)
    mouse.down()
    for place in path:
        mouse.move(*place, steps=4)
    mouse.up()


def violations(page: Any, **options: Any) -> list[tuple[str, str, str]]:
    """What axe-core finds on a page that keeps people from reading: rule, what helps, and the element as HTML."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [(one["id"], one["help"], node["html"][:200]) for one in found for node in one["nodes"]]


def too_wide(page: Any, viewport: dict) -> bool:
    return page.evaluate("document.documentElement.scrollWidth") > viewport["width"]


def pictures(tmp_path: Path) -> Path:
    """Where pictures and tables of times go: the folder that SCREENSHOTS names, or one that the test throws away."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
