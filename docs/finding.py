"""Search that finds sections: each is a document of its own to the index, named `page#section`."""

from copy import copy
from pathlib import Path

from docutils import nodes
from docutils.utils import new_document
from sphinx.search import IndexBuilder


class Sections(IndexBuilder):
    """Sphinx's index of words, fed with the sections of a page instead of the page."""

    def feed(self, docname: str, filename: str | Path, title: str, doctree: nodes.document) -> None:
        for section in doctree.findall(nodes.section):
            name = f"{docname}#{section['ids'][0]}"
            heading = section.next_node(nodes.title).astext()
            super().feed(name, filename, title if heading == title else f"{title}: {heading}", alone(section))
            self._all_titles[name] = []  # what is in a title is found by its words

    def prune(self, docnames: list[str]) -> None:
        """Of a page that is there all sections are: the pages are always built anew."""


def alone(section: nodes.section) -> nodes.document:
    """A section without those within it."""
    copied = copy(section)
    copied.children = [child for child in section.children if not isinstance(child, nodes.section)]
    part = new_document("")
    part.children = [copied]
    return part
