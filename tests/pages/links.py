"""Finds the links and headings of the course's texts, and asks the web whether an address still answers."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mistune
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests import ROOT

TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]
GONE = (404, 410)
HEADERS = {"User-Agent": "Mozilla/5.0 (a check of links, weekly)", "Accept": "*/*"}

parse = mistune.create_markdown(renderer=None, plugins=["math", "table", "url"])


def markdown_of(path: Path) -> list[str]:
    """The Markdown of a text: the whole of a file, or each Markdown cell of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [text]
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]


def walk(tokens: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for token in tokens:
        yield token
        yield from walk(token.get("children", []))


def flat(file: str) -> str:
    """A text of the course, with its lines joined."""
    return " ".join((ROOT / file).read_text(encoding="utf-8").split())


def table(file: str, section: str = "") -> list[dict[str, str]]:
    """The rows of the first table of a text, or of its section that begins so, by the names of the columns."""
    _, _, body = (ROOT / file).read_text(encoding="utf-8").partition(f"\n## {section}" if section else "\n")
    lines = [line for line in body.partition("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip("| ") for cell in line.removesuffix("|").split(" | ")] for line in lines]
    assert rows and all(len(row) == len(head) for row in rows), "a row has more or fewer cells than its table"
    return [dict(zip(head, row, strict=True)) for row in rows]


def sections(sources: list[str]) -> dict[str, str]:
    """What stands under each heading of a text, by the heading's name in links; what comes before all is under ""."""
    opening, *rest = re.split(r"^## ", "\n".join(sources), flags=re.MULTILINE)
    return {"": opening} | {slug(text.partition("\n")[0]): text for text in rest}


@cache
def links(path: Path) -> list[str]:
    """Where the links and pictures of a text lead, in order; what stands in code is none."""
    found = []
    for source in markdown_of(path):
        for token in walk(parse(source)):
            if token["type"] in ("link", "image"):
                found.append(token["attrs"]["url"])
            elif token["type"].endswith("html"):
                found += re.findall(r"(?:href|src)=[\"']([^\"']+)", token["raw"])
    return found


@cache
def anchors(path: Path) -> list[str]:
    """The names of a text's headings in links, as GitHub and the web pages form them."""
    headings = [t for source in markdown_of(path) for t in walk(parse(source)) if t["type"] == "heading"]
    return [
        slug("".join(part.get("raw", "") for part in walk(heading["children"]) if part["type"] != "inline_html"))
        for heading in headings
    ]


def slug(heading: str) -> str:
    """What GitHub makes of a heading: lower case, without marks, dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken(path: Path) -> list[str]:
    """The links of a text that lead to no file of the course, or to no heading of it."""
    found = []
    for link in links(path):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file if file else path).resolve()
        lost = anchor and target.suffix in (".md", ".ipynb") and target.exists() and anchor not in anchors(target)
        if lost or not target.exists() or not target.is_relative_to(ROOT):
            found.append(link)
    return found


def external_links() -> dict[str, list[str]]:
    """Every address that the course links to, without its anchor, and the names of the texts that do."""
    found: dict[str, list[str]] = {}
    for path in TEXTS:
        for link in links(path):
            if link.startswith(("http://", "https://")):
                names = found.setdefault(link.split("#")[0], [])
                names += [path.name] if path.name not in names else []
    return found


def why_dead(address: str, tries: int = 3, pause: float = 5.0, timeout: float = 20.0) -> str | None:
    """None if somebody answers at `address`, or else what happened.

    A server that refuses a program (401, 403, 429) is there, for people. One that fails is asked again.
    """
    retries = Retry(tries, backoff_factor=pause, status_forcelist=range(500, 600), raise_on_status=False)
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retries))
        try:
            with session.get(address, headers=HEADERS, timeout=timeout, stream=True) as answer:
                dead = answer.status_code in GONE or answer.status_code >= 500
                return f"{answer.status_code} {answer.reason}" if dead else None
        except requests.RequestException as error:  # no such host, refused, too slow, a certificate that is not valid
            return str(error)
