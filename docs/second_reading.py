"""The second reading of a lesson on a page of its own, beside that of the first: one notebook, two pages.

Links of all pages lead to where a section has gone, and the contents of the first page list it in a second level.
"""

from collections.abc import Iterator
from copy import deepcopy
from posixpath import dirname, join, normpath, relpath
from urllib.parse import unquote

from docutils import nodes
from sphinx.builders.html import StandaloneHTMLBuilder

AFTER = "second-reading"  # the section with links to those that follow, which stays on the first page
ENDING = "_second_reading"


def ids(sections: list[nodes.Node]) -> set[str]:
    """What can be linked to in some sections."""
    return {name for one in sections for element in one.findall(nodes.Element) for name in element["ids"]}


def halves(doctree: nodes.document) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """What stands under the title of a page: that of the first reading, and the sections of the second."""
    children = list(doctree.next_node(nodes.section) or ())
    place = next((n for n, one in enumerate(children, 1) if isinstance(one, nodes.section) and AFTER in one["ids"]), 0)
    return (children[:place], children[place:]) if place else (children, [])


def entry(section: nodes.section) -> nodes.list_item:
    """A link to a section, in a list."""
    heading = section.next_node(nodes.title).astext().removeprefix("Deeper: ")
    link = nodes.reference("", heading[:1].upper() + heading[1:], refid=section["ids"][0], internal=True)
    return nodes.list_item("", nodes.paragraph("", "", link))


class TwoPages(StandaloneHTMLBuilder):
    """Writes a page, and another one of the sections after "Second reading" where there are any."""

    def prepare_writing(self, docnames: set[str]) -> None:
        super().prepare_writing(docnames)
        found = {name: ids(halves(self.env.get_doctree(name))[1]) for name in docnames}
        self.moved = {name: places for name, places in found.items() if places}
        for name in self.moved:
            self._announce(name)

    def _announce(self, name: str) -> None:
        """Tells Sphinx of the second page what it knows of pages, and splits the contents."""
        env, second = self.env, name + ENDING
        words = f"{env.titles[name].astext()}: second reading"
        env.titles[second] = env.longtitles[second] = nodes.title("", words)
        env.metadata[second], env.toc_num_entries[second] = {}, len(self.moved[name])
        self.relations[second] = [None, name, (self.relations.get(name) or [None] * 3)[2]]
        env.tocs[second] = deepcopy(env.tocs[name])
        for reference in env.tocs[second].findall(nodes.reference):
            reference["refuri"] = second
        entries, moved = (toc[0][-1] for toc in (env.tocs[name], env.tocs[second]))
        place = next(
            n for n, entry in enumerate(entries) if entry.next_node(nodes.reference)["anchorname"] == f"#{AFTER}"
        )
        last, later = entries[place], entries[place + 1 :]
        entries[:], moved[:] = entries[: place + 1], moved[place + 1 :]
        for entry in later:
            del entry[1:]  # two levels are enough
            reference = entry.next_node(nodes.reference)
            reference["anchorname"] = f"{self.get_target_uri(second).split('/')[-1]}{reference['anchorname']}"
        last += nodes.bullet_list("", *later)

    def _pages(self, name: str, doctree: nodes.document) -> Iterator[tuple[str, nodes.document]]:
        """The page of a document, or its two pages, with links that lead where it is written."""
        first, second = halves(doctree)
        if not second:
            yield name, self._lead(name, doctree)
            return
        top = doctree.next_node(nodes.section)
        title = nodes.title("", self.env.titles[name + ENDING].astext())
        back = nodes.reference("", self.env.titles[name].astext(), refid=top["ids"][0], internal=True)
        lead = nodes.paragraph(
            "",
            "",
            nodes.Text("These sections expand on those of "),
            back,
            nodes.Text(". They can be read in any order, and no later lesson needs them."),
        )
        listed = nodes.bullet_list("", *(entry(one) for one in second if isinstance(one, nodes.section)))
        for page, children in ((name, first), (name + ENDING, [title, lead, listed, *second])):
            document, section = doctree.copy(), top.copy()
            section.children, document.children = [], []
            section.extend(children)
            document += section
            yield page, self._lead(page, document)

    def _lead(self, page: str, doctree: nodes.document) -> nodes.document:
        """Changes the links to sections that have moved, and of these to the sections that have not."""
        here = self.get_target_uri(page)
        documents = {self.get_target_uri(name): name for name in self.moved}
        lesson = page.removesuffix(ENDING) if page.endswith(ENDING) else page
        for reference in doctree.findall(nodes.reference):
            address, _, place = reference.get("refuri", f"#{reference.get('refid', '')}").partition("#")
            name = documents.get(normpath(join(dirname(here), unquote(address)))) if address else lesson
            if name not in self.moved or not place:
                continue
            target = name + ENDING if place in self.moved[name] else name
            if address or target != page:
                reference.attributes.pop("refid", None)
                folder = "" if target == page else relpath(self.get_target_uri(target), dirname(here) or ".")
                reference["refuri"] = f"{folder}#{place}"
        return doctree

    def write_doc_serialized(self, docname: str, doctree: nodes.document) -> None:
        for name, page in self._pages(docname, doctree):
            super().write_doc_serialized(name, page)

    def write_doc(self, docname: str, doctree: nodes.document) -> None:
        for name, page in self._pages(docname, doctree):
            super().write_doc(name, page)
