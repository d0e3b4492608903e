"""The shipped model can be made again: a new training of seed 0 scores as the seeds of the benchmark do."""

import json

import pytest

from tests.proof.environment import ROOT
from tfm_lib.__main__ import parser


@pytest.mark.slow
def test_a_new_training_scores_within_the_spread_over_seeds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = parser().parse_args(["train", "--task", "newsroom", "--device", "cpu"])
    args.run(args)
    scores = json.loads((tmp_path / "runs/newsroom-seed0/scores.json").read_text())["test set"]["scores"]["model"]
    runs = json.loads((ROOT / "benchmarks" / "newsroom.json").read_text())["runs"]
    assert len(runs) >= 3
    for measure in ("rougeL", "exact", "slots"):
        seen = [run["test_sets"]["test set"]["scores"]["model"][measure] for run in runs]
        spread = max(max(seen) - min(seen), 0.005)
        assert min(seen) - spread <= scores[measure] <= max(seen) + spread
