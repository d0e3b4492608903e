"""A writer with its options: with several beams, by sampling, at a low temperature, out of the best words alone."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tfm_lib.checkup.beams import known, unused
from tfm_lib.checkup.conventions import arguments
from tfm_lib.checkup.given import Write, writer
from tfm_lib.checkup.measures import of_a_hook, short
from tfm_lib.checkup.steps import best, steps
from tfm_lib.checkup.subject import Found, Subject
from tfm_lib.checkup.texts import texts, written
from tfm_lib.checkup.watch import called

BEAMS = r"(num_|n_)?beams?(_size|_width)?"
DRAWS = {r"(do_|use_)?sampl(e|ing)": (False, True), "greedy": (True, False)}  # by default, and for drawing
# The defaults of options that shape what is drawn, and what is tried: the most probable word alone may then come.
SHAPES = {"top_?k": ((None, 0), 1), "top_?p|nucleus": ((None, 0, 1), 0.5), "temp(erature)?": ((None, 1), 1e-3)}
DRAWN = 5  # times for three texts: of two words that are as probable, one is not drawn 15 times by chance


def options(subject: Subject, src: Tensor) -> Iterator[Found]:
    """Write with three beams where one is the default; and by sampling, where that can be switched on."""
    defaults = {argument.name: argument.default for argument in arguments(subject.generate)}

    def named(pattern: str, *values: Any) -> list[str]:
        return [name for name, value in defaults.items() if re.fullmatch(pattern, name) and value in values]

    for name in named(BEAMS, 1)[:1]:
        yield from _with(
            subject, {name: 3}, lambda write, one: texts(subject, write, one, src, written(subject, write, src))
        )
    draws = {name: on for pattern, (off, on) in DRAWS.items() for name in named(pattern, off)}
    if found := list(_with(subject, draws, lambda write, one: steps(subject, write)) if draws else []):
        yield from found
        return
    for pattern, (usual, value) in SHAPES.items():
        for name in named(pattern, *usual):
            yield from _with(subject, draws | {name: value}, lambda write, one: _first(subject, write))


def _with(subject: Subject, given: dict[str, Any], probe: Callable[[Write, bool], Iterator[Found]]) -> Iterator[Found]:
    """What a probe finds where the writer is given these options; nothing where it refuses them at once."""
    generate, writes, words = subject.generate, subject.writes, ", ".join(f"{name}={x}" for name, x in given.items())
    assert generate is not None
    subject.generate, subject.writes = partial(generate, **given), None
    try:
        with called() as calls:
            write, single = writer(subject)
        if calls or subject.module is None:
            yield from ((code, f"with {words}, {seen}", *part) for code, seen, *part in probe(write, single))
    except Exception as error:
        if not of_a_hook(error):
            yield "generate.fails", f"with {words} it raised {short(error)}."
    finally:
        subject.generate, subject.writes = generate, writes


def _first(subject: Subject, write: Write) -> Iterator[Found]:
    """Draw where one word is a little more probable than a second, and no other is: which comes first."""
    text, words = unused(subject)
    if len(words) < 2:
        return
    two, src = words[:2], text.expand(3, -1)
    with known(subject, two[0], two[1], {}), torch.no_grad():
        rows = [best(row) for seed in range(DRAWN) for row in written(subject, write, src, seed)]
    first = {next((token for token in row if token in two), "another") for row in rows}
    if wrong := first - {two[0]} if not any(isinstance(token, str) for row in rows for token in row) else ():
        yield "generate.choice", f"{two[0]} was the most probable word, and {wrong.pop()} was drawn."
