"""Plants each fault in a notebook, and sees the proof refuse it in words that help."""

import base64
import io
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbformat.v4 import output_from_msg
from PIL import Image

from tests.proof import anatomy, author, environment, folds, plugin, stamp
from tests.proof.cells import code, markdown, notebook, read, write
from tests.proof.claims import ClaimError, bounds, check_claim, operands
from tests.proof.lint import lint, prose_findings
from tests.proof.outputs import clean, difference, off_by_more_than_a_shade
from tests.proof.prose import sentences
from tests.times import HUNG
from tfm_lib.show.figure import Figure, style
from tfm_lib.show.live import ON_PAGES

ALT = "One red pixel."
FIGURE = """\
class Figure:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/png": pixel, "text/plain": alt}, {"image/png": {"alt": alt}}


Figure()"""


def png(color: str, compress_level: int = 6) -> str:
    file = io.BytesIO()
    Image.new("RGB", (9, 9), color).save(file, "PNG", compress_level=compress_level)
    return base64.b64encode(file.getvalue()).decode()


def output(kind: str, **content):
    return output_from_msg({"header": {"msg_type": kind}, "content": content})


def printed(text: str) -> list:
    return [output("stream", name="stdout", text=text)]


def figure(picture: str, alt: str = ALT) -> list:
    data = {"image/png": picture, "text/plain": alt}
    return [output("execute_result", data=data, metadata={"image/png": {"alt": alt}}, execution_count=3)]


def good_lesson():
    """A lesson as it should be, with outputs written by hand that a kernel has to repeat."""
    error = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["ZeroDivisionError"]}
    versions = code("import nbformat\nprint(nbformat.__version__)")
    book = notebook(
        markdown("# A lesson\n\nAfter it you can take a mean.\n\nFive minutes."),
        code("scores = [62, 64, 66]\nprint(scores)"),
        markdown("Their mean is 64.0<!-- claim: sum(scores) / len(scores) == 64 -->, as `0.5` and $0.5$ are not."),
        code(f"alt, pixel = {ALT!r}, {png('red')!r}\n{FIGURE}"),
        code("1 / 0", "raises-exception"),
        code("print(float('nan'))", "expects-nan"),
        versions,
    )
    stamp.stamp(book, "lesson.ipynb", stamp.repository())
    outputs = [[], printed("[62, 64, 66]\n"), figure(png("red")), [output("error", **error)], printed("nan\n")]
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    for count, (cell, shown) in enumerate(zip(cells, [*outputs, printed("0.1.0\n")], strict=True), start=1):
        cell.execution_count, cell.outputs = count, shown
    folds.fold(book)
    return book


def cell_with(book, text: str):
    return next(cell for cell in book.cells if text in cell.source)


def test_a_good_lesson_has_no_findings():
    assert lint(good_lesson()) == []


# ---- faults in the file: (what is planted, what the message says)


def unclaimed(book):
    cell_with(book, "Their mean").source += " The loss falls by 20 %."


def not_enclosing(book):
    cell = cell_with(book, "Their mean")
    cell.source = "Their mean is 65.0<!-- claim: 63 < sum(scores) / len(scores) < 64.5 -->."


def without_alt(book):
    cell_with(book, "Figure()").outputs[0].metadata = {}


def alt_not_in_text(book):
    cell_with(book, "Figure()").outputs[0].data["text/plain"] = "<Figure>"


def out_of_order(book):
    cell_with(book, "print(scores)").execution_count = 7


def number_in_caption(book):
    cell_with(
        book, "Figure()"
    ).source += "\nmessage = 'It is ' + f'{x}'\nmessage += 'a third of the whole.'\nFigure(message)"


def number_in_keyword(book):
    cell_with(book, "Figure()").source += "\nlearning_curve(history, caption=f'{x:.2f} is three times 0.25.')"


def many_bounds(book):
    cell_with(
        book, "Their mean"
    ).source += (
        " It is below 70<!-- claim (bound: a): len(scores) < 70 --> and 80<!-- claim (bound: b): len(scores) < 80 -->."
    )


def swapped(book):
    cell_with(book, "print(scores)").execution_count = 3
    cell_with(book, "Figure()").execution_count = 2


def not_executed(book):
    cell = cell_with(book, "print(scores)")
    cell.execution_count, cell.outputs = None, []


def unexpected_nan(book):
    cell_with(book, "print(scores)").outputs = printed("tensor([nan])")


def untagged_error(book):
    cell_with(book, "1 / 0").metadata = {}


def no_reason(book):
    cell_with(book, "print(scores)").metadata = {"tags": ["nbval-ignore-output"]}


def no_title(book):
    book.cells[0].source = "Hello"


