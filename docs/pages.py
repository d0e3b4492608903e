"""What the web pages need beyond Sphinx and its extensions: lessons prepared for reading, formulas, the map."""

import re
from html import escape
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from math_core import LatexError, LatexToMathML
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tfm_lib.drawings import course_map

# The package is not imported: all that is wanted of it is a file. (The font is under the SIL Open Font License 1.1.)
FONT = Path(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf"))
REMOTE_PICTURE = re.compile(r"!\[([^\]]*)\]\(https?://[^)\s]*\)")

log = logging.getLogger(__name__)
formulas = LatexToMathML()


def read_lesson(text: str) -> NotebookNode:
    """The notebook as a page shows it: machinery folded, pictures with their alt text, none of them from the web.

    Raises ValueError for a picture without alt text, or a second one in a cell: MyST-NB has one alt text a cell.
    """
    book = nbformat.reads(text, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = REMOTE_PICTURE.sub(r"\1", cell.source)  # a badge becomes its words
        elif cell.cell_type == "code":
            if cell.id == "setup" or "tfm_lib.quiz" in cell.source:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
            if texts := alt_texts(cell):
                if len(texts) > 1 or not texts[0]:
                    raise ValueError(
                        f"cell {cell.id} shows pictures with the alt texts {texts}; wanted one picture that has one: "
                        "split the cell, or draw with a Figure of tfm_lib"
                    )
                cell.metadata["mystnb"] = {"image": {"alt": texts[0]}}
    return book


def alt_texts(cell: NotebookNode) -> list[str | None]:
    """What the pictures that a cell shows say in words, None where nobody wrote it."""
    shown = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    return [output.metadata.get("image/png", {}).get("alt") for output in shown]


def mathml(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Writes a formula as MathML, set in lines of its own where it is a block."""
    block = isinstance(node, nodes.math_block)
    try:
        formula = formulas.convert_with_local_state(node.astext(), displaystyle=block)
    except LatexError as error:
        log.warning("formula %r: %s", node.astext(), error, location=node)
        formula = f"<code>{self.encode(node.astext())}</code>"
    self.body.append(f'<div class="math">{formula}</div>\n' if block else formula)
    raise nodes.SkipNode


class CourseMap(SphinxDirective):
    """The map of the lessons, drawn for this build."""

    def run(self) -> list[nodes.Node]:
        figure = course_map()
        Path(self.config.pages_made, "course_map.png").write_bytes(figure.png())
        picture = f'<img src="_static/course_map.png" width="740" alt="{escape(figure.alt)}">'
        return [nodes.raw("", picture, format="html")]


class Writer(HTML5Translator):
    """Sphinx's own, but the captions over the lists of pages say which level of heading they are."""

    def starttag(self, node: nodes.Element, tagname: str, suffix: str = "\n", empty: bool = False, **attributes) -> str:
        if attributes.get("ROLE") == "heading":
            attributes["ARIA-LEVEL"] = "2"
        return super().starttag(node, tagname, suffix, empty, **attributes)


class Pages(StandaloneHTMLBuilder):
    """Ordinary pages, except that the first one, docs/index.md, stands at the top, where visitors arrive."""

    default_translator_class = Writer

    def get_output_path(self, page_name: str, /) -> Path:
        return super().get_output_path("index" if page_name == self.config.root_doc else page_name)

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        return super().get_target_uri("index" if docname == self.config.root_doc else docname, typ)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("pages_made", "", "")
    app.add_builder(Pages, override=True)
    app.add_directive("course-map", CourseMap)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
    app.connect("config-inited", lambda _, config: Path(config.pages_made, FONT.name).write_bytes(FONT.read_bytes()))
    return {"parallel_read_safe": False, "parallel_write_safe": True}
