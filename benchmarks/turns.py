"""How all benchmarks measure: in turns, in CPU time, as ratios within a round; and how they write it down."""

import json
import os
import platform
import random
import time
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile
from tqdm.auto import tqdm


def take_turns(tasks: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1) -> dict[str, list[float]]:
    """CPU seconds of one call of each task, a figure per round; a first round warms up and is thrown away.

    The order is drawn anew in each round, so that other work on the machine hits all alike. A bar on stderr says how
    far it is, and the time that is left.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    order = list(tasks)
    for round_ in tqdm(range(rounds + 1), "rounds", leave=False):
        random.shuffle(order)
        for name in order:
            begin = time.process_time()
            for _ in range(repeats):
                tasks[name]()
            if round_:
                seconds[name].append((time.process_time() - begin) / repeats)
    return seconds


def ratios(seconds: dict[str, list[float]], baseline: str) -> dict[str, dict[str, float]]:
    """How many times as fast as the baseline each task is: median, least and most over the rounds."""
    rows = {}
    for name, measured in seconds.items():
        times = [theirs / ours for theirs, ours in zip(seconds[baseline], measured, strict=True)]
        rows[name] = {"median": median(times), "min": min(times), "max": max(times), "ms": 1000 * median(measured)}
    return rows


def peak_bytes(task: Callable[[], object]) -> int:
    """The most bytes that torch held at once while the task ran, above what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        result = task()
    held = most = 0
    for event in sorted(run.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    del result
    return most


def machine(*packages: str) -> dict[str, str]:
    """What the figures were measured on, and with which versions of `packages`."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    found = []
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} missing")
    return {
        "date": date.today().isoformat(),
        "processor": f"{model}, {os.cpu_count()} cores, {torch.get_num_threads()} thread used",
        "versions": ", ".join([f"Python {platform.python_version()}", *found]),
        "load at the start": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
    }


def write_record(script: str, record: Mapping[str, object], *firsts: str) -> None:
    """Write what a script has measured to the JSON beside it; each row, whose first key is one of these, has a line."""
    text = json.dumps(record, ensure_ascii=False)
    for first in firsts:
        text = text.replace(f'{{"{first}"', f'\n{{"{first}"')
    Path(script).with_suffix(".json").write_text(text + "\n", encoding="utf-8")
