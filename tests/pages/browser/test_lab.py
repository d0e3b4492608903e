"""The lessons in JupyterLab in a real browser: every cell runs, every knob moves by keyboard, and the quiz explains."""

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
from urllib.parse import quote, urlparse

import pytest
import requests
from nbformat import NotebookNode

from tests.nbclaims import cells
from tests.pages.browser.reader import words
from tests.show.controls import turn_every_knob
from tests.times import HUNG
from tfm_lib.ask.progress_file import NOWHERE, QUIZZES, load
from tfm_lib.ask.questions import read_lesson
from tfm_lib.commands.lab import FOLDER, ROOT, add_lessons
from tfm_lib.show.live import VIEW

pytestmark = pytest.mark.browser
NAMES = [path.stem for path in sorted(FOLDER.glob("*.ipynb"))]
STARTING, RUNNING, ANSWERING = HUNG, HUNG, 300  # seconds to wait for JupyterLab, for a lesson, for an answer
# All cells are in the page, also those out of sight.
SETTINGS = "config/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
# The functions of the package that return something live; a cell that calls one shows a control.
PACKAGE = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tfm_lib/**/*.py"))
LIVE = re.findall(r"^def (\w+)\((?:.*|\n(?: .*\n)+)\) -> Live\w*:", PACKAGE, re.MULTILINE)
assert {"quiz", "architecture_control"} < {*LIVE} and len(LIVE) > 12
# Cells wait with a star for their turn; after an error the others lose theirs, and stay without a number.
RAN = """() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputArea-prompt")].map(p => p.textContent);
    return prompts.length && /[0-9]/.test(prompts[0]) && !prompts.some(p => p.includes("*"));
}"""
# Whether a heading of that text is on the screen.
IN_VIEW = """text => [...document.querySelectorAll(".jp-NotebookPanel h2")].some(heading => {
    const {top, bottom, height} = heading.getBoundingClientRect();
    return heading.innerText.startsWith(text) && height > 0 && top >= 0 && bottom <= innerHeight;
})"""
UNFOLD = ".jp-NotebookPanel:visible .jp-showHiddenCellsButton:visible"  # under the heading of a folded section


class Lab(NamedTuple):
    """A running JupyterLab and the folder with its copies of the lessons."""

    url: str
    token: str
    folder: Path

    def ask(self, path: str, method: str = "GET") -> requests.Response:
        """What its server answers."""
        return requests.request(method, f"{self.url}/api/{path}?token={self.token}", timeout=ANSWERING)

    def answers(self) -> bool:
        try:
            return self.ask("status").ok
        except requests.ConnectionError:
            return False


def watched(file: Path) -> dict[str, str]:
    """Variables with which a Python, and what it starts, notes its connections to other machines in that file."""
    return {"PYTHONPATH": str(Path(__file__).with_name("watch")), "TFM_CONNECTIONS": str(file)}


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    """JupyterLab as `make lab` starts it, on copies, with nothing of the settings of whoever runs the tests."""
    home, token = tmp_path_factory.mktemp("lab"), secrets.token_hex()
    add_lessons(home / "lessons")
    (home / SETTINGS).parent.mkdir(parents=True)
    (home / SETTINGS).write_text('{"windowingMode": "none"}')
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    settings = {name: str(home / place) for name, place in places.items()} | {"JUPYTER_TOKEN": token, NOWHERE: ""}
    settings |= watched(home / "connections")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tfm_lib", "lab", "--dir", str(home / "lessons"), "--"]
    command += ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=log, stderr=subprocess.STDOUT)
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


@pytest.fixture
def page(browser, lab) -> Iterator:
    """A tab of its own for each lesson, whose kernel ends with it; it may ask nobody but JupyterLab."""
    asked: list[str] = []
    with browser.new_context(viewport={"width": 1300, "height": 2500}) as context:
        context.on("request", lambda request: asked.append(request.url))
        context.set_default_timeout(1000 * STARTING)
        yield context.new_page()
    for kernel in lab.ask("kernels").json():
        lab.ask(f"kernels/{kernel['id']}", "DELETE")
    connections = lab.folder.parent / "connections"
    assert [url for url in asked if not url.startswith((lab.url, "data:", "blob:"))] == []
    assert not connections.exists() or connections.read_text() == ""


def test_a_connection_would_be_seen(tmp_path):
    """To an address that is nobody's, by RFC 5737, and to this machine."""
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"  # as a lab starts a kernel
    for how, seen in (
        ("connect_ex(('127.0.0.1', 9))", False),
        ("sendto(b'', ('127.0.0.1', 9))", False),
        ("settimeout(0.01) or s.connect_ex(('192.0.2.1', 9))", True),
    ):
        code = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.{how}"
        subprocess.run([sys.executable, "-c", program, code], env=os.environ | watched(tmp_path / "found"), check=True)
        assert (tmp_path / "found").exists() is seen
    assert "socket.connect 192.0.2.1 9" in (tmp_path / "found").read_text()


