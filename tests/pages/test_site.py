"""How the web pages are made: each text has its place, and a lesson is made ready to be read without a kernel.

What comes out is tested by `make test-browser`, in tests/pages/browser/test_site.py.
"""

import json
import re
import runpy
import shutil
import sys
import tomllib
from fnmatch import fnmatch
from functools import cache
from typing import Any

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from packaging.requirements import Requirement

from tests import ROOT
from tests.lessons.address import colab_badge
from tests.lessons.stamp import SETUP_ID
from tests.nbclaims.cells import code_cells, read
from tests.pages.browser.test_lab import LIVE
from tests.pages.links import markdown_of, parse, walk
from tests.show.controls import CONTROLS
from tfm_lib.ask.quiz import mathml
from tfm_lib.commands import course
from tfm_lib.show.live import ON_PAGES

pytest.importorskip("sphinx", reason="the group `site` is not installed")
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
sys.path.append(str(ROOT / "docs"))
import pages  # noqa: E402


@cache
def conf() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/conf.py"))


def test_the_pages_know_their_address_once_the_repository_has_one(tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs/conf.py", tmp_path / "docs")
    (tmp_path / "pyproject.toml").write_text('[tool.course]\nrepository = "https://github.com/Ann-Lee/course"\n')
    settings = runpy.run_path(str(tmp_path / "docs/conf.py"))
    settings["generated"].cleanup()
    assert settings["html_baseurl"] == "https://ann-lee.github.io/course/"
    assert settings["myst_substitutions"]["course"] == "[the course](https://github.com/Ann-Lee/course)"
    assert settings["html_theme_options"]["source_repository"] == "https://github.com/Ann-Lee/course"


def test_every_lesson_and_every_text_of_docs_becomes_a_page_once_in_the_contents_of_the_first():
    from sphinx.util.matching import get_matching_files

    found = get_matching_files(ROOT, conf()["include_patterns"], conf()["exclude_patterns"])
    names = {name.removesuffix(".md").removesuffix(".ipynb") for name in found}
    wanted = [*LESSONS, *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"]
    wanted.append(ROOT / "benchmarks/training_on_toy_summaries/newsroom.md")
    assert len(LESSONS) >= 8 and {path.relative_to(ROOT).with_suffix("").as_posix() for path in wanted} <= names
    files = [ROOT / "docs" / name for name in ("index.md", "measured.md")]
    blocks = [block for file in files for block in file.read_text(encoding="utf-8").split("```{toctree}\n")[1:]]
    entries = [line for block in blocks for line in block.split("```")[0].splitlines() if line and line[0] != ":"]
    patterns = [entry.removeprefix("/") if entry[0] == "/" else f"docs/{entry}" for entry in entries]
    held = {name: [p for p in patterns if fnmatch(name, p)] for name in names - {conf()["root_doc"]}}
    assert {name: places for name, places in held.items() if len(places) != 1} == {}


def lesson(*cells: nbformat.NotebookNode, title: str = "# Title") -> list[nbformat.NotebookNode]:
    """What becomes of these cells in a lesson of that title: they, and all that the page says beside them."""
    book = new_notebook(cells=[new_markdown_cell(title), *cells])
    return pages.read_lesson(nbformat.writes(book)).cells


def picture(alt: str | None) -> nbformat.NotebookNode:
    about = {} if alt is None else {"image/png": {"alt": alt}}
    return new_output("display_data", {"image/png": "", "text/plain": "a picture"}, metadata=about)


def test_machinery_and_outputs_to_guess_are_folded_and_nothing_else():
    _, *cells = lesson(
        new_code_cell("# @title Set-up: nothing to do\nimport sys", id=SETUP_ID),
        new_code_cell('from tfm_lib.ask.quiz import quiz\n\nquiz("01_attention", opening=True)'),
        new_code_cell('quiz("01_attention", deeper=True)  # by tfm_lib.ask.quiz', metadata={"tags": ["kept"]}),
        new_code_cell("# @title Drawing\nfigure"),
        new_code_cell("print(1)", metadata={"tags": ["guess"]}),
        new_code_cell("from importlib.metadata import version"),
        new_code_cell("print(1)"),
    )
    assert cells.pop(3).source.startswith("### The same questions")
    quizzes = [["remove-input", "hide-output"], ["kept", "remove-input"]]
    tags = [["remove-cell"], *quizzes, ["hide-input"], ["guess", "hide-output"], ["remove-cell"], []]
    assert [cell.metadata["tags"] for cell in cells] == tags
    prompts = [cell.metadata["mystnb"].get("code_prompt_show") for cell in cells]
    opening, drawing = "Know this already? Three questions", "Show the code: drawing"
    assert prompts == [None, opening, None, drawing, "What do you expect? Open to see the {type}", None, None]
    assert [cell.source for cell in cells][3::3] == ["figure", "print(1)"]


def test_a_lesson_that_begins_with_text_shows_its_first_control_twice_and_one_that_has_a_picture_nothing_twice():
    def code(name: str, alt: str) -> nbformat.NotebookNode:
        return new_code_cell("shown", id=name, outputs=[picture(alt)])

    one, two = new_markdown_cell("## 1 One"), new_markdown_cell("## 2 Two")
    later = new_markdown_cell("## Second reading"), code("control-later", "later")
    title, said, look, *rest = lesson(one, code("it", "a picture"), two, code("control-it", "a control"), *later)
    assert title.source.startswith("# Title") and said.source == "*A first look, from the section “2 Two”:*"
    assert (look.id, look.metadata["tags"]) == ("first-control-it", ["remove-input"])
    assert look.outputs == rest[3].outputs and len(rest) == 6
    assert lesson(one, code("it", "a picture"), *later)[2].id == "first-it"
    assert len(lesson(code("where", "here"), one, code("it", "a picture"))) == 4


def test_what_speaks_of_cells_is_not_on_a_page_nor_that_questions_are_below():
    text = 'Read.\n\n<span class="cells">Run the cells\nby a key.</span> Look. Choose one.'
    [_, cell] = lesson(new_markdown_cell(f"{text} Or read them below, and unfold the answers."))
    assert cell.source == "Read.\n\nLook. Choose one."


def test_a_page_says_what_cannot_be_done_on_it_and_fetches_no_picture_from_the_web():
    run = "[run the lesson](../docs/index.md#run-the-lessons)"
    how, untried = f"To change the code, {run}", new_output("stream", text="○ Exercise 1 (one): not attempted yet.\n")
    assert lesson()[0].source == f"# Title\n\n*{how}.*"
    [timed] = lesson(title="# Title\n\n*Reading: a minute.*\n\nMore")
    assert timed.source == f"# Title\n\n*Reading: a minute. {how}.*\n\nMore"
    exercise = new_code_cell(
        "check()", metadata={"tags": ["exercise"]}, outputs=[untried, new_output("stream", text="1")]
    )
    told = lesson(new_markdown_cell("## Exercises\n\nSolve."), exercise, new_code_cell("import it\n\nprogress()"))
    assert told[0].source == f"# Title\n\n*To change the code and do the exercises, {run}.*"
    assert told[1].source == f"## Exercises\n\n*On this page you can read the tasks; to do them, {run}.* Solve."
    assert [one.text for one in told[2].outputs] == ["1"] and "remove-cell" in told[3].metadata["tags"]
    text = f"# Title\n\n{colab_badge('https://github.com/o/n', '01.ipynb')} ![here](../docs/a.png)"
    colab = "https://colab.research.google.com/github/o/n/blob/main/notebooks/01.ipynb"
    [title] = lesson(title=text)
    assert title.source.startswith(f"# Title\n\n[Open in Colab]({colab}) ![here](../docs/a.png)")
    assert title.source.endswith(f"{how} on your machine, or [in Colab]({colab}).*")


def test_no_line_of_a_text_ends_between_a_number_and_its_unit():
    kept = '<img alt="9 %"><pre>9 %</pre><code class="a">9 s</code><script>9 %</script><!-- claim: 1<9 % -->in 9 steps'
    context = {"body": f"<p>99.9 %, 3 MiB, 0.8<!-- claim: a > 1 --> s</p>{kept}"}
    pages.keep_units(None, "", "", context, None)
    assert context["body"] == f"<p>99.9\xa0%, 3\xa0MiB, 0.8<!-- claim: a > 1 -->\xa0s</p>{kept}"


def test_a_control_comes_after_its_picture_with_its_data_and_no_tag_ends_the_script():
    output = picture("It is turned.")
    output.data[ON_PAGES] = {"name": "turn", "data": '{"z": "</script>", "a": 1}', "weights": []}
    *_, cell = lesson(new_code_cell("turn()", id="control-it", outputs=[output]))
    html = cell.outputs[-1].data["text/html"]
    about = json.loads(re.search(r'<script type="application/json">(.*)</script>', html)[1])
    assert ON_PAGES not in cell.outputs[0].data and "image/png" in cell.outputs[0].data
    assert html.startswith('<div class="tfm-control" id="control-it"') and html.count("</script>") == 1
    assert about == {"name": "turn", "data": {"z": "</script>", "a": 1}, "weights": []}
    assert list(about["data"]) == ["z", "a"]  # in the order in which they were given


def test_every_control_is_known_by_the_name_of_its_cell():
    controls = {*LIVE} - {"control", "model_control", "live_curve", "quiz"}
    found: set[str] = set()
    for path in LESSONS:
        for cell in code_cells(read(path)):
            called = {cell.source.rstrip().split("\n")[-1].split("(")[0]} & controls
            found |= called
            named = cell.id.startswith("control-") and pages.alt_texts(cell) != []
            assert named == bool(called), f"{path.name}: {cell.id}"
    assert found == controls == {name.partition(",")[0] for name in CONTROLS}  # one may stand there in two ways


@pytest.mark.parametrize("alts", [[None], [""], ["one", "two"]])
def test_a_picture_carries_its_words_and_one_without_or_with_the_wrong_ones_is_refused(alts):
    cell = lesson(new_code_cell("fig", outputs=[new_output("stream", text="x"), picture("Weights sum to 1.")]))[1]
    assert cell.metadata["mystnb"] == {"image": {"alt": "Weights sum to 1."}}
    with pytest.raises(ValueError, match=r"cell fig shows pictures with the alt texts .*wanted one picture"):
        lesson(new_code_cell("fig", id="fig", outputs=[picture(alt) for alt in alts]))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_can_become_a_page(path):
    book = pages.read_lesson(path.read_text(encoding="utf-8"))
    assert any("hide-input" in cell.metadata.get("tags", []) for cell in book.cells)
    for source in markdown_of(path):
        for token in walk(parse(source)):
            if token["type"] in ("inline_math", "block_math"):
                mathml(token["raw"], token["type"] == "block_math")


def test_make_looks_for_what_the_groups_bring_and_publishes_what_it_writes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for group, modules in course.NEEDS.items():
        brought = {Requirement(need).name.removesuffix("-binary") for need in project["dependency-groups"][group]}
        brought -= {"pypdfium2"}  # for tests
        assert {name.replace("_", "-") for name in modules} == brought
    jobs = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text(encoding="utf-8"))["jobs"]
    steps = jobs["build"]["steps"]
    assert any(step.get("run", "").startswith("make site") for step in steps)
    [upload] = [step for step in steps if "upload-pages-artifact" in step.get("uses", "")]
    assert upload["with"] == {"path": "site"} and jobs["publish"]["needs"] == "build"


def test_the_command_says_what_conda_does_not_bring(monkeypatch):
    monkeypatch.setattr(course, "enter_clone", lambda: None)
    monkeypatch.setattr(course, "find_spec", lambda name: None)
    for command, groups in ((course.site, "--group site"), (course.slides, "--group site --group paper")):
        with pytest.raises(ValueError, match=f"needs more than conda brings: uv pip install --python .* {groups}$"):
            command()
