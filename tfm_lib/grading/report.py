"""What a teacher reads after grading: a table for the gradebook, and a page of what most got wrong."""

import csv
import io
from collections import Counter
from html import escape

from tfm_lib.ask.headings import heading
from tfm_lib.grading.grading import Row

COLUMNS = Row._fields
SHOWN = 3  # diagnoses of an exercise
STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }"""


def as_csv(rows: list[Row]) -> bytes:
    """A row for each exercise of a submission. No cell is a formula, which a spreadsheet would compute."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_harmless(value) for value in row])
    return text.getvalue().encode("utf-8-sig")  # by which Excel knows the alphabet


def _harmless(text: str) -> str:
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@")) else plain


def as_page(rows: list[Row]) -> str:
    """Exercises by how many got them wrong, each with its most frequent diagnoses; then what could not be read."""
    graded = [row for row in rows if row.exercise]
    wrong = Counter(row.exercise for row in graded if row.verdict == "wrong")
    order = sorted({row.exercise: 0 for row in graded}, key=lambda name: -wrong[name])
    parts = [_exercise(name, [row for row in graded if row.exercise == name]) for name in order]
    unread = [f"<li>{escape(row.submission)}: {escape(row.diagnosis)}</li>" for row in rows if not row.exercise]
    missed = f"<h2>Not read</h2>\n<ul>{''.join(unread)}</ul>" if unread else ""
    people = len({row.submission for row in rows})
    title = f"What most got wrong, of {people} submissions"
    head = f"<!doctype html>\n<html lang='en'>\n<meta charset='utf-8'>\n<title>{title}</title>\n<style>{STYLE}</style>"
    return "\n".join([head, f"<h1>{title}</h1>", *parts, missed, "</html>\n"])


def _exercise(name: str, rows: list[Row]) -> str:
    states = Counter(row.verdict for row in rows)
    called = heading(name)
    title = f"{called.file[:2]}, {called}" if called else name
    counts = ", ".join(f"{states[state]} {state}" for state in ("right", "wrong", "open", "missing") if states[state])
    said = Counter(row.diagnosis for row in rows if row.verdict == "wrong").most_common(SHOWN)
    lines = [f"<tr><td>{count}</td><td>{escape(diagnosis)}</td></tr>" for diagnosis, count in said]
    return f"<h2>{escape(title)}</h2>\n<p><code>{escape(name)}</code>: {counts}</p>\n<table>{''.join(lines)}</table>"
