"""The lessons in JupyterLab in a real browser: every cell runs, controls move by keyboard, and the quiz explains.

Where the environment variable SCREENSHOTS names a folder, pictures of each lesson are left there.
"""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tfm_lib.lab import LESSONS, ROOT, add_lessons
from tfm_lib.live import VIEW
from tfm_lib.questions import read_lesson

pytestmark = pytest.mark.browser
NAMES = [path.stem for path in sorted(LESSONS.glob("*.ipynb"))]
WINDOW = {"width": 1300, "height": 2500}
STARTING, RUNNING, ANSWERING = 120, 420, 30  # seconds to wait for JupyterLab and a kernel, for a lesson, for a control
# All cells are in the page, also those out of sight; and nobody is asked whether to fetch news.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The functions of the package that return something live; a cell that ends in a call of one shows a control.
LIVE = re.findall(r"^def (\w+)\(.*\) -> Live:", "".join(p.read_text() for p in ROOT.glob("tfm_lib/*.py")), re.MULTILINE)
# Cells wait with a star for their turn; after an error the others lose theirs, and stay without a number.
RAN = """() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputArea-prompt")].map(p => p.innerText);
    return prompts.length && /[0-9]/.test(prompts[0]) && !prompts.some(p => p.includes("*"));
}"""


class Lab(NamedTuple):
    """A running JupyterLab and the folder with its copies of the lessons."""

    url: str
    token: str
    folder: Path

    def ask(self, path: str, method: str = "GET") -> bytes:
        """What its server answers."""
        with urlopen(Request(f"{self.url}/api/{path}?token={self.token}", method=method), timeout=30) as answer:
            return answer.read()

    def answers(self) -> bool:
        try:
            return bool(self.ask("status"))
        except URLError:
            return False

    def shut_kernels(self) -> None:
        for kernel in json.loads(self.ask("kernels")):
            self.ask(f"kernels/{kernel['id']}", "DELETE")


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    """JupyterLab as `make lab` starts it, on copies, with nothing of the settings of whoever runs the tests."""
    home, token = tmp_path_factory.mktemp("lab"), secrets.token_hex()
    add_lessons(home / "lessons")
    for name, settings in SETTINGS.items():
        file = home / f"config/lab/user-settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    own = {name: str(home / place) for name, place in places.items()} | {"JUPYTER_TOKEN": token}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tfm_lib", "lab", "--dir", str(home / "lessons"), "--"]
    command += ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT)
    running = Lab(f"http://127.0.0.1:{port}", token, home / "lessons")
    try:
        end = time.monotonic() + STARTING
        while not running.answers():
            if process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"JupyterLab did not start:\n{(home / 'log').read_text()}")
            time.sleep(0.2)
        yield running
    finally:
        process.terminate()  # it ends its kernels, too
        process.wait(30)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from tests.browser import chromium  # here, since the other tests are collected where there is no Playwright

    with chromium() as running:
        yield running


@pytest.fixture
def page(browser, lab) -> Iterator:
    """A tab of its own for each lesson, whose kernel ends with it; it may ask nobody but JupyterLab."""
    asked = []

    def ask(route) -> None:
        if route.request.url.startswith((lab.url, "data:", "blob:")):
            return route.continue_()
        asked.append(route.request.url)
        return route.abort()

    with browser.new_context(viewport=WINDOW) as context:
        context.route("**/*", ask)
        context.set_default_timeout(1000 * STARTING)
        yield context.new_page()
    lab.shut_kernels()
    assert asked == []


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def last_line(cell: dict) -> str:
    return cell["source"][-1] if cell["source"] else ""


def run_and_save(page, lab: Lab, lesson: str) -> None:
    """Open a lesson, run all its cells, and save it, as a reader does."""
    file = lab.folder / f"{lesson}.ipynb"
    before = file.stat().st_mtime_ns
    page.goto(f"{lab.url}/lab/tree/{file.name}?token={lab.token}&reset")
    page.locator(".jp-NotebookPanel:visible").wait_for()
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()  # else it would ask for a kernel, and run none
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
    page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
    page.wait_for_function(RAN, timeout=1000 * RUNNING, polling=200)
    page.locator(".lm-MenuBar-itemLabel", has_text="File").click()
    page.locator(".lm-Menu-item[data-command='docmanager:save']").click()
    page.locator(".jp-mod-dirty").first.wait_for(state="detached")
    assert file.stat().st_mtime_ns > before, "it was not saved"