def open_notebook(page, lab: Lab, path: str) -> None:
    page.goto(f"{lab.url}/lab/tree/{quote(path)}?token={lab.token}&reset")
    page.locator(".jp-NotebookPanel:visible").wait_for()
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()  # else it would ask for a kernel, and run none


def run_first_cell(page, code: str) -> None:
    page.locator(".jp-NotebookPanel:visible .jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code)
    page.keyboard.press("Control+Enter")


def test_a_first_start_is_calm(page, lab):
    """One line is printed; no popup covers the lesson, no name is cut off, and nothing says that it is unsaved."""
    page.set_viewport_size({"width": 1280, "height": 800})
    open_notebook(page, lab, f"{NAMES[0]}.ipynb")
    page.wait_for_timeout(5000)  # news would be offered, and the kernel would write into the file
    assert page.locator(".Toastify__toast, .jp-Dialog, .jp-mod-dirty").count() == 0
    names = page.locator(".jp-DirListing-itemText")
    assert names.count() >= len(NAMES)
    assert names.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)") == []
    log = (lab.folder.parent / "log").read_text().splitlines()
    assert [line.partition(" http")[0] for line in log] == ["The lessons are open at"], log


CHECKED = """from tfm_lib.ask.checks import check
from tfm_lib.ask.progress import progress
check("attention.crowd", 3)
progress()"""


def test_a_verdict_and_progress_lead_to_the_exercise(page, lab):
    open_notebook(page, lab, f"{NAMES[0]}.ipynb")
    run_first_cell(page, CHECKED)
    verdict, progress = (
        page.locator(".jp-OutputArea-output").filter(has_text=text).first for text in ("not right yet", "all lessons:")
    )
    link = "Exercise 1 (one word in a crowd)"
    verdict.get_by_role("link", name=link).wait_for()
    assert verdict.locator("b").first.evaluate("e => getComputedStyle(e).color") == "rgb(209, 69, 59)"
    progress.get_by_role("link", name=link).click()
    page.locator(".jp-NotebookPanel:visible").get_by_role("heading", name="Exercise 1: one word in a crowd").wait_for()


def test_a_lesson_link_of_a_control_leads_beside_its_notebook_after_a_reload_too(page, lab):
    """JupyterLab's address then names a folder, and a relative link would miss the lessons."""
    (lab.folder / "sub folder").mkdir(exist_ok=True)
    cells.write(lab.folder / "sub folder/own.ipynb", cells.notebook(cells.code("")))
    open_notebook(page, lab, "sub folder/own.ipynb")
    run_first_cell(page, "from tfm_lib.show.machine import machine\nmachine()")
    link = page.locator(".tfm-machine a.tfm-lesson", has_text="lesson 07").first
    link.wait_for()
    page.evaluate("history.replaceState(null, '', '/lab/tree/elsewhere')")
    with page.context.expect_page() as opened:
        link.click()
    assert urlparse(opened.value.url).path == f"/lab/tree/sub%20folder/{NAMES[7]}.ipynb"
    opened.value.close()


def live_calls(run: list[NotebookNode]) -> list[tuple[int, str, str]]:
    """Each call that shows something live: its cell's number, the function, and the line from there on."""
    calls = (re.search(rf"\b({'|'.join(LIVE)})\(.*", cell.source) for cell in run)
    return [(number, call[1], call[0]) for number, call in enumerate(calls) if call]


def run_and_save(page, lab: Lab, lesson: str) -> None:
    """Open a lesson, run all its cells, and save it, as a reader does."""
    file = lab.folder / f"{lesson}.ipynb"
    before = file.stat().st_mtime_ns
    open_notebook(page, lab, file.name)
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
    page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
    page.wait_for_function(RAN, timeout=1000 * RUNNING, polling=200)
    while page.locator(UNFOLD).count():  # the second reading ran as well
        page.locator(UNFOLD).first.click()
    page.locator(".lm-MenuBar-itemLabel", has_text="File").click()
    page.locator(".lm-Menu-item[data-command='docmanager:save']").click()
    page.locator(".jp-mod-dirty").first.wait_for(state="detached")
    end = time.monotonic() + ANSWERING
    while file.stat().st_mtime_ns == before or not file.read_text(encoding="utf-8").endswith("}\n"):  # half written
        assert time.monotonic() < end, "it was not saved"
        page.wait_for_timeout(100)


def answer(cell, questions, file: Path, quiz: str) -> None:
    """Choose the right answer to each question by keyboard: they are stored beside the lesson, and shown again."""
    from playwright.sync_api import expect

    expect.set_options(timeout=1000 * ANSWERING)
    right = [next(choice.letter for choice in question.choices if not choice.why_not) for question in questions]
    rows = cell.locator(".tfm-control fieldset")
    expect(rows).to_have_count(len(questions))
    for place, letter in enumerate(right):
        rows.nth(place).locator("button", has_text=re.compile(rf"^{letter}\b")).press("Enter")
        expect(rows.nth(place).locator("[aria-live]")).to_contain_text(f"{letter} is right.")
    end = time.monotonic() + ANSWERING  # the kernel hears of a choice only when it is done with the one before
    while load(file).get(quiz) != dict(zip((question.key for question in questions), right, strict=True)):
        assert time.monotonic() < end, load(file)
        cell.page.wait_for_timeout(100)
    cell.locator(".tfm-control").evaluate("before => { before.dataset.before = true; }")
    cell.locator(".cm-content").press("ControlOrMeta+Enter")
    score = re.compile("{0} of {0} right".format(len(questions)))
    expect(cell.locator(".tfm-control:not([data-before]) [role=status]")).to_have_text(score)


