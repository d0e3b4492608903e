"""How kernels round, and when outputs are compared."""

import pytest

from .. import environment
from ..project import project

LOCK = (
    "numpy==2.5.5 ; python_full_version >= '3.0' \\\n    --hash=sha256:00\n"
    "numpy==2.4.6 ; python_full_version < '3.0' \\\n    --hash=sha256:00\ntorch==2.15.0 \\\n    # via forest\n"
)


def test_the_reasons_are_named(tmp_path, monkeypatch):
    assert environment.why_not_compared() == []
    (tmp_path / "lock.txt").write_text(LOCK)
    project.lock, project.packages = tmp_path / "lock.txt", ["numpy", "torch", "birch"]
    project.platform, project.switches = ("Linux", "x86_64"), {"FOREST_GPU": "CUDA_VISIBLE_DEVICES"}
    monkeypatch.setenv("FOREST_GPU", "1")
    monkeypatch.setattr(environment.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(environment.platform, "system", lambda: "Linux")
    versions = {"numpy": "0.0.1", "torch": "2.15.0"}

    def version(name):
        if name not in versions:
            raise environment.metadata.PackageNotFoundError
        return versions[name]

    monkeypatch.setattr(environment.metadata, "version", version)
    assert environment.why_not_compared() == [
        "FOREST_GPU=1 is set",
        "this is Linux on arm64, and not Linux on x86_64",
        "numpy is 0.0.1, the lock has 2.5.5",
        "birch is not installed",
    ]


def test_a_rounding_replaces_the_pins_and_another_name_is_refused(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "SSE4_2")
    assert environment.variables()["MKL_CBWR"] == "AVX2"
    assert "MKL_CBWR" not in environment.variables("best")
    assert environment.variables("threads")["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("NBCLAIMS_ROUNDING", "compatible")
    assert environment.variables()["MKL_CBWR"] == "COMPATIBLE"
    with pytest.raises(ValueError, match="one of default, avx2, best, compatible, threads.*, got 'avx'"):
        environment.variables("avx")


def test_a_switch_leaves_its_variable_as_it_is(monkeypatch):
    project.switches = {"FOREST_GPU": "CUDA_VISIBLE_DEVICES"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert environment.variables()["CUDA_VISIBLE_DEVICES"] == ""
    monkeypatch.setenv("FOREST_GPU", "1")
    assert environment.variables()["CUDA_VISIBLE_DEVICES"] == "3"