def press(page, knob, key: str, picture) -> None:
    """Press a key on a knob, and wait for another picture."""
    from playwright.sync_api import expect

    before = picture.get_attribute("src")
    knob.focus()
    page.keyboard.press(key)
    expect(picture, f"{key} changes the picture").not_to_have_attribute("src", before, timeout=1000 * ANSWERING)
    expect(picture).not_to_have_js_property("naturalWidth", 0)


def move_knobs(page, cell) -> int:
    """Move every slider of a control and turn every switch; one without any has buttons that write a word."""
    picture = cell.locator("img")
    assert picture.count() == 1, "the live picture alone, not the stored one beside it"
    sliders, switches = cell.locator(".noUi-handle").all(), cell.locator("input[type=checkbox]").all()
    for slider in sliders:
        at, end = slider.get_attribute("aria-valuenow"), slider.get_attribute("aria-valuemax")
        press(page, slider, "ArrowLeft" if at == end else "ArrowRight", picture)
    for switch in switches:
        press(page, switch, "Space", picture)
    words = [] if sliders or switches else cell.locator("button[title^='Write ']").all()[:1]
    for word in words:
        press(page, word, "Space", picture)
    return len(sliders + switches + words)


def words_of(markdown: str) -> str:
    """A piece of it that a page shows as it stands: the longest without any mark or formula."""
    return max(re.findall(r"[\w ,.;]+", re.sub(r"\$.*?\$", "$", markdown)), key=len).strip()


def answer_first_question(cell, question) -> None:
    """Choose a wrong answer and then the right one; both must be explained."""
    from playwright.sync_api import expect

    wrong = next(choice for choice in question.choices if choice.why_not)
    right = next(choice for choice in question.choices if not choice.why_not)
    for choice, said, why in ((wrong, "is not it.", wrong.why_not), (right, "is right.", question.answer)):
        cell.locator(f"button[title='Choose {choice.letter}']").first.click()
        comment = cell.locator(".widget-htmlmath:visible", has_text=f"{choice.letter} {said}")
        expect(comment).to_contain_text(words_of(why), timeout=1000 * ANSWERING)
    expect(cell).to_contain_text("1 of ")
    assert "\\(" not in cell.inner_text(), "a formula is not drawn"


def take_pictures(page, folder: Path, lesson: str) -> None:
    """The whole lesson, a screen at a time."""
    lessons = page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer")
    height, screen = lessons.evaluate("element => [element.scrollHeight, element.clientHeight]")
    for number, top in enumerate(range(0, height, screen), start=1):
        lessons.evaluate("(element, top) => element.scrollTo({top, behavior: 'instant'})", top)
        lessons.screenshot(path=folder / f"{lesson}_{number:02}.png")


@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_runs_and_its_controls_answer(page, lab, tmp_path, lesson):
    run_and_save(page, lab, lesson)
    try:
        saved = code_cells(lab.folder / f"{lesson}.ipynb")
        outputs = [output for cell in saved for output in cell["outputs"]]
        assert [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"] == []
        assert all(cell["execution_count"] for cell in saved) and VIEW not in str(outputs)
        shown = page.locator(".jp-NotebookPanel:visible .jp-CodeCell")
        assert shown.count() == len(saved)
        live = {n: cell for n, cell in enumerate(saved) if re.match(rf"({'|'.join(LIVE)})\(", last_line(cell))}
        quizzes = [n for n, cell in live.items() if last_line(cell).startswith("quiz(")]
        answer_first_question(shown.nth(quizzes[0]), read_lesson(LESSONS / f"{lesson}.ipynb").opening[0])
        for number in live.keys() - set(quizzes):
            assert move_knobs(page, shown.nth(number)) > 0, last_line(live[number])
    finally:
        take_pictures(page, Path(os.environ.get("SCREENSHOTS") or tmp_path), lesson)
