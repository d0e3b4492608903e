"""Where foreign code runs: under bubblewrap or in a container, without network, with nothing to read but the course."""

import os
import platform
import secrets
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import NamedTuple

from tfm_lib.errors import CourseError
from tfm_lib.lessons import COURSE, PACKAGE

IMAGE = "tfm-course"  # of the container
FOLDER, SIZE = "/tmp", 64 * 2**20  # the one that can be written, in memory, and its bytes
TOLD = 24 * 2**20  # bytes that are read of a process; one that tells more is stopped
INSIDE = ("-I", "-B", "-m", "tfm_lib.grading.inside")
ENVIRONMENT = {
    "HOME": FOLDER, "TMPDIR": FOLDER, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TFM_NO_PROGRESS": "1",
    "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1",
}  # fmt: skip
# How Linux calls each processor, and its numbers of: clone, clone3, fork and vfork, unshare, setns.
CALLS = {
    "x86_64": (0xC000003E, 56, 435, (57, 58, 272, 308)),
    "aarch64": (0xC00000B7, 220, 435, (97, 268)),
}
FIX = f"""Fix: sudo apt install bubblewrap (other Linux systems have a package of that name, too; Ubuntu 24.04 and newer
also want the permission in docs/teaching.md), or, with docker or podman on any system, in the folder of the course:
  docker build -t {IMAGE} -f .devcontainer/Dockerfile ."""


class Ran(NamedTuple):
    """What came of a process."""

    told: str
    status: int
    late: bool  # it was stopped, since its time was over or it told too much
    said: str  # on its error output, cut


class Sandbox(NamedTuple):
    """A way to run `inside` apart from the machine; `kind` is bwrap, docker or podman."""

    kind: str
    options: Sequence[str] = ()  # more of them, for the container

    def run(self, job: bytes, seconds: float, hidden: Path | None = None) -> Ran:
        """Run a job in a process of its own, which ends after so many seconds by the clock on the wall.

        What lies in the folder `hidden` can't be read there, wherever it is.
        """
        name, late = f"tfm-grade-{secrets.token_hex(6)}", list[bool]()
        forks = [_no_forks()] if self.kind == "bwrap" else []
        command = self._bwrap(forks[0], hidden) if forks else self._container(name)
        pipe, clean = subprocess.PIPE, ENVIRONMENT if forks else None  # what is in bubblewrap's own can be read there
        with TemporaryFile() as said:
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, pass_fds=forks, env=clean)
            for fork in forks:
                os.close(fork)

            def stop(too_late: bool = True) -> None:
                late.extend([True] * too_late)
                if process.poll() is None and self.kind != "bwrap":  # its client alone would end
                    subprocess.run([self.kind, "rm", "-f", name], capture_output=True, check=False)
                process.kill()

            timer = Timer(seconds, stop)
            timer.start()
            try:
                assert process.stdin and process.stdout, "pipes were asked for"
                with suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(job)
                with process.stdout:
                    told = process.stdout.read(TOLD)
                if len(told) == TOLD:
                    stop()
                status = process.wait()
            finally:
                timer.cancel()
                stop(too_late=False)
            said.seek(0)
            return Ran(told.decode(errors="replace"), status, bool(late), said.read(2000).decode(errors="replace"))

    def _bwrap(self, fork: int, hidden: Path | None) -> list[str]:
        """bubblewrap: a system of files that has the libraries, Python and the course, and nothing else."""
        whole = [Path(sys.base_prefix), Path(sys.prefix), PACKAGE, *([COURSE / "benchmarks"] * (COURSE != PACKAGE))]
        parts = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu", *whole]
        binds = [word for part in map(str, parts) for word in ("--ro-bind-try", os.path.realpath(part), part)]
        away = ["--tmpfs", str(hidden), "--remount-ro", str(hidden)] if hidden else []
        program = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        folders = ["--proc", "/proc", "--dev", "/dev", "--size", str(SIZE), "--tmpfs", FOLDER]
        closed = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", FOLDER, "--seccomp", str(fork)]
        return [*program, "--cap-drop", "ALL", *folders, *binds, *away, *closed, sys.executable, *INSIDE]

    def _container(self, name: str) -> list[str]:
        names = [f"--env={name}={value}" for name, value in ENVIRONMENT.items() if name != "PATH"]
        apart = f"--network=none --ipc=none --read-only --tmpfs={FOLDER}:size={SIZE},mode=1777 --workdir={FOLDER}"
        limits = "--memory=3g --memory-swap=3g --pids-limit=64 --cpus=1 --ulimit=nofile=256:256 --ulimit=nproc=512:512"
        rights = "--user=65534:65534 --cap-drop=ALL --security-opt=no-new-privileges --log-driver=none --pull=never"
        limited = [*apart.split(), *limits.split(), *rights.split()]
        run = [self.kind, "run", "--rm", "--interactive", f"--name={name}", *limited, *names]
        return [*run, *self.options, IMAGE, "python", *INSIDE]


def _no_forks() -> int:
    """A file with the filter of system calls that bubblewrap loads: threads may begin, processes and namespaces not.

    So the limits of the one process are those of all that a submission takes.
    """
    arch, clone, clone3, others = CALLS.get(platform.machine(), CALLS["x86_64"])
    allow, refuse, missing, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # EPERM; ENOSYS: then clone is tried

    def same(value: int, then: int, otherwise: int) -> bytes:
        return struct.pack("HBBI", 0x15, then, otherwise, value)

    def load(place: int) -> bytes:
        return struct.pack("HBBI", 0x20, 0, 0, place)

    def give(value: int) -> bytes:
        return struct.pack("HBBI", 0x06, 0, 0, value)

    program = [load(4), same(arch, 1, 0), give(kill), load(0)]
    program += [struct.pack("HBBI", 0x35, 0, 1, 0x40000000), give(refuse)]  # the numbers of another convention
    program += [part for call in others for part in (same(call, 0, 1), give(refuse))]
    program += [same(clone3, 0, 1), give(missing), same(clone, 0, 3)]
    program += [load(16), struct.pack("HBBI", 0x45, 1, 0, 0x10000), give(refuse), give(allow)]  # CLONE_THREAD
    reading, writing = os.pipe()
    with open(writing, "wb") as file:
        file.write(b"".join(program))
    return reading


def find_sandbox() -> Sandbox:
    """The first that works here: bubblewrap, then a container. Raises CourseError, with the fix, if none does."""
    reasons = []
    for kind in ("bwrap", "docker", "podman"):
        if shutil.which(kind) is None:
            reasons.append(f"{kind} is not installed")
        elif kind == "bwrap" and platform.machine() not in CALLS:
            reasons.append(f"bwrap can't keep a {platform.machine()} from starting processes")
        else:
            sandbox = Sandbox(kind)
            ran = sandbox.run(b'{"seed": 0, "seconds": 10, "setups": {}, "cells": []}', 300)
            if '"ready"' in ran.told:
                return sandbox
            reasons.append(f"{kind} says: {(ran.said.strip().splitlines() or ['nothing within 5 minutes'])[0][:300]}")
    raise CourseError(
        "what students wrote is run in a sandbox only, and there is none: " + "; ".join(reasons) + f"\n{FIX}"
    )
