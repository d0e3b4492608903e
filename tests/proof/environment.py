"""When committed outputs are compared, and what every kernel finds in its environment."""

import json
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


# Lessons whose outputs were made on a processor of one maker: another one's differ in the last digits of a sum, and a
# training carries that on. Of a lesson that is not named here the outputs are the same on all.
PROCESSORS = ROOT / "tests/processors.json"


def processor() -> str:
    """The maker of this one, as Linux calls it; empty elsewhere."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^vendor_id\s*: (\S+)", told, re.MULTILINE)
    return found[1] if found else ""


def made_here(lesson: str) -> bool:
    """Whether the outputs of a lesson were made on a processor like this one."""
    made_on = json.loads(PROCESSORS.read_text(encoding="utf-8"))
    return made_on.get(lesson, processor()) == processor()


def note_processor(lesson: str) -> None:
    """Keep that the outputs of a lesson were made on this processor."""
    made_on = json.loads(PROCESSORS.read_text(encoding="utf-8")) | {lesson: processor()}
    PROCESSORS.write_text(json.dumps(dict(sorted(made_on.items())), indent=1) + "\n", encoding="utf-8")


def settle() -> None:
    """Gives this process, and with it its kernels, the environment in which outputs repeat."""
    kept = {variable for switch, variable in SPECIAL.items() if os.environ.get(switch) == "1"}
    os.environ.update({name: value for name, value in ONE_KIND.items() if name not in kept})


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
