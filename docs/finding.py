"""Search that finds sections: each is a document of its own to the index, named `page#section`.

A section is also found by the other names of the terms that it explains, which the glossary of symbols.md lists.
"""

import re
from collections import defaultdict
from copy import copy
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from second_reading import ENDING
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
            beginning = " ".join(one.astext() for one in section.children if isinstance(one, nodes.paragraph))
            self.beginnings[name] = shorten(beginning, LONGEST, placeholder=" …")
            super().feed(
                name,
                filename,
                title if heading == title else f"{title.removesuffix(': second reading')}: {heading}",
                alone(section, names[Path(docname).name.removesuffix(ENDING), section.get("slug", "")]),
            )
            self._all_titles[name] = []  # what is in a title is found by its words

    def prune(self, docnames: list[str]) -> None:
        """Of a page that is there all sections are: the pages are always built anew."""


def alone(section: nodes.section, names: str) -> nodes.document:
    """A section without those within it, and with the other names of its terms."""
    copied = copy(section)
    copied.children = [child for child in section.children if not isinstance(child, nodes.section)]
    copied.children.append(nodes.paragraph(names, names))
    part = new_document("")
    part.children = [copied]
    return part
