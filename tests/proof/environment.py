"""When committed outputs are compared, and what every kernel finds in its environment: how it rounds, above all."""

import os
import platform
import re
import shutil
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
UV = shutil.which(os.environ.get("UV") or "uv") or shutil.which(ROOT / ".uv/bin/uv")  # as the Makefile finds it
# One thread: more change the last digits of a sum. No GPU, no network: a learner may have neither. No exercise is done.
ONE_KIND = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TFM_NO_PROGRESS": "1"}
# With these set, cells use what a plain run has not, and their outputs are another's.
SPECIAL = {"TFM_GPU": "CUDA_VISIBLE_DEVICES", "TFM_NETWORK": "HF_HUB_OFFLINE"}
DECIDE_OUTPUTS = [
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "pillow",
    "ipython",
    "ipykernel",
    "ipywidgets",
    "d2l",
    "tokenizers",
    "rouge-score",
    "networkx",  # whose docstrings lesson 11 reads, beside those of numpy, scipy, pandas and matplotlib
]

# How sums are rounded: the instructions of ATen's kernels (which draw random numbers, too), of MKL's matrix products
# and of oneDNN's convolutions. MKL obeys fully on Intel's processors only.
PINNED = "avx2"
PINS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
# What TFM_ROUNDING may put in the place of the pins.
ROUNDINGS: dict[str, dict[str, str]] = {
    "default": {"ATEN_CPU_CAPABILITY": "default"},
    PINNED: PINS,
    "best": {},
    "compatible": PINS | {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "threads": PINS | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},  # a thread that waits may not spin
    "perturbed": PINS | {"PYTHONSTARTUP": str(ROOT / "tests/proof/perturbed.py")},
}


def variables(rounding: str = "") -> dict[str, str]:
    """The environment of this process, changed so that outputs repeat: of a kernel, of a worker.

    rounding: one of ROUNDINGS; by default the one that TFM_ROUNDING names, or the pinned one.
    Raises ValueError for another name.
    """
    rounding = rounding or os.environ.get("TFM_ROUNDING") or PINNED
    if rounding not in ROUNDINGS:
        raise ValueError(f"TFM_ROUNDING must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    kept = {variable for switch, variable in SPECIAL.items() if os.environ.get(switch) == "1"}
    inherited = {name: value for name, value in os.environ.items() if name not in {*PINS, "PYTHONSTARTUP"}}
    settled = {name: value for name, value in ONE_KIND.items() if name not in kept}
    return inherited | settled | {"TFM_ROUNDING": rounding} | ROUNDINGS[rounding]


def settle() -> None:
    """Gives this process, and with it its kernels, that environment. Torch reads it when it is imported."""
    wanted = variables()
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def locked_versions(lock: str) -> dict[str, Version]:
    """The versions that the text of a requirements file names for this Python and system."""
    lines = re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)
    requirements = [Requirement(line.strip()) for line in lines]
    here = [r for r in requirements if r.marker is None or r.marker.evaluate()]
    return {r.name: Version(next(iter(r.specifier)).version) for r in here}


def why_not_compared() -> list[str]:
    """The reasons for which outputs are not compared here; none in the locked environment."""
    reasons = [f"{switch}=1 is set" for switch in SPECIAL if os.environ.get(switch) == "1"]
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        reasons.append(f"this is {platform.system()} on {platform.machine()}, and not Linux on x86_64")
    locked = locked_versions((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    for name in DECIDE_OUTPUTS:
        wanted = locked.get(name)
        try:
            found = Version(metadata.version(name))
        except metadata.PackageNotFoundError:
            reasons.append(f"{name} is not installed")
            continue
        if found != wanted:
            reasons.append(f"{name} is {found}, the lock has {wanted or 'none for this Python'}")
    return reasons
