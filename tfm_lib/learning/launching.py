"""Several processes for one command: torchrun starts them, and of their failures one is reported, the cause."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence

import torch.distributed.run as torchrun
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ErrorHandler, ProcessFailure

from tfm_lib.errors import CourseError, course_errors

STOPS = (signal.SIGINT, signal.SIGTERM)
STOPPED = 130  # the exit status of a program that was interrupted, as shells have it


def launch(number: int, command: Sequence[str]) -> None:
    """Run `python -m tfm_lib COMMAND` in `number` processes of this machine, which talk over its loopback only.

    Raises KeyboardInterrupt where they were stopped, ChildProcessError where one was killed, ValueError with the
    message of an error that names its fix, and torchrun's ChildFailedError, with the traceback, for any other.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // number)))
    if loopback := {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback.pop()
    logging.disable()  # torchrun's reports of what the errors below say in a line
    try:
        where = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={number}"]
        torchrun.main([*where, "-m", "tfm_lib", *command])
    except SignalException as stop:
        raise KeyboardInterrupt from stop
    except ChildFailedError as failed:
        rank, cause = min(failed.failures.items(), key=lambda item: _order(item[1]))
        if cause.exitcode == STOPPED:
            raise KeyboardInterrupt from failed
        if cause.exitcode < 0:
            if rank == 0:
                print(file=sys.stderr)  # its progress bar has not ended its line
            ended = f"worker {rank} of {number} (counted from 0) was ended by {cause.signal_name()}"
            raise ChildProcessError(ended) from failed
        kind, _, text = _message(cause).partition(": ")
        if kind == CourseError.__name__:
            raise CourseError(text) from failed
        raise
    finally:
        logging.disable(logging.NOTSET)


def _order(failure: ProcessFailure) -> tuple[bool | int, ...]:
    """The cause sorts first: a worker that loses another one fails too, and torchrun ends the rest by SIGTERM."""
    follows = (failure.exitcode == -signal.SIGTERM, _message(failure).startswith("RuntimeError"))
    return (*follows, failure.exitcode >= 0, failure.exitcode != STOPPED, failure.timestamp)


def _message(failure: ProcessFailure) -> str:
    """A worker's error as "ValueError: ...", where it was recorded."""
    return failure.message["message"] if isinstance(failure.message, dict) else failure.message


def run(command: Callable[[], None]) -> None:
    """Run a command, and end the process unless it succeeds; torchrun reports an error once, not every worker.

    From the command's end on SIGINT and SIGTERM are ignored: torchrun sends one to a worker that has lost another and
    is ending already. The record of its error would be cut short, and Python's shutdown answer with a traceback.
    """
    errors = ErrorHandler()
    errors.initialize()
    try:
        try:
            course_errors(command)
        finally:
            for name in STOPS:
                signal.signal(name, signal.SIG_IGN)
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except Exception as error:
        errors.record_exception(error)
        sys.exit(1)
