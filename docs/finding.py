"""Search that finds sections: each is a document of its own to the index, named `page#section`.

A section is also found by the other names of the terms that it explains, which the glossary of symbols.md lists. Each
row of the glossary is found, too.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from second_reading import ENDING
from sphinx.application import Sphinx
from sphinx.search import IndexBuilder

GLOSSARY = Path(__file__).resolve().with_name("symbols.md")
LONGEST = 220  # letters of a section's beginning
ROW = re.compile(
    r"^\| (?P<term>[^|]+) \| (?P<others>[^|]+) \| .*\]\((?P<file>[^)]+)#(?P<anchor>[^)]+)\) \|$", re.MULTILINE
)


def other_names() -> dict[tuple[str, str], str]:
    """The terms of the glossary and their other names, by the name of a page and the anchor of a section."""
    found: defaultdict[tuple[str, str], str] = defaultdict(str)
    for row in ROW.finditer(GLOSSARY.read_text(encoding="utf-8").partition("## Glossary")[2].partition("\n## ")[0]):
        found[Path(row["file"]).stem, row["anchor"]] += f"{row['term']}, {row['others']}. "
    return found


def terms(doctree: nodes.Node) -> Iterator[nodes.row]:
    """The rows of the glossary, where there is one: a term, its other names, what it is, and where it is explained."""
    for section in doctree.findall(nodes.section):
        if "glossary" in section["ids"]:
            yield from (row for body in section.findall(nodes.tbody) for row in body.findall(nodes.row))


def name_terms(_: Sphinx, doctree: nodes.document) -> None:
    """Gives each row of the glossary a name that can be linked to, and marks where a term has no other one."""
    for row in terms(doctree):
        term, others, *_ = row.children
        row["ids"].append(nodes.make_id(f"term {term.astext()}"))
        if others.astext() == "\N{EN DASH}":
            row["classes"].append("nameless")


class Sections(IndexBuilder):
    """Sphinx's index of words, fed with the sections of a page instead of the page; and how each of them begins."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.beginnings: dict[str, str] = {}

    def feed(self, docname: str, filename: str | Path, title: str, doctree: nodes.document) -> None:
        names = other_names()
        for section in doctree.findall(nodes.section):
            name, heading = f"{docname}#{section['ids'][0]}", section.next_node(nodes.title).astext()
            if heading.startswith("The same questions") or (docname.endswith(ENDING) and heading == title):
                continue  # a page with scripts hides them behind the quiz; or a title alone
            part = alone(section, names[Path(docname).name.removesuffix(ENDING), section.get("slug", "")])
            called = title if heading == title else f"{title.removesuffix(': second reading')}: {heading}"
            text = [one for one in section.children if isinstance(one, nodes.paragraph)]
            self._add(name, filename, called, part, text)
        for row in terms(doctree):
            term, others, meaning, _ = (cell.astext() for cell in row.children)
            told = nodes.section("", nodes.title("", term), nodes.paragraph("", f"{others}. {meaning}"), ids=[""])
            self._add(f"{docname}#{row['ids'][0]}", filename, f"Glossary: {term}", document(told), [row.children[2]])

    def _add(
        self, name: str, filename: str | Path, title: str, part: nodes.document, beginning: list[nodes.Node]
    ) -> None:
        """One document of the index; how it begins is told without formulas that only TeX can read."""
        told = nodes.container("", *(one.deepcopy() for one in beginning))
        for formula in [math for math in told.findall(nodes.math) if "\\" in math.astext()]:
            formula.parent.replace(formula, nodes.Text("…"))
        self.beginnings[name] = shorten(" ".join(one.astext() for one in told), LONGEST, placeholder=" …")
        super().feed(name, filename, title, part)
        self._all_titles[name] = []  # what is in a title is found by its words

    def prune(self, docnames: list[str]) -> None:
        """Of a page that is there all sections are: the pages are always built anew."""


def alone(section: nodes.section, names: str) -> nodes.document:
    """A section without those within it, and without the rows of the glossary; with the other names of its terms."""
    copied = copy(section)
    apart = (nodes.section, nodes.container) if "glossary" in section["ids"] else nodes.section
    copied.children = [child for child in section.children if not isinstance(child, apart)]
    copied.children.append(nodes.paragraph(names, names))
    return document(copied)


def document(*children: nodes.Element) -> nodes.document:
    part = new_document("")
    part.children = [*children]
    return part
