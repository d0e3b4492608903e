"""When stored outputs are compared, and what every kernel finds in its environment: how it rounds, above all."""

import os
import platform
import re
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

from .project import project

# How sums are rounded: the instructions of ATen's kernels (which draw random numbers, too), of MKL's matrix products
# and of oneDNN's convolutions. MKL obeys fully on Intel's processors only.
PINNED = "avx2"
PINS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
# What the variable of roundings may put in the place of the pins.
ROUNDINGS: dict[str, dict[str, str]] = {
    "default": {"ATEN_CPU_CAPABILITY": "default"},
    PINNED: PINS,
    "best": {},
    "compatible": PINS | {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "threads": PINS | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},  # a thread that waits may not spin
}


def variables(rounding: str = "") -> dict[str, str]:
    """The environment of this process, changed so that outputs repeat: of a kernel, of a worker.

    rounding: one of ROUNDINGS; by default the one that the environment names, or the pinned one.
    Raises ValueError for another name.
    """
    rounding = rounding or os.environ.get(project.rounding_variable) or PINNED
    if rounding not in ROUNDINGS:
        raise ValueError(f"{project.rounding_variable} must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    free = {variable for switch, variable in project.switches.items() if os.environ.get(switch) == "1"}
    inherited = {name: value for name, value in os.environ.items() if name not in {*PINS, "PYTHONSTARTUP"}}
    settled = {name: value for name, value in project.variables.items() if name not in free}
    return inherited | settled | {project.rounding_variable: rounding} | ROUNDINGS[rounding]


def settle() -> None:
    """Gives this process, and with it its kernels, that environment. Torch reads it when it is imported."""
    wanted = variables()
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


@cache
def locked_versions(lock: str) -> dict[str, Version]:
    """The versions that the text of a requirements file names for this Python and system."""
    lines = re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)
    requirements = [Requirement(line.strip()) for line in lines]
    here = [r for r in requirements if r.marker is None or r.marker.evaluate()]
    return {r.name: Version(next(iter(r.specifier)).version) for r in here}


def why_not_compared() -> list[str]:
    """The reasons for which outputs are not compared here; none in the locked environment, or without a lock."""
    reasons = [f"{switch}=1 is set" for switch in project.switches if os.environ.get(switch) == "1"]
    here = (platform.system(), platform.machine())
    if project.platform not in (None, here):
        reasons.append(f"this is {' on '.join(here)}, and not {' on '.join(project.platform)}")
    locked = locked_versions(project.lock.read_text(encoding="utf-8")) if project.lock else {}
    for name in project.packages:
        wanted = locked.get(name)
        try:
            installed = Version(metadata.version(name))
        except metadata.PackageNotFoundError:
            reasons.append(f"{name} is not installed")
            continue
        if installed != wanted:
            reasons.append(f"{name} is {installed}, the lock has {wanted or 'none for this Python'}")
    return reasons
