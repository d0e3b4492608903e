"""Every link of the course leads somewhere: to files and headings here always, out into the web weekly."""

import http.server
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lessons.references import bare_references, stale_links
from tests.pages import links


@pytest.mark.parametrize("path", links.TEXTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    assert links.broken(path) == []


@pytest.mark.parametrize("path", [p for p in links.TEXTS if p.suffix == ".md"], ids=lambda path: path.name)
def test_references_to_lessons_are_links_with_the_numbers_of_today(path):
    """Those of the lessons are in their lint."""
    source = path.read_text(encoding="utf-8")
    assert list(stale_links(source, path)) == [], "run `make stamp`"
    if path.name not in ("CHANGELOG.md", "CONTRIBUTING.md"):  # the one tells of the past, the other shows examples
        assert list(bare_references(source)) == []


def test_links_are_found_and_checked(tmp_path, monkeypatch):
    """Also those of a text that is named from where one stands, as `author check notebooks/...` does."""
    monkeypatch.setattr(links, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("c.md").write_text("# Top\n\n[here](#top) [itself](c.md#top)\n")
    assert links.broken(Path("c.md")) == []
    (tmp_path / "b.md").write_text("# Why $i$ is `fast`, and *not* slow?\n")
    (tmp_path / "a.md").write_text(
        "# Top\n\n[good](b.md#why-i-is-fast-and-not-slow) [here](#top) ![no](picture.png) "
        "`[code](none.md)` $[x](y)$\n\n"
        "[out](https://example.org/a#b) <https://example.org/c> <a href='gone.md'>x</a> [up](../b.md)\n\n"
        "```\n[code](none.md)\n```\n\n| a |\n|---|\n| [no heading](b.md#slow) [nowhere](#bottom) |\n"
    )
    assert links.broken(tmp_path / "a.md") == ["picture.png", "gone.md", "../b.md", "b.md#slow", "#bottom"]
    monkeypatch.setattr(links, "TEXTS", [tmp_path / "a.md"])
    assert links.external_links() == {"https://example.org/a": ["a.md"], "https://example.org/c": ["a.md"]}


def test_who_answers_is_alive():
    answers = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(answers.pop(0))

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for codes in ([200], [403], [429], [500, 500, 200]):  # refuses programs, or was restarting
            answers[:] = codes
            assert links.why_dead(address, pause=0) is None
        for code in ("404 Not Found", "410 Gone", "503 Service Unavailable"):
            answers[:] = [int(code[:3])] * 4
            assert links.why_dead(address, pause=0) == code
        server.shutdown()
    assert "refused" in links.why_dead("http://127.0.0.1:9/", pause=0)


@pytest.mark.network
def test_the_web_still_answers():
    addresses = links.external_links()
    with ThreadPoolExecutor(8) as pool:
        reasons = dict(zip(addresses, pool.map(links.why_dead, addresses), strict=True))
    dead = [f"{address} in {', '.join(addresses[address])}: {why}" for address, why in reasons.items() if why]
    assert not dead, "\n".join(dead)
