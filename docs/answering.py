"""Exercises that ask for one number can be answered on their page, by the words of the notebook's own check."""

import json
import re
from html import escape
from math import isfinite

from nbformat import NotebookNode
from nbformat.v4 import new_output

from tfm_lib.ask.checks import find
from tfm_lib.ask.headings import CHECKED

ASKED = re.compile(r"from tfm_lib\.ask\.checks import check\n\n\w+ = \.\.\.\n\ncheck\(.*\)")  # and no more


def field(cell: NotebookNode) -> list[NotebookNode]:
    """A field for the answer of an exercise, if it is one number; what `answering.js` knows of it is beside it."""
    name = CHECKED.search(cell.source) if ASKED.fullmatch(cell.source) else None
    exercise = find(name[1]) if name else None
    if exercise is None or exercise.cases or not isinstance(wanted := exercise.reference(), int | float):
        return []

    def known(value: float, words: str) -> list[float | str]:
        return [value, 0 if isinstance(value, int) else exercise.tolerance, words]

    mistakes = [known(one(), " ".join((one.__doc__ or "").split())) for one in exercise.mistakes if isfinite(one())]
    data = escape(json.dumps([known(wanted, f"Right. {exercise.right}"), *mistakes]))
    form = (
        f'<form class="answer" data-known="{data}"><label>Your answer: '
        '<input autocomplete="off" enterkeyhint="done"></label> <button>Check</button><output></output></form>'
    )
    return [new_output("display_data", {"text/html": form})]
