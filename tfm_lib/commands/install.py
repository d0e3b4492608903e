"""What the first cell of a lesson runs, out of the wheel of the course: pip installs it, and replaces nothing.

python -c SOURCE WHEEL, in the Python of the notebook. So this imports nothing of the package, which is not there yet.
"""

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

NOT_NEEDED = {"jupyterlab", "genanki"}  # a notebook is open already; cards are made by a command


def missing(wheel: Path) -> list[str]:
    """What the course and its lessons need, and this Python lacks in any version, as pip takes it.

    An older version than is asked for stays: in Colab, replacing it would break what else is loaded there.
    """
    [course] = metadata.distributions(path=[str(wheel)])
    needs = [re.sub(r"(; | and )extra == .*", "", need) for need in course.requires or ()]
    names = {need: re.split(r"[^\w-]", need)[0] for need in needs}
    found = metadata.distributions
    return [need for need, name in names.items() if name not in NOT_NEEDED and not any(found(name=name))]


def install(wheel: Path) -> str:
    """Install the course and what it lacks here; returns a line that says so.

    Browsers rename what is uploaded twice, "tfm_lib-... (1).whl", and pip reads the name: so it gets a copy.
    Raises CalledProcessError where pip fails.
    """
    [course] = metadata.distributions(path=[str(wheel)])
    needs, pip = missing(wheel), [sys.executable, "-m", "pip"]
    with TemporaryDirectory() as folder:
        here, file = Path(folder, "here.txt"), Path(folder, f"tfm_lib-{course.version}-py3-none-any.whl")
        shutil.copy(wheel, file)
        with here.open("w") as versions:  # which stay as they are
            subprocess.run([*pip, "list", "--format=freeze"], stdout=versions, check=True)
        add = [*pip, "install", "-q", "--no-warn-conflicts"]
        if needs:  # before the course: where this fails, the cell begins again
            subprocess.run([*add, "-c", str(here), *needs], check=True)
        subprocess.run([*add, "--no-deps", str(file)], check=True)
    added = ", ".join(dict.fromkeys(re.split(r"[^\w-]", need)[0] for need in needs))
    also = f", and {added}; all else is as it was" if added else ""
    return f"Installed the course, version {course.version}, from {wheel.name}{also}."


if __name__ == "__main__":
    try:
        print(install(Path(sys.argv[1])))
    except subprocess.CalledProcessError:
        sys.exit("pip could not install it; above are its reasons.")
