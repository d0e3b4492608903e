"""What a teacher reads after grading: a table for the gradebook, and a page of what most got wrong."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from html import escape

from tfm_lib.ask.headings import heading
from tfm_lib.files import html_page
from tfm_lib.grading.grading import Row

VERDICTS = ("right", "wrong", "open", "missing")
SHOWN = 3  # diagnoses of an exercise


def as_csv(rows: list[Row]) -> bytes:
    """A row for each exercise of a submission."""
    lines = [[row.submission, row.exercise, _title(row.exercise), row.verdict, row.diagnosis] for row in rows]
    return _table(["submission", "exercise", "title", "verdict", "diagnosis"], lines)


def as_sums(rows: list[Row]) -> bytes:
    """A row for each submission: its verdicts, and the points of what is right, of an exercise its difficulty."""
    lines = []
    for name in dict.fromkeys(row.submission for row in rows):
        worth = [(row.verdict, _points(row.exercise)) for row in rows if row.submission == name and row.exercise]
        counts = [sum(verdict == which for verdict, _ in worth) for which in VERDICTS]
        points = sum(points for verdict, points in worth if verdict == "right")
        lines.append([name, *counts, points, sum(points for _, points in worth)])
    return _table(["submission", *VERDICTS, "points", "of"], lines)


def _table(columns: list[str], lines: Sequence[Sequence[object]]) -> bytes:
    """For a spreadsheet. No cell is a formula, which it would compute."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([columns, *([_harmless(str(value)) for value in line] for line in lines)])
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
    lines = [f"<li>{escape(_title(name))}: {_counts(name, graded)}</li>" for name in others]
    unread, twice = (
        [f"<li>{escape(row.submission)}: {escape(row.diagnosis)}</li>" for row in rows if row.verdict == verdict]
        for verdict in ("unread", "twice")
    )
    lists = (("Wrong in no submission", lines), ("Not read", unread), ("Answered twice", twice))
    ends = [f"<h2>{title}</h2>\n<ul>{''.join(items)}</ul>" for title, items in lists if items]
    title = f"What most got wrong, of {len({row.submission for row in rows})} submissions"
    return html_page(title, [*parts, *ends])


def as_feedback(rows: list[Row]) -> dict[str, str]:
    """A page for each submission, by its name, to give back: what is said of each exercise."""
    pages = {}
    for name in dict.fromkeys(row.submission for row in rows):
        own = [(_title(row.exercise), row.verdict, row.diagnosis) for row in rows if row.submission == name]
        lines = [f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in own]
        pages[name] = html_page(f"Exercises of {escape(name)}", [f"<table>{''.join(lines)}</table>"])
    return pages


def _title(name: str) -> str:
    called = heading(name)
    return f"{called.file[:2]}, {called}" if called else name


def _points(name: str) -> int:
    called = heading(name)
    return called.difficulty if called else 0


def _counts(name: str, rows: list[Row]) -> str:
    states = Counter(row.verdict for row in rows if row.exercise == name)
    return ", ".join(f"{states[state]} {state}" for state in VERDICTS if states[state])


def _exercise(name: str, rows: list[Row]) -> str:
    said = Counter(row.diagnosis for row in rows if (row.exercise, row.verdict) == (name, "wrong")).most_common(SHOWN)
    lines = [f"<tr><td>{count}</td><td>{escape(diagnosis)}</td></tr>" for diagnosis, count in said]
    counts = f"<p><code>{escape(name)}</code>: {_counts(name, rows)}</p>"
    return f"<h2>{escape(_title(name))}</h2>\n{counts}\n<table>{''.join(lines)}</table>"
