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
    """Exercises by how many got them wrong, each with its most frequent diagnoses; then the others, in a line each."""
    graded = [row for row in rows if row.exercise]
    wrong = Counter(row.exercise for row in graded if row.verdict == "wrong")
    parts = [_exercise(name, graded) for name, _ in wrong.most_common()]
    others = dict.fromkeys(row.exercise for row in graded if row.exercise not in wrong)
    lines = [f"<li>{_title(name)}: {_counts(name, graded)}</li>" for name in others]
    unread, twice = (
        [f"<li>{escape(row.submission)}: {escape(row.diagnosis)}</li>" for row in rows if row.verdict == verdict]
        for verdict in ("unread", "twice")
    )
    lists = (("Wrong in no submission", lines), ("Not read", unread), ("Answered twice", twice))
    ends = [f"<h2>{title}</h2>\n<ul>{''.join(items)}</ul>" for title, items in lists if items]
    title = f"What most got wrong, of {len({row.submission for row in rows})} submissions"
    head = f"<!doctype html>\n<html lang='en'>\n<meta charset='utf-8'>\n<title>{title}</title>\n<style>{STYLE}</style>"
    return "\n".join([head, f"<h1>{title}</h1>", *parts, *ends, "</html>\n"])


def _title(name: str) -> str:
    called = heading(name)
    return escape(f"{called.file[:2]}, {called}" if called else name)


def _counts(name: str, rows: list[Row]) -> str:
    states = Counter(row.verdict for row in rows if row.exercise == name)
    return ", ".join(f"{states[state]} {state}" for state in ("right", "wrong", "open", "missing") if states[state])


def _exercise(name: str, rows: list[Row]) -> str:
    said = Counter(row.diagnosis for row in rows if (row.exercise, row.verdict) == (name, "wrong")).most_common(SHOWN)
    lines = [f"<tr><td>{count}</td><td>{escape(diagnosis)}</td></tr>" for diagnosis, count in said]
    counts = f"<p><code>{escape(name)}</code>: {_counts(name, rows)}</p>"
    return f"<h2>{_title(name)}</h2>\n{counts}\n<table>{''.join(lines)}</table>"