def machine_path(book):
    cell_with(book, "print(scores)").outputs = printed("File \x1b[32m/home/ada/course/x.py")


def long_cell(book):
    cell_with(book, "print(scores)").source = "x = 1\n" * 26


def same_ids(book):
    book.cells[2].id = book.cells[0].id


def foreign_metadata(book):
    book.metadata["widgets"] = {}


def timestamps(book):
    book.cells[2].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}


def unknown_tag(book):
    cell_with(book, "1 / 0").metadata = {"tags": ["raises-exceptoin", "raises-exception"]}


def changed_setup(book):
    cell_with(book, "find_spec").source += "\nprint('hello')"


def picture_without_alt(book):
    cell_with(book, "Their mean").source += " ![](drawing.svg)"


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (unclaimed, "'20 %' is measured, and no claim checks it: 'The loss falls by 20 %.'"),
        (not_enclosing, "does not enclose the number of its sentence (65.0)"),
        (without_alt, "shows a figure without alt text"),
        (alt_not_in_text, "text/plain is not its alt text"),
        (out_of_order, "execution counts are [1, 7, 3, 4, 5, 6] and not 1, 2, 3"),
        (number_in_caption, "writes 'a third' into the words of a figure: 'It is"),
        (many_bounds, "2 of its 3 claims are bounds"),
        (swapped, "execution counts are [1, 3, 2, 4, 5, 6] and not 1, 2, 3"),
        (not_executed, "cells [3] were not executed before the commit"),
        (unexpected_nan, "shows 'nan'"),
        (untagged_error, "ends in ZeroDivisionError"),
        (no_reason, "say why as `reason` in its metadata"),
        (no_title, "the first line of a lesson is its title"),
        (machine_path, "holds a path of one machine (/home/...)"),
        (long_cell, "has 26 lines; 25 are the most"),
        (same_ids, "needs an id of its own"),
        (foreign_metadata, "its metadata is not just kernelspec"),
        (timestamps, "has metadata ['execution']"),
        (unknown_tag, "has tags ['raises-exceptoin']"),
        (changed_setup, "not the set-up cell of the course: `make stamp` writes it"),
        (picture_without_alt, "a picture has no alt text"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_the_one_finding(plant, message):
    book = good_lesson()
    plant(book)
    findings = lint(book)
    assert len(findings) == 1, findings
    assert message in findings[0]


def test_a_number_is_found_between_computed_ones():
    book = good_lesson()
    number_in_keyword(book)
    assert [finding.split("writes ")[1].split(" into")[0] for finding in lint(book)] == ["'three times'", "'0.25'"]


# ---- prose and claims


@pytest.mark.parametrize(
    "prose",
    [
        "Variance is near 64<!-- claim: 60 < v < 68 -->.",
        "It is 47 %<!-- claim: 0.46 < share < 0.48 -->.",
        "It is 3 times larger<!-- claim: 2.9 < a / b < 3.1 -->, or 2.5<!-- cited: Table 1 --> there.",
        "The loss is below 0.1<!-- claim: loss < 0.1 -->.",
        "It is below 0.1<!-- claim (bound: it goes on falling): loss < 0.1 -->, and 0.7<!-- claim: x < 0.7 -->.",
        "Half of 512 is 256<!-- arithmetic: 256 / 512 == 1 / 2 -->.",
        "Lessons 01 to 09 have exercises, [lesson 06](06_full_model.ipynb) has eight.",
        "```\na  b .\n```\n\n| a  | b |\n|---|---|\n\nA line  \nand ... `a  b` end.",
        "It grows from 0.5 to 2,000.5<!-- claim: first == 0.5 and 2000 < last < 2001 -->.",
        "They agree to 1e-5<!-- claim: torch.allclose(a, b, atol=1e-5) and abs(a - b).max() < 1e-5 -->.",
        "The weights sum to one<!-- claim: abs(w.sum() - 1) < 1e-6 -->.",
        "About $64$ in 12 runs<!-- claim: 60 < v < 68 -->.",
        "One is `v`<!-- claim: v == 1 -->, and 1<!-- claim: v == 1 --> is $v$<!-- claim: v == 1 -->.",
        "Take Python 3.11, torch 2.15.0, [chapter 3.2](http://a/1.5), `x = 0.5`, $0.5$ and section 3.2, 3 heads.",
        "Python 3.11 to 3.14, GPT-3.5, equation (3.1), 2 \N{MULTIPLICATION SIGN} 3 and 2x3 numbers of 16-bit.",
        "# Chapter 3.2\n\n```python\nx = 0.5\n```\n\n$$\nx = 0.5\n$$",
        "| what | share |\n|---|---|\n| first | 0.5 <!-- claim: x == 0.5 --> |",
        "Half is 0.5. <!-- claim: x == 0.5 -->\nThe next sentence has none.",
    ],
)
def test_sound_prose_passes(prose):
    assert list(prose_findings(prose)) == []


@pytest.mark.parametrize(
    ("prose", "message"),
    [
        ("It takes 0.5 of it.", "'0.5' is measured"),
        ("It is 3 times larger.", "'3 times' is measured"),
        ("It is 2x faster.", "'2x' is measured"),
        ("It is 10\N{MULTIPLICATION SIGN} slower.", "'10\N{MULTIPLICATION SIGN}' is measured"),
        ("It is three times as large.", "'three times' is measured"),
        ("First 0.5<!-- claim: x == 0.5 -->. Then 0.7.", "'0.7' is measured"),
        ("From 0.5 to 0.7<!-- claim: x == 0.5 -->.", "'0.7' is measured"),
        ("- one 0.5 <!-- claim: x == 0.5 -->\n- two 0.7", "'0.7' is measured"),
        ("Near 64<!-- claim: 600 < v < 680 -->.", "does not enclose the number of its sentence (64)"),
        ("Near 64<!-- claim: 0 < v < 1000 -->.", "does not enclose"),
        ("It is 2<!-- claim: round(v, 2) == 5 -->.", "does not enclose"),
        ("It is 2<!-- claim: v[2] == 5 -->.", "does not enclose"),
        ("It is 2<!-- claim: v.sum(2) == 5 -->.", "does not enclose"),
        ("It is  so.", "a reader sees two spaces in 'It is  so.'"),
        ("It is 2 <!-- claim: v == 2 --> or so.", "a reader sees two spaces"),
        ("It is *so* , as `x` .", "a reader sees a space before a mark"),
        ("Lesson 06 shows it.", "'Lesson 06' is no link"),
        ("See section 4 of lesson 06.", "'lesson 06' is no link"),
        ("Lessons 05 and 06 show it.", "'Lessons 05 and 06' is no link"),
        ("It is half of it.", "'half' is measured"),
        ("The title is new.<!-- was: old-title -->", "is for `make stamp`"),
        ("It is 6<!-- arithmetic: 3 * 3 == 6 -->.", "is false"),
        ("It is 6<!-- arithmetic: v == 6 -->.", "is no arithmetic"),
        ("It is 0.5<!-- claim (bound): v < 0.5 -->.", "with `(bound: REASON)` or `(range: LOW..HIGH)`"),
        ("Text\n<!-- claim: v == 1 --> more", "a claim begins the line"),
        ("- <!-- claim: v == 1 --> more", "a claim begins the line"),
        ("It is one <!-- claim: v == 1 -->, and more", "the space before a comment shows before a mark"),
        ("`v` is $1$ <!-- claim: v == 1 -->.", "the space before a comment shows before a mark"),
        ("| a <!-- claim: v | w --> |", "in a table holds a `|`"),
        ("Text <!-- claim: v == '-->' --> more", "`-->` stands outside a comment"),
        ("Text<!-- claims: v == 1 -->.", "is neither `<!-- claim: EXPRESSION -->`"),
        ("Text<!--claim: v == 1-->.", "is neither `<!-- claim: EXPRESSION -->`"),
        ("Text<!-- claim: v ==\n 1 -->.", "is neither `<!-- claim: EXPRESSION -->`"),
        ("Text<!-- cited: -->.", "nor `<!-- cited: SOURCE -->`"),
        ("It is so<!-- claim: v = 1 -->.", "is not a Python expression"),
        ("It is so<!-- claim: (v := 1) == 1 -->.", "assigns or waits"),
        ("It is so<!-- claim: v.append(1) is None -->.", "calls append(), which may change state"),
        ("It is so<!-- claim: v.add_(1) > 0 -->.", "calls add_(), which may change state"),
        ("It is so<!-- claim: torch.randn(2).sum() < 9 -->.", "calls randn()"),
        ("It is so<!-- claim: len([1]) == 1 -->.", "reads no name of the notebook"),
    ],
)
def test_unsound_prose_is_named(prose, message):
    findings = list(prose_findings(prose))
    assert any(message in finding for finding in findings), findings


def test_sentences_keep_their_claims():
    found = sentences(
        "Cf. e.g. 0.5<!-- claim: a -->. Then `b. C`<!-- claim: b -->! <!-- claim: c -->\n\n- d <!-- claim: d -->"
    )
    assert [(sentence.text, sentence.claims) for sentence in found] == [
        ("Cf. e.g. 0.5.", ["a"]),
        ("Then `b. C`!", ["b", "c"]),
        ("- d", ["d"]),
    ]


def test_a_claim_in_a_heading_is_a_claim_and_one_in_code_is_none():
    found = sentences("## Title 0.5 <!-- claim: a -->\n\n`<!-- claim: b -->`\n\n```\n<!-- claim: c -->\n```")
    assert [claim for sentence in found for claim in sentence.claims] == ["a"]


def test_bounds_are_read_in_both_directions():
    claim = bounds("68 > v >= 60 and abs(w - 0.5) < 1 / 8 and -3 < x[7].mean(dim=9) and x[7].mean(dim=9) < -2")
    assert [n for n in (59.9, 60, 64, 68, 0.5, 0.125, -2.5, 7, 9) if claim.enclose(n)] == [60, 64, 68, 0.5, 0.125, -2.5]


def test_shown_values_are_the_compared_parts():
    assert operands("0 < a.mean() < 2 * b") == ["a.mean()", "2 * b"]
    assert operands("all(x < limit for x in xs)") == ["limit"]
    assert operands("torch.equal(a, b)") == ["a", "b"]


def test_a_claim_may_use_what_merely_looks_like_a_change():
    check_claim("model.training is False and len(rows.__dir__()) > 0")
    with pytest.raises(ClaimError, match="manual_seed"):
        check_claim("torch.manual_seed(0) == g")


# ---- outputs


def test_noise_is_no_difference():
    one = printed("<A at 0x7f00aabbcc> took 1.25 s") + printed(" in /tmp/ipykernel_12/34.py")
    two = printed("<A at 0x7f00ddeeff> took 0.75 s in /var/ipykernel_5/6.py")
    assert difference(one, two) is None
    assert "-[62]\n+[63]" in difference(printed("[62]"), printed("[63]"))


def test_versions_are_noise_and_their_names_are_not():
    assert difference(printed("torch 2.15.0+cu132"), printed("torch 2.16.0")) is None
    assert difference(printed("torch 2.15.0"), printed("numpy 2.15.0"))
    assert difference(printed("1.25"), printed("1.26"))


def test_the_data_of_a_control_may_differ_by_rounding_and_by_nothing_else():
    def control(data: str):
        return [nbformat.v4.new_output("display_data", {ON_PAGES: {"data": data}, "text/plain": "A control."})]

    one = control("[1.250001, 2, 1e-05]")
    assert difference(one, control("[1.250002, 2, 1e-05]")) is None
    assert "differ, by most at 1.250001, which is 1.26" in difference(one, control("[1.26, 2, 1e-05]"))
    assert difference(one, control("[1.250001, 3, 1e-05]"))
    assert difference(one, control("[1.250001, 0.5, 2, 1e-05]"))


def test_pictures_are_compared_by_pixels():
    same, other = png("red", compress_level=0), png("blue")
    assert same != png("red")
    assert difference(figure(png("red")), figure(same)) is None
    assert "a picture is not the one in the file" in difference(figure(png("red")), figure(other))
    assert difference(figure(png("red")), figure(other), pixels=False) is None
    for pixels in (True, False):
        assert "-Another message" in difference(figure(same, alt="Another message."), figure(same), pixels)


def drawn(color="#0072b2", labels=("pre-norm", "post-norm"), last=3.0, shade=0.5, height=2.0):
    """A small figure: two curves with their names, and a cell."""
    figure = Figure("Two curves.", height, width=4.0)
    with style():
        axes, cells = figure.subplots(1, 2)
        axes.plot([1, 2, last], color=color)
        axes.plot([3, 2, 1])
        axes.legend(labels)
        cells.imshow([[0, shade], [1, 0]], vmin=0, vmax=1)
    with Image.open(io.BytesIO(figure.png())) as image:
        return np.asarray(image.convert("RGBA"))


@pytest.mark.parametrize(
    "fault",
    [{"color": "#d55e00"}, {"labels": ("post-norm", "pre-norm")}, {"last": 2.9}, {"shade": 0.6}, {"height": 2.1}],
    ids=["another color", "labels swapped", "a line moved", "another weight", "another size"],
)
def test_a_picture_with_a_fault_is_another(fault):
    assert off_by_more_than_a_shade(drawn(), drawn(**fault))


def test_a_single_dot_makes_another_picture():
    dotted = drawn().copy()
    dotted[5, 5] = 0
    assert off_by_more_than_a_shade(drawn(), dotted)


def test_rounding_makes_no_other_picture():
    assert off_by_more_than_a_shade(drawn(), drawn(last=3.00003, shade=0.500005)) is None


def test_committed_outputs_name_no_folder_of_a_machine():
    lines = (
        "File ~/course/.venv/lib/python3.11/site-packages/torch/nn.py:3\n"
        "File \x1b[32m/home/ada/main/tfm_lib/masks.py:9\x1b[39m\n"
        "File C:\\course\\tfm_lib\\masks.py, /usr/lib/python3.12/json/decoder.py\n"
        "/tmp/ipykernel_12/34.py:4: UserWarning: 1/2 / 3 of tfm_lib/masks.py and https://a.org/tfm_lib/b"
    )
    [shown] = clean(printed(lines))
    assert shown.text == (
        "File torch/nn.py:3\n"
        "File \x1b[32mtfm_lib/masks.py:9\x1b[39m\n"
        "File tfm_lib\\masks.py, json/decoder.py\n"
        "CELL.py:4: UserWarning: 1/2 / 3 of tfm_lib/masks.py and https://a.org/tfm_lib/b"
    )


# ---- the environment


def test_the_lock_is_read_for_this_python():
    lock = (
        "numpy==2.5.5 ; python_full_version >= '3.0' \\\n    --hash=sha256:00\n"
        "numpy==2.4.6 ; python_full_version < '3.0' \\\n    --hash=sha256:00\ntorch==2.15.0 \\\n    # via tfm-lib\n"
    )
    assert {name: str(version) for name, version in environment.locked_versions(lock).items()} == {
        "numpy": "2.5.5",
        "torch": "2.15.0",
    }


def test_the_reasons_are_named(monkeypatch):
    monkeypatch.setenv("TFM_NETWORK", "1")
    monkeypatch.setattr(environment.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(environment.metadata, "version", lambda name: "0.0.1" if name == "numpy" else "1!0")
    reasons = "; ".join(environment.why_not_compared())
    assert "TFM_NETWORK=1 is set" in reasons
    assert "on arm64" in reasons
    assert "numpy is 0.0.1, the lock has 2." in reasons


def test_a_rounding_replaces_the_pins_and_another_name_is_refused(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "SSE4_2")
    monkeypatch.delenv("TFM_ROUNDING")
    assert environment.variables()["MKL_CBWR"] == "AVX2"
    assert "MKL_CBWR" not in environment.variables("best")
    assert environment.variables("threads")["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("TFM_ROUNDING", "compatible")
    assert environment.variables()["MKL_CBWR"] == "COMPATIBLE"
    with pytest.raises(ValueError, match="one of default, avx2, best, compatible, threads, perturbed, got 'avx'"):
        environment.variables("avx")


def test_a_perturbed_model_is_another_one_and_the_same_one_every_time():
    built = "torch.manual_seed(0); print(torch.nn.Linear(3, 3).weight.double().sum().item()); "
    start = f"runpy.run_path({str(environment.ROOT / 'tests/proof/perturbed.py')!r}); "
    code = "import runpy, torch; " + built + start + 2 * built
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    plain, *perturbed = map(float, printed.split())
    assert perturbed[0] == perturbed[1]
    assert 0 < abs(plain - perturbed[0]) < 1e-5


def test_this_process_has_one_thread_and_no_gpu():
    import torch

    assert torch.get_num_threads() == 1
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ.get("TFM_GPU") == "1" or not torch.cuda.is_available()


# ---- stamp


def test_stamp_writes_badge_and_cell_once_and_takes_them_back():
    plain = good_lesson()
    stamp.stamp(plain, "lesson.ipynb", "")
    book = deepcopy(plain)
    stamp.stamp(book, "lesson.ipynb", "https://github.com/ada/course")
    paragraphs = book.cells[0].source.split("\n\n")
    assert paragraphs[2].startswith("[![Open in Colab](")
    assert "(https://colab.research.google.com/github/ada/course/blob/main/notebooks/lesson.ipynb)" in paragraphs[2]
    assert '"git+https://github.com/ada/course"' in book.cells[1].source
    again = deepcopy(book)
    stamp.stamp(again, "lesson.ipynb", "https://github.com/ada/course")
    assert again == book
    stamp.stamp(again, "lesson.ipynb", "")
    assert again == plain


def test_the_readme_gets_the_badge_of_the_container_once_and_loses_it():
    readme = (environment.ROOT / "README.md").read_text(encoding="utf-8")
    assert stamp.stamp_readme(readme, stamp.repository()) == readme, "run `make stamp`"
    plain = stamp.stamp_readme(readme, "")
    stamped = stamp.stamp_readme(plain, "https://github.com/ada/course")
    assert "## Start\n\n[![Open in Codespaces](" in stamped and "(https://codespaces.new/ada/course)\n\nIn a" in stamped
    assert stamp.stamp_readme(stamped, "https://github.com/ada/course") == stamped
    assert stamp.stamp_readme(stamped, "") == plain


@pytest.mark.parametrize(
    "address", ["github.com/a/b", "https://github.com/a", "https://github.com/a/b.git", "https://x.org/a/b"]
)
def test_an_address_of_another_form_is_refused(tmp_path, address):
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.course]\nrepository = '{address}'")
    with pytest.raises(ValueError, match="OWNER/NAME"):
        stamp.repository(file)


@pytest.mark.parametrize("address", ["", "https://github.com/ada/course"])
def test_the_setup_cell_does_nothing_where_the_course_is(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("it ran a command"))
    source = stamp.setup_source(address)
    assert len(source.splitlines()) <= 17 and max(map(len, source.splitlines())) <= anatomy.COLUMNS
    exec(compile(source, "setup", "exec"), {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("absent", [["rouge-score"], ["pyarrow", "scipy"], []])
def test_the_setup_cell_asks_for_all_that_is_missing_and_for_nothing_else(tmp_path, monkeypatch, absent, here):
    """Colab's matplotlib 3.10.0 is older than asked for; naming it to pip ended in "conflicting dependencies".

    And the course may be here while what it needs is not: where the network failed between the two.
    """
    commands: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    if not here:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: [] if name in absent else [name])
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command[3:]))
    exec(stamp.setup_source("https://github.com/ada/course"), {})

    if not here:
        course = commands.pop(0)
        assert course == ["install", "-q", "--no-deps", "git+https://github.com/ada/course", "d2l==1.0.3"]
    asked = [[need.split(">=")[0] for need in command] for command in commands]
    quiet = ["install", "-q", "--no-warn-conflicts", "-c", "already_here.txt"]
    assert asked == ([["list", "--format=freeze"], [*quiet, *absent]] if absent else [])


def test_the_setup_cell_says_what_to_do_elsewhere(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="make lab"):
        exec(stamp.setup_source(""), {})


def test_every_lesson_is_stamped():
    for path in sorted((environment.ROOT / "notebooks").glob("*.ipynb")):
        book = read(path)
        stamp.stamp(book, path.name, stamp.repository())
        assert book == read(path), f"{path.name}: run `make stamp`"


# ---- folds


def drawing_lesson():
    """A lesson that draws, prints source, shows a control, and keeps in a drawing cell what a later cell needs."""
    of_picture = [*figure(png("red")), output("display_data", data={"text/html": "<p>One red pixel.</p>"}, metadata={})]
    drawn = {
        "axes = 1\nFigure()": of_picture,
        "import inspect\n\nprint(inspect.getsource(f))": printed("def f():\n    pass\n"),
        "rows = [2]\nFigure()": of_picture,
        "for axes in rows:\n    print(axes)": printed("2\n"),
        "Figure(), print(1)": [*of_picture, *printed("1\n")],
        "def draw():\n    return rows": [],
        "x = 3": [],
        "mask_control()": of_picture,
    }
    book = notebook(markdown("# A lesson"), *map(code, drawn), markdown("## Deeper: more"))
    for cell, outputs in zip(book.cells[1:], drawn.values(), strict=False):
        cell.outputs = outputs
    book.cells[-1].metadata["tags"] = ["deeper"]
    book.cells[-2].id = "control-mask"
    return book


def test_drawings_and_printed_source_are_folded_under_a_title_and_what_others_need_stays_open():
    book = drawing_lesson()
    folds.fold(book)
    titles = [c.source.split("\n")[0] for c in book.cells if "cellView" in c.metadata]
    assert titles == ["# @title Drawing", "# @title Source of the package"]
    assert book.cells[1].source == "# @title Drawing\naxes = 1\nFigure()"
    assert book.cells[1].metadata == {"cellView": "form", "jupyter": {"source_hidden": True}}
    assert book.cells[-1].metadata["jp-MarkdownHeadingCollapsed"] is True
    again = deepcopy(book)
    folds.fold(again)
    assert again == book and list(folds.fold_findings(book)) == []


def test_a_fold_that_is_wrong_is_found_and_mended():
    book = drawing_lesson()
    assert list(folds.fold_findings(book)) == [
        *(f"cell {place} is to be folded: `make stamp` does it" for place in (2, 3, 10))
    ]
    folds.fold(book)
    book.cells[1].outputs = printed("2\n")
    book.cells[2].metadata["jupyter"]["outputs_hidden"] = False
    assert list(folds.fold_findings(book)) == ["cell 2 is to be open: `make stamp` does it"]
    folds.fold(book)
    assert book.cells[1].source == "axes = 1\nFigure()" and book.cells[1].metadata == {}
    assert book.cells[2].metadata["jupyter"] == {"outputs_hidden": False, "source_hidden": True}


def test_a_title_by_hand_folds_any_cell_and_stays_the_only_one():
    book = notebook(code("# @title Ten helpers\nx = 1"), code("# @title A red pixel\nFigure()"))
    book.cells[1].outputs = figure(png("red"))
    folds.fold(book)
    assert [c.source for c in book.cells] == ["# @title Ten helpers\nx = 1", "# @title A red pixel\nFigure()"]
    assert all("cellView" in c.metadata for c in book.cells)


def test_a_folded_drawing_to_guess_says_that_it_is_to_be_run():
    book = notebook(code("# @title Drawing\nFigure()", "guess"))
    book.cells[0].outputs = figure(png("red"))
    folds.fold(book)
    assert book.cells[0].source == "# @title Drawing: guess first, then run this cell\nFigure()"
    book.cells[0].metadata["tags"] = []
    folds.fold(book)
    assert book.cells[0].source == "# @title Drawing\nFigure()"


def test_the_title_of_a_fold_is_no_line_of_its_code():
    book = good_lesson()
    cell = cell_with(book, "print(scores)")
    cell.source = "# @title Long\n" + "x = 1\n" * 24 + "print(scores)"
    folds.fold(book)
    assert lint(book) == []


# ---- with kernels: what a run of pytest says, and what `make lessons` writes


def prove(folder: Path, *options: str, compared: bool = True, **variables: str) -> tuple[int, str]:
    """Runs pytest as `make test` does on the notebooks of a folder, whatever is installed here."""
    if compared:
        (folder / "conftest.py").write_text(
            "from tests.proof import environment\nenvironment.why_not_compared = lambda: []\n"
        )
    config = ["-c", str(environment.ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *config,
            "--color=no",
            "--durations-min=999",
            *options,
            *sorted(folder.glob("*.ipynb")),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(environment.ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=HUNG,
    )
    return run.returncode, run.stdout + run.stderr


def faulty_lesson():
    book = good_lesson()
    cell_with(book, "print(scores)").outputs = printed("[62, 64, 65]\n")
    cell_with(book, "1 / 0").source = "1 / 1"
    cell_with(book, "Their mean").source = (
        "The mean is 70.0<!-- claim: 69 < sum(scores) / len(scores) < 71 -->. "
        "It is more than before<!-- claim: sum(scores) > before -->. "
        "The first is near 70<!-- claim: scores[0] < 70 -->."
    )
    cell_with(book, "Figure()").outputs = figure(png("blue"))
    return book


def test_a_run_passes_what_is_right_and_names_what_is_wrong(tmp_path):
    write(tmp_path / "good.ipynb", good_lesson())
    write(tmp_path / "faulty.ipynb", faulty_lesson())
    status, report = prove(tmp_path, "-n", "2", "-rfs")
    assert status == 1
    assert "good.ipynb" not in report.partition("FAILURES")[2], report
    assert "-[62, 64, 65]\n+[62, 64, 66]\nIf the new output is right, `make lessons` writes it" in report
    assert "says: The mean is 70.0.\nIts claim `69 < sum(scores) / len(scores) < 71` is false. In this run" in report
    assert "  sum(scores) / len(scores) = 64.0\n" in report
    assert "Its claim `sum(scores) > before` raises NameError: name 'before' is not defined" in report
    assert "6 failed, 12 passed" in report
    assert "notebooks: 2, cells: 12 (100% strict), claims: 4, of them 0 bounds, seconds: " in report
    assert "a picture is not the one in the file: 100.00% of the pixels differ, by up to 255 of 255" in report
    assert "The first is near 70.\nIt writes 70, and `scores[0]` is 62. Mend it in one of three ways" in report
    assert "outputs compared: this is the locked environment" in report


def test_workers_begin_with_what_takes_long_and_keep_a_file_in_its_order(tmp_path):
    lengths = {"test_a.py": 1, "test_b.py": 3, "test_c.py": 1, "x.ipynb": 2}
    for name, length in lengths.items():
        (tmp_path / name).write_text("#" * length)
    given = [SimpleNamespace(path=tmp_path / name, place=place) for name in lengths for place in range(2)]
    alone, shared = list(given), list(given)
    plugin.pytest_collection_modifyitems(SimpleNamespace(), alone)
    plugin.pytest_collection_modifyitems(SimpleNamespace(workerinput={}), shared)
    assert alone == given
    wanted = ["x.ipynb", "test_b.py", "test_a.py", "test_c.py"]
    assert [(item.path.name, item.place) for item in shared] == [(name, place) for name in wanted for place in (0, 1)]


def solved(*solutions: str):
    """A lesson with exercises, folded solutions, and claims that hold where these took the place of the questions."""
    cells = [markdown("# A lesson"), code("from math import cosh as exp")]
    task = 'from tfm_lib.ask.checks import check\n\nmy_crowd = ...\ncheck("attention.crowd", my_crowd)'
    for solution in solutions:
        folded = markdown(f"<details><summary>Solution</summary>\n\n```python\n{solution}\n```\n\n</details>")
        folded.metadata["tags"] = ["solution"]
        cells += [code(task, "exercise"), folded, markdown("It is solved<!-- claim: my_crowd is not ... -->.")]
    return notebook(*cells)


def test_a_solution_is_right_among_the_names_of_its_notebook_and_the_prose_below_still_true(tmp_path):
    right = "from math import exp\n\nmy_crowd = exp(3) / (exp(3) + 20)"
    among_other_names = right.partition("\n\n")[2]
    write(tmp_path / "lesson.ipynb", solved(among_other_names, right, "my_crowd = nowhere"))
    status, report = prove(tmp_path, "-n", "0", "-k", "not lint", compared=False, TFM_GPU="1")
    # Where the variable CI is set, pytest's short summary at the end repeats each message whole.
    failures = report.partition("FAILURES")[2].partition("short test summary info")[0]
    assert status == 1 and "3 failed, 7 passed" in report, report
    assert "lesson.ipynb, markdown cell 4" in failures and "\N{BALLOT X} attention.crowd: not right yet." in failures
    assert "lesson.ipynb, markdown cell 7" not in failures, "the right one"
    assert "lesson.ipynb, markdown cell 10" in failures and "NameError: name 'nowhere' is not defined" in failures
    assert failures.count("It is solved.\nIts claim `my_crowd is not ...` is false") == 1


def test_elsewhere_cells_run_and_claims_hold_but_outputs_are_not_compared(tmp_path):
    write(tmp_path / "faulty.ipynb", faulty_lesson())
    status, report = prove(tmp_path, compared=False, TFM_GPU="1")
    assert status == 1
    assert "is false. In this run" in report
    assert "Cell is tagged raises-exception, and nothing was raised" in report
    assert "Cell outputs differ" not in report and "It writes" not in report
    assert "3 failed, 7 passed" in report
    assert "outputs not compared: TFM_GPU=1 is set" in report


def test_a_broken_cell_stops_its_lesson_and_nothing_piles_up(tmp_path):
    book = good_lesson()
    cell_with(book, "print(scores)").source = "scores = [62, 64, 66\nprint(scores)"
    write(tmp_path / "broken.ipynb", book)
    status, report = prove(tmp_path, "-rs")
    assert status == 1
    assert "1 failed, 2 passed, 5 skipped" in report
    assert "SyntaxError" in report
    assert "cell 3 failed, and this needs it" in report


def test_lessons_writes_once_and_only_what_runs(tmp_path, capsys):
    path, broken = tmp_path / "lesson.ipynb", tmp_path / "broken.ipynb"
    draft = good_lesson()
    for cell in draft.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    write(path, draft)
    draft.cells[2].source = "import nowhere"
    write(broken, draft)
    before = broken.read_bytes()

    assert author.lessons([path, broken]) == 1
    said = capsys.readouterr().out
    assert "lesson.ipynb: written" in said
    assert "broken.ipynb: FAILED, the file is as it was. code cell 3 ('import nowhere'): ModuleNotFoundError" in said
    assert broken.read_bytes() == before
    assert lint(read(path)) == []

    written = path.read_bytes()
    assert author.lessons([path]) == 0
    assert "lesson.ipynb: nothing changed" in capsys.readouterr().out
    assert path.read_bytes() == written


def test_a_lesson_is_the_same_by_a_relative_path(monkeypatch):
    lesson = environment.ROOT / "notebooks/04_positional_encoding.ipynb"
    executed = []
    monkeypatch.setattr(author, "lessons", lambda paths: executed.extend(paths))
    monkeypatch.setattr(environment, "why_not_compared", list)
    monkeypatch.chdir(lesson.parent)
    assert author.main(["lessons", lesson.name]) == 0
    assert executed == [lesson]


def test_only_what_changed_is_taken_over():
    book = good_lesson()
    fresh = deepcopy(book)
    cell_with(fresh, "nbformat").outputs = printed("0.2.0\n")
    cell_with(fresh, "Figure()").outputs = figure(png("red", compress_level=0))
    kept = deepcopy(book)
    assert author.renew(book, deepcopy(fresh)) == []
    assert book == kept
    cell_with(fresh, "Figure()").outputs = figure(png("blue"))
    [change] = author.renew(book, fresh)
    assert change.endswith(": outputs")
    assert cell_with(book, "Figure()").outputs == figure(png("blue"))
    assert cell_with(book, "nbformat").outputs == printed("0.2.0\n")
