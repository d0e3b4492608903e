"""What the web pages need beyond Sphinx and its extensions: lessons prepared for reading, formulas, the map."""

import json
import re
import unicodedata
from base64 import b64decode
from copy import deepcopy
from functools import cache
from html import escape, unescape
from importlib.metadata import distribution
from logging import getLogger
from pathlib import Path
from typing import Any

import nbformat
from answering import field
from docutils import nodes
from finding import Sections, name_terms
from fontTools import subset
from math_core import LatexError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from second_reading import ENDING, TwoPages
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tfm_lib.ask.quiz import filled_in
from tfm_lib.ask.quiz import mathml as to_mathml
from tfm_lib.errors import CourseError
from tfm_lib.lessons import FIRST_BEYOND, LESSONS, Lesson
from tfm_lib.pretrained import COPYING, SHIPPED
from tfm_lib.pretrained.pictures import SHIPPED as PICTURES
from tfm_lib.show.drawings import architecture
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.scripts import CSS, all_scripts, classic_script, weights_script
from tfm_lib.show.translator_control import NAME, page_file
from tfm_lib.show.weights import int8_weights

# The package is not imported: all that is wanted of it is a file. (The font is under the SIL Open Font License 1.1.)
# Of its 1.5 MB the pages get the signs that they use.
FONT = Path(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf"))
REMOTE_PICTURE = re.compile(r"!\[([^\]]*)\]\(https?://[^)\s]*\)")
JOINT = re.compile(r"[._(]+(?=\w)|(?<=[a-z])(?=[A-Z])")
IN_COLAB = re.compile(r"https://colab\.research\.google\.com/[^)\s]*/[^)\s]*\.ipynb")
LENGTHS = re.compile(r"^\*Reading: .*$", re.MULTILINE)  # of a lesson, under its title
IN_NOTEBOOKS = re.compile(r'<span class="cells">.*?</span> ?', re.DOTALL)  # what speaks of running cells
TITLE = re.compile(r"# @title (.+)\n")  # of a cell that is folded everywhere
FOR_KERNELS = re.compile(r"platform\.python_version|metadata import version|\nprogress\(\)\Z")  # versions, progress
UNTRIED = re.compile("○ .*: not attempted yet")  # what an exercise says before anybody has run it
READ_BELOW = re.compile(r" (?:Or|You can also) read (?:them|the questions) below,? and unfold the answers\.")
AGAIN = "### The same questions of the second reading, to read"  # which are hidden where the quiz is
OPENING = "Know this already? Three questions"
CARD, MACHINE = "architecture.png", "machine.png"
MATH = re.compile(r"<math.*?</math>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
UNITS = "%|[kMG]i?B|[mµ]?s|MB/s|GB/s|[GT]?FLOPs?|GFLOP/s"
BEFORE_UNIT = re.compile(  # a claim may stand there; in tags, in code and in claims, nothing changes
    rf"(?<=\d)(?P<claim>(?:<!--(?:(?!-->).)*-->)?) (?=(?:{UNITS})(?!\w))"
    rf"|(?P<kept><!--.*?-->|<(pre|code|script|style)\b.*?</\3>|{TAG.pattern})",
    re.DOTALL,
)
HEADING = re.compile(r"<(h\d)\b.*?</\1>|<span class=.sidebar-brand-text.*?</span>", re.DOTALL)
ITALIC = {"h": "\N{PLANCK CONSTANT}"} | {  # what a browser draws for a letter that is a name
    unicodedata.normalize("NFKC", sign): sign
    for sign in map(chr, range(0x1D434, 0x1D7CC))
    if unicodedata.name(sign, "").startswith("MATHEMATICAL ITALIC")
}
START = Path(__file__).resolve().parent.parent / "notebooks/00_start_here.ipynb"

log = logging.getLogger(__name__)
card = cache(architecture)


def read_lesson(text: str) -> NotebookNode:
    """The notebook as a page shows it: machinery folded, pictures with their alt text, none of them from the web.

    A page has no kernel: what cannot be done on it is said under the title. Controls run without one.
    Raises ValueError for a picture without alt text, or a second one in a cell: MyST-NB has one alt text a cell.
    """
    book = nbformat.reads(text, as_version=4)
    run = "[run the lesson](../docs/index.md#run-the-lessons)"
    if colab := IN_COLAB.search(text):
        run += f" on your machine, or [in Colab]({colab[0]})"
    cells = []
    for cell in book.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = READ_BELOW.sub(
                "", IN_NOTEBOOKS.sub("", REMOTE_PICTURE.sub(r"\1", cell.source))
            )  # a badge becomes its words
        else:
            prepare(cell)
        if cell.source.startswith("## Exercises"):
            some = any(map(field, book.cells))
            here = "answer the tasks that ask for one number; for the others" if some else "read the tasks; to do them"
            cell.source = cell.source.replace("\n\n", f"\n\n*On this page you can {here}, {run}.* ", 1)
        if cell is book.cells[0]:
            tasks = " and do the exercises" * any("exercise" in one.metadata.get("tags", []) for one in book.cells)
            read = f"To change the code{tasks}, {run}."
            lengths = LENGTHS.search(cell.source)  # one paragraph says both
            cell.source = (
                f"{cell.source}\n\n*{read}*"
                if not lengths
                else (f"{cell.source[: lengths.end() - 1]} {read}*{cell.source[lengths.end() :]}")
            )
    book.cells = cells
    first_look(cells)
    for place, cell in enumerate(cells):
        if "deeper=True" in cell.source:
            cells.insert(place + 1, new_markdown_cell(AGAIN))
            break
    return book


def first_look(cells: list[NotebookNode]) -> None:
    """Where a lesson shows nothing before its first section: its first control, or else its first picture, again."""
    headed = [(n, one) for n, one in enumerate(cells) if one.source.startswith("## ")]
    place = next((n for n, _ in headed), 0)
    end = next((n for n, one in headed if one.source.startswith("## Second reading")), len(cells))
    shown = [one for one in cells[:end] if one.cell_type == "code" and alt_texts(one)]
    if not place or not shown or any(one is shown[0] for one in cells[:place]):
        return
    found = next((one for one in shown if one.id.startswith("control-")), shown[0])
    heading = [one for n, one in headed if n < cells.index(found)][-1].source.split("\n")[0]
    look = deepcopy(found)
    look.id = f"first-{found.id}"
    look.metadata["tags"] = ["remove-input"]
    for output in look.outputs:
        if "text/html" in output.get("data", {}):
            html = output.data["text/html"]
            output.data["text/html"] = html.replace(f'id="{found.id}"', f'id="{look.id}"')
    caption = f"*A first look, from the section “{heading.removeprefix('## ')}”:*"
    cells[place:place] = [new_markdown_cell(caption), look]


def prepare(cell: NotebookNode) -> None:
    """Tells MyST-NB what to leave out and to fold, and the words of a picture.

    The set-up, versions, progress and the code of a quiz are for notebooks. Code under a title is folded, and so are
    the opening questions and outputs to guess.
    """
    about, tags = {}, cell.metadata.get("tags", [])
    if cell.id == "setup" or FOR_KERNELS.search(cell.source):
        tags = [*tags, "remove-cell"]
    elif "tfm_lib.ask.quiz" in cell.source:
        tags = [*tags, "remove-input"]
        if "opening=True" in cell.source:
            tags.append("hide-output")
            about |= {"code_prompt_show": OPENING, "code_prompt_hide": OPENING}
    elif titled := TITLE.match(cell.source):
        tags = [*tags, "hide-input"]
        kind = titled[1].lower()
        about |= {"code_prompt_show": f"Show the code: {kind}", "code_prompt_hide": f"Hide the code: {kind}"}
        cell.source = TITLE.sub("", cell.source)
    if "guess" in tags:
        tags = [*tags, "hide-output"]
        ask = "What do you expect? Open to see the {type}"  # "output", unless the code is folded as well
        about |= {"code_prompt_show": ask, "code_prompt_hide": "Hide the {type}"}
    if cell.metadata.get("jupyter", {}).get("outputs_hidden"):  # folded in JupyterLab, and so here
        tags = [*tags, "hide-output"]
        about |= {"code_prompt_show": "Show the output", "code_prompt_hide": "Hide the output"}
    answer = field(cell)
    cell.metadata["tags"] = [*tags, *["remove-input"] * bool(answer)]
    cell.outputs = [one for one in cell.outputs if not UNTRIED.match(one.get("text", ""))] + controls(cell) + answer
    if texts := alt_texts(cell):
        if len(texts) > 1 or not texts[0]:
            raise ValueError(
                f"cell {cell.id} shows pictures with the alt texts {texts}; wanted one picture that has one: "
                "split the cell, or draw with a Figure of tfm_lib"
            )
        about["image"] = {"alt": texts[0]}
    cell.metadata["mystnb"] = about


def controls(cell: NotebookNode) -> list[NotebookNode]:
    """For each control of a cell what the page builds it of; where no script runs, the stored picture stays."""
    found = [output.data.pop(ON_PAGES) for output in cell.outputs if ON_PAGES in output.get("data", {})]
    return [new_output("display_data", {"text/html": control(cell.id, about)}) for about in found]


def control(name: str, about: dict[str, Any]) -> str:
    """A control as HTML: its data, which a script of the page finds."""
    data = json.dumps(filled_in(about), ensure_ascii=False).replace("<", "\\u003c")
    return f'<div class="tfm-control" id="{name}"><script type="application/json">{data}</script></div>'


def alt_texts(cell: NotebookNode) -> list[str | None]:
    """What the pictures that a cell shows say in words, None where nobody wrote it."""
    shown = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    return [output.metadata.get("image/png", {}).get("alt") for output in shown]


def mathml(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Writes a formula as MathML, set in lines of its own where it is a block."""
    block = isinstance(node, nodes.math_block)
    try:
        formula = to_mathml(node.astext(), block)
    except LatexError as error:
        log.warning("formula %r: %s", node.astext(), error, location=node)
        formula = f"<code>{self.encode(node.astext())}</code>"
    self.body.append(f'<div class="math">{formula}</div>\n' if block else formula)
    raise nodes.SkipNode


class CourseMap(SphinxDirective):
    """The map of the lessons: boxes that are links, in the order of the course, in its two parts."""

    def run(self) -> list[nodes.Node]:
        one, two = ([x for x in LESSONS if (x.place[1] >= FIRST_BEYOND) is later] for later in (False, True))
        parts = {"Part one: the model of the paper": one, "Part two, beyond the paper: each alone, after 08": two}
        lists = (f"<p>{part}</p><ol>{''.join(map(map_box, lessons))}</ol>" for part, lessons in parts.items())
        return [nodes.raw("", f'<div class="course-map">{"".join(lists)}</div>', format="html")]


def map_box(lesson: Lesson) -> str:
    """A lesson on the map: what it asks, and which lessons it builds on."""
    question = escape(" ".join(lesson.question.split()))
    needs = f"<small>builds on {' and '.join(lesson.builds_on)}</small>" if lesson.builds_on else ""
    name = f"<strong>{lesson.number} · {escape(lesson.title)}</strong>"
    return f'<li><a href="notebooks/{lesson.name}.html">{name} <span>{question}</span> {needs}</a></li>'


class Machine(SphinxDirective):
    """The control that lesson 00 opens with, of what is stored there; on paper and without scripts, its picture."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(START))
        about, stored = stored_machine()
        alt = escape(stored.metadata["image/png"]["alt"])
        picture = f'<img src="_static/{MACHINE}" width="740" alt="{alt}">'
        html = f'<div class="cell_output machine"><p>{picture}</p><div>{control("machine", about)}</div></div>'
        return [nodes.raw("", html, format="html")]


@cache
def stored_machine() -> tuple[dict[str, Any], NotebookNode]:
    """Of what the control is built, and the output with its picture."""
    book = nbformat.read(START, as_version=4)
    [output] = [
        out for cell in book.cells if cell.id == "control-machine" for out in cell.outputs if ON_PAGES in out.data
    ]
    return output.data[ON_PAGES], output


CODE = re.compile(r"(<pre>(?:<span></span>)?)(.*?)(</pre>)", re.DOTALL)


def in_lines(code: re.Match[str]) -> str:
    """Highlighted code with each of its lines in a span, which knows how far it is indented.

    Pygments ends its own spans with the line.
    """
    return code[1] + "".join(map(in_line, code[2].splitlines(keepends=True))) + code[3]


def in_line(line: str) -> str:
    words = TAG.sub("", line)
    indent = len(words) - len(words.lstrip(" "))
    look = f' style="--in: {indent}"' if indent else ""
    return f'<span class="line"{look}>{line}</span>'


class Writer(HTML5Translator):
    """Sphinx's own, but the captions over the lists of pages say which level of heading they are.

    Each line of code is an element, which shows where it goes on where it is too long for a phone.
    And the corner of a table, over names, is no heading where it is empty; and long names may break at their joints.
    """

    def starttag(self, node: nodes.Element, tagname: str, suffix: str = "\n", empty: bool = False, **attributes) -> str:
        if attributes.get("ROLE") == "heading":
            attributes["ARIA-LEVEL"] = "2"
        return super().starttag(node, tagname, suffix, empty, **attributes)

    def visit_Text(self, node: nodes.Text) -> None:
        start = len(self.body)
        super().visit_Text(node)
        if isinstance(node.parent, nodes.literal):
            self.body[start:] = [JOINT.sub(r"\g<0><wbr>", part) for part in self.body[start:]]

    def visit_literal_block(self, node: nodes.literal_block) -> None:
        try:
            super().visit_literal_block(node)
        finally:
            if "<pre>" in self.body[-1]:
                self.body[-1] = CODE.sub(in_lines, self.body[-1])

    def visit_entry(self, node: nodes.entry) -> None:
        super().visit_entry(node)
        if self.context[-1] == "</th>\n" and not node.astext():
            self.body[-1], self.context[-1] = self.body[-1].replace("<th", "<td", 1), "</td>\n"


class Pages(TwoPages):
    """Ordinary pages, except that the first one, docs/index.md, stands at the top, where visitors arrive."""

    default_translator_class = Writer

    def prepare_writing(self, docnames: set[str]) -> None:
        super().prepare_writing(docnames)
        if self.indexer is not None:
            self.indexer = Sections(self.env, "en", {}, "")

    def dump_search_index(self) -> None:
        """The index, and a script with how sections begin: a page in a folder cannot fetch what it found."""
        super().dump_search_index()
        found = json.dumps(self.indexer.beginnings, ensure_ascii=False).replace("<", "\\u003c")
        Path(self.outdir, "_static", "beginnings.js").write_text(f"const BEGINNINGS = {found};\n", encoding="utf-8")

    def get_output_path(self, page_name: str, /) -> Path:
        return super().get_output_path("index" if page_name == self.config.root_doc else page_name)

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        return super().get_target_uri("index" if docname == self.config.root_doc else docname, typ)


def make_files(_: Sphinx, config: Config) -> None:
    """Puts pictures, and the scripts and weights of the controls to the static files."""
    files = {CARD: card().png(), CSS.name: CSS.read_bytes()}
    files[MACHINE] = b64decode(stored_machine()[1].data["image/png"])
    weights = {path.stem: int8_weights(path) for path in (SHIPPED, COPYING, PICTURES)}
    try:
        weights[NAME] = page_file()  # nothing of it is in the repository
        files["NOTICE.txt"] = (START.parents[1] / "NOTICE").read_bytes()
    except CourseError as error:
        log.info("without a translator: %s", error)  # its control offers the recorded sentences
    files["tfm.js"] = classic_script("tfm", all_scripts()).encode()
    for name, checkpoint in weights.items():  # from a host a file, from a folder a script
        files |= {f"{name}.bin": checkpoint, f"{name}.js": weights_script(name, checkpoint).encode()}
    for name, content in files.items():
        Path(config.pages_files, name).write_bytes(content)


def signs(html: str) -> set[str]:
    """The signs of a page's headings and formulas: those in the text, and the italic that a letter becomes in these."""
    headings, formulas = (
        set(unescape(TAG.sub("", "".join(found[0] for found in kind.finditer(html))))) for kind in (HEADING, MATH)
    )
    return headings | formulas | {italic for letter in formulas if (italic := ITALIC.get(letter))}


def cut_font(app: Sphinx, error: Exception | None) -> None:
    """Writes the font of formulas and headings with the signs of all pages, and what these need to grow."""
    if error:
        return
    used = set().union(*(signs(page.read_text(encoding="utf-8")) for page in Path(app.outdir).rglob("*.html")))
    getLogger("fontTools.subset").setLevel("WARNING")
    options = subset.Options(flavor="woff", layout_features=["*"])
    font = subset.load_font(str(FONT), options)
    cut = subset.Subsetter(options)
    cut.populate(text="".join(used | {"√"}))  # a root is no sign of the text
    cut.subset(font)
    subset.save_font(font, str(Path(app.outdir, "_static", f"{FONT.stem}.woff")), options)


def describe(app: Sphinx, name: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Tells the template what a link to this page shows elsewhere, its first paragraph and a picture.

    And how a narrow head calls a second reading, of which it would otherwise show the lesson alone.
    """
    if name.endswith(ENDING):
        context["called"] = f"{context['title'].partition(' ')[0]} · second reading"
    first = next(doctree.findall(nodes.paragraph), None) if doctree else None
    context["about"] = " ".join(first.astext().split()) if first else None
    context["card"] = f"{app.config.html_baseurl or context['content_root']}_static/{CARD}"
    context["card_alt"] = card().alt


def keep_units(_: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None) -> None:
    """Ends no line of a text between a number and its unit."""
    context["body"] = BEFORE_UNIT.sub(lambda x: x["kept"] or x["claim"] + "\N{NO-BREAK SPACE}", context.get("body", ""))


def add_controls(
    app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    """Has the scripts of the controls loaded where there are any."""
    if 'class="tfm-control"' in context.get("body", ""):
        app.add_css_file(CSS.name)
        app.add_js_file("tfm.js")
        app.add_js_file("controls.js")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("pages_files", "", "")
    app.add_builder(Pages, override=True)
    app.add_directive("course-map", CourseMap)
    app.add_directive("machine", Machine)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
    app.connect("config-inited", make_files)
    app.connect("build-finished", cut_font)
    app.connect("doctree-read", name_terms)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", keep_units)
    app.connect("html-page-context", add_controls)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
