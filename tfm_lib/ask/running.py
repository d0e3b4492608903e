"""Runs what a learner wrote, whatever it does: it may loop, raise, print, draw random numbers or change its input."""

import ctypes
import io
import random
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from tfm_lib.ask.comparing import difference
from tfm_lib.ask.exercise import Exercise, Inputs

SECONDS = 3.0  # of computing, however many other programs share the machine
WAITING = 60.0  # seconds by the clock on the wall, for an answer that sleeps or asks for input
STANDARD, OURS = sysconfig.get_paths()["stdlib"], str(Path(__file__).parent.parent)
UNCOUNTED = ("__get__", "__len__", "size", "dim", "numel", "is_floating_point", "__repr__", "__format__")


class OutOfTime(BaseException):
    """Says which time ran out. Not an Exception, so that an `except Exception` of a learner does not swallow it."""


@dataclass
class Outcome:
    """What came of one call of an answer."""

    value: Any = None
    error: BaseException | None = None
    changed: list[str] = field(default_factory=list)  # names of the inputs that the answer changed
    calls: list[str] = field(default_factory=list)  # names of torch's functions, in order
    line: str = ""  # of the learner's code that the error came from, as far as Python still has it

    def agrees(self, other: "Outcome", tolerance: float) -> bool:
        """Whether this gave the value that the other, ours, gave, or raised the same kind of error."""
        if self.error or other.error:
            return self.error is not None and other.error is not None and isinstance(self.error, type(other.error))
        return difference(other.value, self.value, tolerance) is None


class _Calls(TorchFunctionMode):
    """Writes down the calls of torch's functions; reading a shape or another attribute is none, nor is printing."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name not in UNCOUNTED:
            self.names.append((resolve_name(func) or name).rpartition(".")[2])
        return func(*args, **(kwargs or {}))


def outcome(exercise: Exercise, answer: Any, inputs: Inputs) -> Outcome:
    """What `answer` makes of a copy of `inputs`."""
    if exercise.cases is None:
        return Outcome(answer)
    torch.default_generator.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    given, calls = deepcopy(inputs), _Calls()
    try:
        with calls:
            value = exercise.call(answer, **given)
    except OutOfTime:
        raise
    except BaseException as error:  # SystemExit and its like
        return Outcome(error=error, calls=calls.names, line=_line(error))
    changed = [name for name in inputs if difference(inputs[name], given[name], 0.0) is not None]
    return Outcome(value, changed=changed, calls=calls.names)


def _line(error: BaseException) -> str:
    """The innermost line of the learner's code; what the package raises, such a line has called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.line for f in frames if not f.filename.startswith((OURS, STANDARD)) and "site-packages" not in f.filename]
    return own[-1] or "" if own else ""


@contextmanager
def _state_restored() -> Iterator[None]:
    """Random numbers, torch's default type and number of threads afterwards are those from before."""
    threads = torch.get_num_threads()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    of_python, of_numpy, dtype = random.getstate(), np.random.get_state(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)


@contextmanager
def _stop_unheard() -> Iterator[None]:
    """Where the stop strikes Python's own tidying up, Python prints a note that says nothing to a learner."""
    unraisable, in_thread = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda event: None if event.exc_type is OutOfTime else unraisable(event)
    threading.excepthook = lambda event: None if event.exc_type is OutOfTime else in_thread(event)
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, in_thread


def _clock() -> Callable[[], float]:
    """A clock that tells every thread for how many seconds the calling thread has computed.

    Where the system has none for a single thread (macOS, Windows), the clock of the process stands in for it: the
    other threads of a kernel do next to nothing meanwhile.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        start = time.process_time()
        return lambda: time.process_time() - start
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def computed() -> float:
        with suppress(OSError):  # the thread has ended
            return time.clock_gettime(clock)
        return 0.0

    return computed


def _wait(thread: threading.Thread, clocks: list[Callable[[], float]], seconds: float) -> str:
    """Wait until the thread is done or a time is up; returns which time that was, and "" if the thread is done.

    `clocks` holds the thread's clock, once it has begun. Nothing computes for a second in less than a second, so the
    clock is looked at again when the rest could be over.
    """
    end = time.monotonic() + WAITING
    while thread.is_alive():
        left, patience = seconds - (clocks[0]() if clocks else 0.0), end - time.monotonic()
        if left <= 0:
            loop = "is there a loop that never stops, or a very slow one?"
            return f"It did not come to an end within {seconds:g} seconds of computing: {loop}"
        if patience <= 0:
            return f"It did not come to an end within {WAITING:g} seconds: does it sleep, or wait for input?"
        thread.join(max(0.01, min(left, patience)))
    return ""


def guarded(function: Callable[[], Any], times: int = 1) -> tuple[Any, str]:
    """Calls `function` in a thread of its own; returns what it returned and what it printed.

    A thread can be stopped from outside on every system: Python raises an error in it between two of its steps. An
    answer that catches even that is left behind, running. While one step in C holds the interpreter's lock, as in
    sum(range(10**10)), the clock is not looked at. Raises OutOfTime after `times` SECONDS of computing or WAITING
    seconds in all, and otherwise what `function` raised.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    clocks: list[Callable[[], float]] = []

    def work() -> None:
        clocks.append(_clock())
        try:
            torch.set_num_threads(1)  # for tensors this small more of them only wait, on busy cores for seconds
            results.append(function())
        except BaseException as error:
            errors.append(error)

    late, printed = "You stopped it.", io.StringIO()
    with _state_restored(), _stop_unheard(), redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        with suppress(KeyboardInterrupt):  # a reader who stops the cell stops the answer
            late = _wait(thread, clocks, times * SECONDS)
        give_up = time.monotonic() + 1
        while thread.is_alive() and not (results or errors) and time.monotonic() < give_up:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(OutOfTime))
            thread.join(0.05)
    if results:
        return results[0], printed.getvalue()
    if errors and not isinstance(errors[0], OutOfTime):
        raise errors[0]
    raise OutOfTime(late)
