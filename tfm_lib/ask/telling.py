"""What is said about answers: with colors and links in a notebook, with colors in a terminal, and else as text."""

import sys
import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

# What a sign stands for is never said by its color alone. These are read on white and on black: in a page and, as
# numbers of ANSI, in a terminal.
SIGNS = {"open": "○", "wrong": "✗", "right": "✓"}
COLORS = {"right": ("#2a8a45", 32), "wrong": ("#d1453b", 31), "open": ("#7a7a7a", 90)}

WIDTH = 88  # of a line that JupyterLab shows whole


class Piece(NamedTuple):
    """A part of a line: its text, the state that gives it a color, and where it leads."""

    text: str
    state: str | None = None
    link: str | None = None


Line = Sequence[Piece | str]


def tell(lines: Sequence[Line], plain: bool = False) -> None:
    """Say these lines where they are read; `plain` ones as text everywhere."""
    rows = [[piece if isinstance(piece, Piece) else Piece(piece) for piece in line] for line in lines]
    text = "\n".join("".join(piece.text for piece in row) for row in rows)
    if not plain and _in_notebook():
        from IPython.display import display

        links = "google.colab" not in sys.modules  # which opens no file beside the notebook
        body = "\n".join("".join(_html(piece, links) for piece in row) for row in rows)
        page = f'<pre style="white-space: pre-wrap; margin: 0">{body}</pre>'
        display({"text/plain": text, "text/html": page}, raw=True)
    elif not plain and sys.stdout.isatty():
        print("\n".join("".join(map(_ansi, row)) for row in rows))
    else:
        print(text)


def wrapped(text: str, indent: str, next_indent: str) -> str:
    """Lines that JupyterLab shows whole, since it would break them in the middle of a word or number."""
    wrapper = textwrap.TextWrapper(WIDTH, indent, next_indent, break_on_hyphens=False, break_long_words=False)
    wrapper.replace_whitespace = False
    return wrapper.fill(text)


def _html(piece: Piece, links: bool) -> str:
    body = escape(piece.text)
    if piece.state:
        body = f'<b style="color: {COLORS[piece.state][0]}">{body}</b>'
    return f'<a href="{escape(piece.link)}">{body}</a>' if piece.link and links else body


def _ansi(piece: Piece) -> str:
    return f"\x1b[{COLORS[piece.state][1]}m{piece.text}\x1b[0m" if piece.state else piece.text


def _in_notebook() -> bool:
    """Whether a kernel runs this, which shows more than text."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")
