"""`python -m tfm_lib train` from end to end: ten pairs by heart, a file of pairs, stopping and going on."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tfm_lib import checkpoints, pretrained, tasks, training
from tfm_lib.__main__ import main, parser
from tfm_lib.batches import encode_pairs
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.newsroom import TEN_PAIRS, make_newsroom
from tfm_lib.pairs import Pair
from tfm_lib.scoring import summarize
from tfm_lib.vocabulary import Vocabulary

LEFT_BEHIND = {"checkpoint.safetensors", "history.json", "learning_curve.png", "scores.json", "scores.txt"}


def run(*arguments: str) -> None:
    args = parser().parse_args(["train", "--device", "cpu", *arguments])
    args.run(args)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checkpoint_of(stem: str) -> Path:
    """The checkpoint of the one run of that name here."""
    [folder] = Path("runs").glob(f"{stem}-*-seed0")
    return folder / "checkpoint.safetensors"


def write_pairs(path: Path, number: int) -> Path:
    rows = [
        {"article": f"on day {n} the shop sold {n} lamps " * 3, "summary": f"{n} Lamps sold"} for n in range(number)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_pairs_are_learned_by_heart(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    run("--seed", str(seed))
    folder = Path(f"runs/ten_pairs-seed{seed}")
    scores = json.loads((folder / "scores.json").read_text())["training pairs, learned by heart"]["scores"]
    assert scores["model"]["exact"] == 1.0 > scores["most frequent summary"]["exact"]
    assert {path.name for path in folder.iterdir()} == LEFT_BEHIND
    # What is on the disk can do it too.
    model, vocabulary, state = checkpoints.load_checkpoint(folder / "checkpoint.safetensors")
    pairs = [Pair(*pair) for pair in TEN_PAIRS]
    assert summarize(model, vocabulary, encode_pairs(pairs, vocabulary, 32, 16), 16) == [p.summary for p in pairs]
    assert state is not None and state.finished and len(state.history.step) <= 40, "seconds, not minutes"
    out = capsys.readouterr().out
    assert TEN_PAIRS[0][1] in out and "The training pairs, learned by heart\n10 pairs" in out
    assert "test" not in out, "nothing that was trained on is called a test"


def test_a_file_of_pairs_from_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    run("--data", str(write_pairs(Path("shop.jsonl"), 60)), "--steps", "3", "--minutes", "1")
    folder = checkpoint_of("shop").parent
    assert {path.name for path in folder.iterdir()} == LEFT_BEHIND
    record = json.loads((folder / "scores.json").read_text())["test set"]
    assert record["pairs"] == 10 and len(record["examples"]) == 5
    assert [name.split()[0] for name in record["scores"]] == ["model", "first", "most", "nearest"]
    out, err = capsys.readouterr()
    assert "40 pairs; cut for length: 0 articles, 0 summaries" in out
    assert "The test pairs are few: each moves a score by up to 10.0, so that it can say little." in out
    assert (folder / "scores.txt").read_text() in out
    assert "3/3 steps" in err and "tokens/s" in err
    assert len(checkpoints.History.load(folder / "history.json").loss) == 3


def test_dev_and_test_files_beside_the_data_are_used() -> None:
    for name, number in (("train", 30), ("dev", 3), ("test", 4)):
        Path("shops").mkdir(exist_ok=True)
        write_pairs(Path(f"shops/{name}.jsonl"), number)
    for data in ("shops", "shops/train.jsonl"):
        run("--data", data, "--steps", "1", "--replace")
        scores = checkpoint_of("shops").with_name("scores.json")
        assert json.loads(scores.read_text())["test set"]["pairs"] == 4


def test_a_stopped_run_goes_on_to_the_very_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write_pairs(Path("shop.jsonl"), 40))
    run("--data", data, "--steps", "4")
    path = checkpoint_of("shop")
    whole = path.read_bytes()
    path.unlink()

    run("--data", data, "--steps", "4", "--minutes", "1e-9")
    with pytest.raises(ValueError, match="unfinished run: --resume goes on, --replace begins it anew"):
        run("--data", data, "--steps", "4")

    real, calls = training.train_step, []

    def interrupted(*arguments: object) -> float:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "train_step", interrupted)
    with pytest.raises(SystemExit, match=r"is whole, and the same command with --resume goes on"):
        run("--data", data, "--steps", "4", "--resume")
    monkeypatch.setattr(training, "train_step", real)
    torch.rand(3)
    run("--data", data, "--resume")
    assert path.read_bytes() == whole, "weights, Adam's averages, random state and history, bit for bit"


def test_a_run_stopped_before_its_first_checkpoint_promises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save_checkpoint", stop)
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # this process keeps its own handlers
    monkeypatch.setattr(sys, "argv", ["tfm_lib", "train", "--device", "cpu"])
    with pytest.raises(SystemExit, match="^stopped$"):
        main()


def test_there_is_nothing_to_resume() -> None:
    with pytest.raises(ValueError, match="nothing to resume"):
        run("--resume")


def test_a_run_goes_on_only_as_it_began() -> None:
    data = str(write_pairs(Path("shop.jsonl"), 40))
    run("--data", data, "--steps", "4", "--minutes", "1e-9")
    path = checkpoint_of("shop")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a run of 4 steps, not of 9; go on without --steps"):
        run("--data", data, "--steps", "9", "--resume")
    with pytest.raises(ValueError, match="nothing to resume"):
        run("--data", data, "--seed", "1", "--resume")
    write_pairs(Path(data), 41)
    with pytest.raises(
        ValueError, match=r"there is no \S+ \(but \S+shop-\w{6}-seed0\S+, of other data or another seed\)"
    ):
        run("--data", data, "--resume")
    write_pairs(Path(data), 40)
    path.write_bytes(before[:-1])
    for options in ([], ["--resume"]):
        with pytest.raises(ValueError, match="no whole checkpoint .*use another copy, or train anew with --replace"):
            run("--data", data, *options)
    run("--data", data, "--steps", "4", "--replace")
    assert checkpoints.load_checkpoint(path).state.finished  # type: ignore[union-attr]


def test_a_broken_file_ends_in_one_line() -> None:
    Path("shop.jsonl").write_text('{"article": "a"}\n')
    command = [sys.executable, "-m", "tfm_lib", "train", "--data", "shop.jsonl"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 1
    assert result.stderr.startswith("error: shop.jsonl, line 1: the field summary is missing")
    assert result.stderr.count("\n") == 1
    assert not Path("runs").exists()


def test_the_newsroom_has_two_test_sets_and_counts_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps on few stories: what it learns in 600, the benchmark and the slow test tell."""
    few = partial(make_newsroom, train=60, dev=10, test=12)
    monkeypatch.setattr(tasks, "make_newsroom", few)
    whole = tasks.newsroom
    monkeypatch.setattr(
        tasks,
        "newsroom",
        lambda seed: replace(whole(seed), recipe=replace(whole(seed).recipe, steps=2, warmup_steps=1)),
    )
    run("--task", "newsroom")
    record = json.loads(Path("runs/newsroom-seed0/scores.json").read_text())
    assert list(record) == ["seconds", "test set", "names that were never seen"]
    assert all("slots" in row for row in record["test set"]["scores"].values())
    assert record["names that were never seen"]["examples"][0]["article"] == few(0).unseen_names[0].article


def test_what_cannot_be_learned_together_is_refused() -> None:
    with pytest.raises(ValueError, match="two things to learn"):
        run("--task", "newsroom", "--data", "shop.jsonl")
    with pytest.raises(ValueError, match="steps are for a file"):
        run("--steps", "3")
    with pytest.raises(ValueError, match="newsroom model of seed 0"):
        run("--ship")


def test_what_ships_is_what_was_trained_in_half_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary.of_words(["flood closes bridge"])
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), d_model=8, num_heads=2, d_ff=8))
    before = [parameter.clone() for parameter in model.parameters()]
    pretrained.ship(model, vocabulary, tmp_path / "shipped.safetensors")
    loaded = checkpoints.load_checkpoint(tmp_path / "shipped.safetensors").model
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert all(torch.equal(p, q.half().float()) for p, q in zip(loaded.parameters(), before, strict=True))
