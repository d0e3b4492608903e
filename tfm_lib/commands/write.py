"""`write`: texts in, a summary a line out."""

import argparse
import io
import os
import sys
from itertools import islice

from tfm_lib.errors import CourseError


def write(args: argparse.Namespace) -> None:
    """Summarize texts: a line of standard output for each; what is to be said about one goes to standard error.

    With a count above 1, a line per summary: its probability and it, after the number of the file's line. A text that
    can't be summarized leaves an empty line, or none under a count, and the exit status is 1.
    """
    from tfm_lib.data.texts import check_text, open_texts
    from tfm_lib.pretrained.summarizer import ROWS, Summarizer

    if args.text is not None and args.file is not None:
        raise CourseError("a text and a file are two things to summarize; give one of them")
    if args.text is None and args.file is None and sys.stdin.isatty():
        raise CourseError("what to summarize? make write TEXT='...' or FILE=texts.txt; without make, --text or --file")
    if args.text is not None:
        name, lines = "the text", iter([check_text(args.text)])
    else:
        name, lines = open_texts(args.file or "-")
    summarizer = Summarizer.load(args.model)
    _say(f"Model: {summarizer.name}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as the texts are read
    at_once = 1 if name == "standard input" and sys.stdin.isatty() else ROWS  # who types waits for an answer
    numbered, number, failed = enumerate(lines, start=1), 0, False
    try:
        while batch := list(islice(numbered, at_once)):
            found = iter(summarizer.candidates([x for _, x in batch if isinstance(x, str)], args.count, args.beams))
            for number, text in batch:
                where, first = (name, []) if args.text is not None else (f"{name}, line {number}", [str(number)])
                if isinstance(text, ValueError):
                    failed = True
                    _say(f"error: {where}: {text}")
                    print(end="\n" if args.count == 1 else "")
                    continue
                for remark in summarizer.remarks(text):
                    _say(f"{where}: {remark}")
                for summary, probability in next(found):
                    line = " ".join(summary.split())
                    print(*([*first, f"{probability:.3g}", line] if args.count > 1 else [line]), sep="\t")
            sys.stdout.flush()
    except BrokenPipeError:  # who reads wants no more; what is still in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if not number:
        raise CourseError(f"{name}: no texts in it; give each a line, or a single one with TEXT='...' or --text")
    if failed:
        sys.exit(1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
