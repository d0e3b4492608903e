"""The commands for teachers: what is handed out, and what is collected."""

from pathlib import Path
from typing import Annotated

from typer import Option

from tfm_lib.commands.lab import FOLDER, without_solutions
from tfm_lib.commands.options import expanded, integer

Folder = Annotated[Path, Option(parser=expanded, help="where to")]
Lessons = Annotated[Path, Option(parser=expanded, help="a folder, or a file.zip of the whole")]


def student(out: Lessons = Path("student_lessons")) -> None:
    """The lessons without solutions, to hand out."""
    if out.suffix.lower() == ".zip":
        from tfm_lib.commands.handing_out import bundle

        print(f"The course without its {bundle(out)} solutions is in {out}; unpacked, `make lab` opens it")
        return
    print(f"The lessons without their {without_solutions(FOLDER, out)} solutions are in {out}")


def answers(out: Folder = Path("answers")) -> None:
    """The solutions and answers, a page per lesson."""
    from tfm_lib.commands.handing_out import write_answers

    print(f"The answers to {write_answers(out)} lessons are in {out}")


def grade(
    dir: Annotated[Path, Option(parser=expanded, help="a notebook or a folder per student")] = Path("submissions"),
    out: Folder = Path("grades"),
    seed: Annotated[int, Option(parser=integer(0, 2**32 - 1), help="of the numbers that answers are tried on")] = 0,
) -> None:
    """Grade collected notebooks, each in a sandbox."""
    from tqdm import tqdm

    from tfm_lib.files import write_whole
    from tfm_lib.grading.grading import grade as graded
    from tfm_lib.grading.report import as_csv, as_feedback, as_page, as_sums
    from tfm_lib.grading.sandbox import find_sandbox

    with tqdm(desc="submissions", unit="") as bar:
        rows = graded(dir, find_sandbox(), seed, done=bar.update)
    write_whole(out / "grades.csv", as_csv(rows))
    write_whole(out / "sums.csv", as_sums(rows))
    write_whole(out / "mistakes.html", as_page(rows).encode())
    pages = as_feedback(rows)
    for name, page in pages.items():
        write_whole(out / "students" / f"{name}.html", page.encode())
    print(f"{len(pages)} submissions: {out / 'grades.csv'}, sums.csv, mistakes.html, and a page for each in students/")


def nbgrader(out: Folder = Path("nbgrader")) -> None:
    """The lessons as assignments of nbgrader."""
    from tfm_lib.commands.handing_out import write_assignments

    print(f"{write_assignments(out)} assignments are in {out}/source; there: nbgrader generate_assignment 01_attention")


COMMANDS = (student, answers, grade, nbgrader)
