"""The shipped model can be made again: a new training of seed 0 scores as the seeds of the benchmark do."""

import json

import pytest

from tests import ROOT
from tfm_lib.commands.cli import run as command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "report", "copy"),
    [("newsroom", "training_on_toy_summaries/newsroom", 0), ("newsroom-copying", "real_text/newsroom_copying", 1)],
)
def test_a_new_training_scores_within_the_spread_over_seeds(run, report, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command("train", "--task", "newsroom", "--copy", str(copy), "--device", "cpu")
    record = json.loads((tmp_path / f"runs/{run}-seed0/scores.json").read_text())
    runs = json.loads((ROOT / "benchmarks" / f"{report}.json").read_text())["runs"]
    assert len(runs) >= 3
    for name in ("test set", "names that were never seen"):
        for measure in ("rougeL", "exact", "slots"):
            seen = [run["test_sets"][name]["scores"]["model"][measure] for run in runs]
            spread = max(max(seen) - min(seen), 0.005)
            assert min(seen) - spread <= record[name]["scores"]["model"][measure] <= max(seen) + spread
