"""Docstrings become pairs by the rules of PEP 257, and no package's code runs for it."""

import sys

import pytest

from tfm_lib.data.docstrings import docstrings, docstrings_of_code, harvest, pair_of

BODY = "It is the number of edges that end at the node, and each loop counts for two of them."

CODE = '''"""A module."""
import something_that_is_not_there

class Graph:
    """A class."""

    def degree(self):
        """A method."""

        def helper():
            "A function in it."

    async def wait(self): "One that waits."

def bare(): return "no docstring"
'''


def test_every_docstring_is_found_in_the_order_of_the_file():
    found = ["A module.", "A class.", "A method.", "A function in it.", "One that waits."]
    assert list(docstrings_of_code(CODE)) == found
    for no_python in ("def {{ name }}():", b"x = '\xff'", "a\0b"):
        assert list(docstrings_of_code(no_python)) == []


def test_the_first_line_is_the_summary_and_the_text_below_it_the_article():
    pair = pair_of(f"Return the degree of a node.\n\n{BODY}\n\nMore of\n  it.")
    assert pair == (f"{BODY} More of it.", "Return the degree of a node.")


@pytest.mark.parametrize(
    "end",
    ["Parameters\n----------\nnode : int", "Args:\n  node: one", "Example::\n", ">>> degree(1)", ":param node: one",
     ".. note::\n   loops", "See Also\n========\nedges"],
)  # fmt: skip
def test_the_article_ends_where_prose_ends(end):
    assert pair_of(f"Return the degree of a node.\n\n{BODY}\n\n{end}\n\n{BODY}").article == BODY


@pytest.mark.parametrize(
    "docstring",
    [
        "Return the degree of a node.",
        f"Return the degree\nof a node.\n\n{BODY}",
        f"Degree.\n\n{BODY}",
        "Return the degree of a node.\n\nToo short.",
        f"{'very ' * 18}long\n\n{BODY}",
        f"Return the degree of a node.\n\nParameters\n----------\n{BODY}",
        "",
    ],
)
def test_what_has_no_summary_and_article_is_no_pair(docstring):
    assert pair_of(docstring) is None


def test_a_package_is_read_and_not_imported_and_an_article_comes_once(tmp_path, monkeypatch):
    """It fails where it is imported, and has tests and a copy of another package inside."""
    folder = tmp_path / "graphs_of_ours"
    text = f'raise SystemExit\ndef a():\n    """Return the degree of a node.\n\n    {BODY}"""\n'
    for name in ("__init__.py", "b.py", "tests/test_b.py", "_vendor/other.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("that end", f"that end, says {name},"))
    monkeypatch.syspath_prepend(tmp_path)
    assert len(list(docstrings(folder.name))) == 2  # neither those of its tests nor those of others
    (folder / "c.py").write_text((folder / "b.py").read_text())
    assert len(list(docstrings(folder.name))) == 3
    articles = [pair.article for pair in harvest(folder.name)]
    assert ["says __init__.py," in articles[0], "says b.py," in articles[1]] == [True, True] and len(articles) == 2
    assert folder.name not in sys.modules


@pytest.mark.parametrize("name", ["no_such_package", "this"])
def test_what_is_no_package_is_named(name):
    with pytest.raises(ValueError, match=f"{name} is no installed package; give one"):
        list(docstrings(name))