@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_runs_and_its_controls_answer(page, lab, lesson):
    run_and_save(page, lab, lesson)
    cells_run = cells.code_cells(cells.read(lab.folder / f"{lesson}.ipynb"))
    outputs = [output for cell in cells_run for output in cell.outputs]
    assert [f"{o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"] == []
    assert [o.text for o in outputs if o.get("name") == "stderr"] == []
    assert all(cell.execution_count for cell in cells_run) and VIEW not in str(outputs)
    shown = page.locator(".jp-NotebookPanel:visible .jp-CodeCell")
    assert shown.count() == len(cells_run)
    questions = read_lesson(FOLDER / f"{lesson}.ipynb")
    for number, function, call in live_calls(cells_run):
        cell = shown.nth(number)
        if function == "quiz":
            part = next((part for part in ("opening", "deeper") if f"{part}=True" in call), "spine")
            answer(cell, getattr(questions, part), lab.folder / QUIZZES, f"{lesson} {part}")
        elif function == "live_curve":  # it says how far the run came, to its end
            assert re.match(r"Step (\d+) of \1:", words(cell)), words(cell)
        else:
            root = cell.locator(".tfm-control")
            root.scroll_into_view_if_needed()
            turn_every_knob(root)


def folded_lesson(title: str, *links: str):
    """A long lesson with links on top and, at its end, a folded section with a cell that was never run."""
    text = [cells.markdown(f"Text {n}.\n\n" + "More of it.\n\n" * 9) for n in range(9)]
    deeper, below = cells.markdown("## Deeper: what it costs"), cells.markdown("### Below")
    deeper.metadata["jp-MarkdownHeadingCollapsed"] = True
    drawn = cells.code("# @title Drawing\nprint(6 * 7)")
    drawn.metadata["jupyter"] = {"source_hidden": True}
    head = cells.markdown(f"# {title}\n\n{' '.join(links)}")
    return cells.notebook(
        head, cells.code("1"), *text, deeper, below, drawn, cells.markdown("## Last"), cells.code("2")
    )


def test_links_of_a_copy_reach_folded_sections_and_run_all_runs_them(page, lab, tmp_path):
    own, other = "[own](#deeper-what-it-costs)", "[other](98_other.ipynb#last)"
    cells.write(tmp_path / "97_own.ipynb", folded_lesson("97 · Own", own, other))
    cells.write(tmp_path / "98_other.ipynb", folded_lesson("98 · Other"))
    add_lessons(lab.folder, tmp_path)
    page.set_viewport_size({"width": 1300, "height": 900})
    open_notebook(page, lab, "97_own.ipynb")
    panel = page.locator(".jp-NotebookPanel:visible")
    assert not page.evaluate(IN_VIEW, "Deeper: what it costs")
    panel.get_by_role("link", name="own").click()
    page.wait_for_function(IN_VIEW, arg="Deeper: what it costs")
    assert not panel.locator("h3", has_text="Below").is_visible()
    run_and_save(page, lab, "97_own")
    assert cells.code_cells(cells.read(lab.folder / "97_own.ipynb"))[1].outputs[0].text == "42\n"
    assert panel.locator(".jp-Placeholder-contentContainer", has_text="Drawing").count() == 1, "code stays folded"
    for _ in range(2):  # with all cells in the page, JupyterLab scrolls only in a notebook that is open already
        page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="97_own").click()
        panel.get_by_role("link", name="other").click()
        page.locator(".jp-NotebookPanel:visible h1", has_text="98 · Other").wait_for()
    page.wait_for_function(IN_VIEW, arg="Last")


def test_shift_enter_passes_a_folded_section_where_it_stands(page, lab):
    """Its cells become active one after the other, and without a place on the page they would throw it to its top."""
    book = folded_lesson("96 · Folded")
    book.cells[-4:-3] = [cells.markdown(f"Folded {n}") for n in range(3)]  # in place of a heading, which would unfold
    cells.write(lab.folder / "96_folded.ipynb", book)
    page.set_viewport_size({"width": 1300, "height": 900})
    open_notebook(page, lab, "96_folded.ipynb")
    page.locator(".jp-NotebookPanel:visible h2", has_text="Deeper: what it costs").click()
    for n in range(3):
        page.keyboard.press("Shift+Enter")
        page.locator(".jp-Cell.jp-mod-active", has_text=f"Folded {n}").wait_for(state="attached")
        page.wait_for_timeout(300)  # for it to scroll
        assert page.evaluate(IN_VIEW, "Deeper: what it costs")
        assert not page.locator("p", has_text=f"Folded {n}").is_visible()
