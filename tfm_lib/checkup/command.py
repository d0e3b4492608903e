"""The command: a model named as module:name, examined, without a traceback whatever it does."""

import importlib
import inspect
import os
import sys
from pathlib import Path
from traceback import extract_tb
from typing import Any

from torch import nn

from tfm_lib.checkup.examine import checkup
from tfm_lib.checkup.measures import short
from tfm_lib.checkup.report import Report


def examined(target: str, ids: dict[str, Any], kind: str | None = None, quick: bool = False) -> Report:
    """The report on what `target`, such as "my_module:build", names: a model, or a function without arguments.

    That function returns a model, or a model and a dict of what `checkup` gets beside it; `ids` go before those.
    """
    module, _, name = target.partition(":")
    if not module or not name:
        return Report(problem=f"{target!r} names no model; give module:name, such as my_module:build")
    sys.path.insert(0, os.getcwd())
    try:
        thing = getattr(importlib.import_module(module), name)
        result = thing() if _builds(thing) else thing
    except Exception as error:
        return Report(problem=f"{target} raised {short(error)}{_where(error, module)}")
    except SystemExit as end:
        code = f"{target} ended Python with {end.code!r}"
        return Report(problem=f"{code}; put what it runs behind __name__ == '__main__'")
    finally:
        sys.path.remove(os.getcwd())
    return _report(result, target, {**ids, "quick": quick, **({} if kind is None else {"kind": kind})})


def assert_healthy(build: Any, **given: Any) -> None:
    """For tests: examine a model, or what `build()` returns, as `tfm checkup` does; `given` goes to `checkup`.

    Raises AssertionError with the report where something is sick, or could not be tried.
    """
    report = _report(build() if _builds(build) else build, getattr(build, "__name__", "it"), given)
    if report.exit_code:
        raise AssertionError(f"\n{report}")


def _report(result: Any, name: str, given: dict[str, Any]) -> Report:
    """The report on a model, or on a model and what `checkup` gets beside it; what is given here goes before that."""
    if problem := _unfit(result):
        return Report(problem=f"{name} gave {problem}")
    model, settings = result if isinstance(result, tuple) else (result, {})
    arguments = {**settings, **given}
    if arguments.get("vocab_size") is None:
        arguments["vocab_size"] = getattr(getattr(model, "config", None), "vocab_size", None)
    if arguments["vocab_size"] is None:
        return Report(problem="how many ids does it know? give --vocab-size, or vocab_size=")
    return checkup(model, **arguments)


def _unfit(result: Any) -> str:
    """Why this is neither a model nor a model and a dict for `checkup`; empty where it is."""
    if result is None:
        return "None; is its return missing?"
    parts = result if isinstance(result, tuple) else (result, {})
    if len(parts) != 2:
        return f"{len(parts)} things; return the model, or the model and a dict"
    if not isinstance(parts[1], dict):
        return f"{type(parts[1]).__name__} beside the model; give a dict, as {{'pad_id': 0}}"
    wanted = inspect.signature(checkup).parameters
    unknown = [key for key in parts[1] if key not in wanted or key == "model"]
    return f"{unknown[0]!r}, which checkup does not take; it takes {', '.join(wanted)}" if unknown else ""


def _where(error: Exception, module: str) -> str:
    """What helps to find an error: the folder of a module that is missing, and otherwise the line in this folder."""
    if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
        return "; run it from the folder of the module"
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).parent == Path.cwd()]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _builds(thing: Any) -> bool:
    """Whether it is a function or class that is called without arguments."""
    if isinstance(thing, nn.Module) or not callable(thing):
        return False
    needed = [a for a in inspect.signature(thing).parameters.values() if a.default is a.empty]
    return not [a for a in needed if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
