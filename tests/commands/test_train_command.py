"""`python -m tfm_lib train` from end to end: ten pairs by heart, a file of pairs, stopping and going on."""

import gzip
import io
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.times import HUNG
from tfm_lib import pretrained
from tfm_lib.commands import cli, results, runs, tasks
from tfm_lib.commands.cli import main
from tfm_lib.commands.tasks import pairs_of_file
from tfm_lib.data.batches import encode_pairs, plan_batches
from tfm_lib.data.newsroom import TEN_PAIRS, make_newsroom
from tfm_lib.data.pairs import Pair, Splits
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError, marking
from tfm_lib.learning import checkpoints, training
from tfm_lib.learning.head_start import word_vectors
from tfm_lib.learning.recipes import Recipe
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained.summarizer import Summarizer
from tfm_lib.writing import decoding
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import summarize
from tfm_lib.writing.next_token import Rules
from tfm_lib.writing.scoring import Scores, score

LEFT_BEHIND = {"checkpoint.safetensors", "history.json", "learning_curve.png", "scores.json", "scores.txt"}


def run(*arguments: str) -> None:
    cli.run("train", "--device", "cpu", *arguments)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of pairs, in this process: what is tested here hangs on no size, and a tenth of the time is enough."""
    small = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}

    def of_file(*arguments: Any, **named: Any) -> tasks.Task:
        task = pairs_of_file(*arguments, **named)
        return replace(task, start=replace(task.start, sizes=task.start.sizes | small), max_summary=16)

    monkeypatch.setattr(tasks, "pairs_of_file", of_file)


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
    model, vocabulary, state, _ = checkpoints.load_checkpoint(folder / "checkpoint.safetensors")
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
    assert record["pairs"] == 6 and len(record["examples"]) == 5
    for low, high in (interval[1:] for interval in record["leads"].values()):
        assert low <= high
    assert set(record["leads"]) == {"model", "model, 4 beams"}
    assert [name.split()[0] for name in record["scores"]] == ["model", "model,", "first", "most", "nearest"]
    out, err = capsys.readouterr()
    assert "48 pairs; cut for length: 0 articles, 0 summaries" in out
    assert re.search(r"model against (first|most|nearest)[a-z0-9 ]*: ROUGE-L [+-]\d+\.\d, 95 % interval [+-]", out)
    assert "The test pairs are few: each moves a score by up to 16.7, so that it can say little." in out
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
    result = subprocess.run(command, capture_output=True, text=True, timeout=HUNG)
    assert result.returncode == 1
    assert result.stderr.startswith("error: shop.jsonl, line 1: the field summary is missing")
    assert result.stderr.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize("copying", [False, True])
def test_the_newsroom_has_two_test_sets_and_counts_slots(copying: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps on few stories: what it learns in all of them, the benchmark and the slow test tell."""
    few = partial(make_newsroom, train=60, dev=10, test=12)
    monkeypatch.setattr(tasks, "make_newsroom", few)
    whole = tasks.newsroom
    monkeypatch.setattr(
        tasks,
        "newsroom",
        lambda *args: replace(whole(*args), recipe=replace(whole(*args).recipe, steps=2, warmup_steps=1)),
    )
    run("--task", "newsroom", "--copy", str(int(copying)))
    folder = Path("runs/newsroom-copying-seed0" if copying else "runs/newsroom-seed0")
    model, vocabulary, *_ = checkpoints.load_checkpoint(folder / "checkpoint.safetensors")
    assert isinstance(model, CopyingTransformer) == copying and len(vocabulary.slots) == (tasks.SLOTS if copying else 0)
    record = json.loads((folder / "scores.json").read_text())
    assert list(record) == ["seconds", "test set", "names that were never seen"]
    assert all("slots" in row for row in record["test set"]["scores"].values())
    assert record["names that were never seen"]["examples"][0]["article"] == few(0).unseen_names[0].article


def test_what_cannot_be_learned_together_is_refused() -> None:
    with pytest.raises(ValueError, match="two things to learn"):
        run("--task", "newsroom", "--data", "shop.jsonl")
    with pytest.raises(ValueError, match="--steps 3 is for pairs of a file"):
        run("--steps", "3")
    with pytest.raises(ValueError, match="newsroom model of seed 0"):
        run("--ship")
    with pytest.raises(ValueError, match="copying is for the newsroom or a file of pairs"):
        run("--copy", "1")


def test_a_file_is_learned_by_a_model_that_copies_and_gone_on_with() -> None:
    data = str(write_pairs(Path("shop.jsonl"), 40))
    run("--data", data, "--steps", "4")
    path = checkpoint_of("shop")
    whole = path.read_bytes()
    run("--data", data, "--steps", "4", "--copy", "1", "--minutes", "1e-9", "--replace")
    run("--data", data, "--resume")
    assert path.read_bytes() == whole
    assert isinstance(checkpoints.load_checkpoint(path).model, CopyingTransformer)
    run("--data", data, "--steps", "1", "--copy", "0")
    assert type(checkpoints.load_checkpoint(checkpoint_of("shop-plain")).model) is Transformer
    assert len(list(Path("runs").iterdir())) == 2, "with copying and without it are two runs"


def test_some_words_are_hidden_from_a_newsroom_that_copies_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "make_newsroom", partial(make_newsroom, train=400, dev=10, test=12))
    task = tasks.newsroom(0, copying=True)
    vocabulary = task.vocabulary()
    learned, read = task.training_examples(vocabulary), task.encode(task.splits.train, vocabulary)
    stories = Counter(i for ids in read.articles for i in {*ids})
    rare = [sum(stories[i] <= tasks.RARE * 400 for i in {*ids}) for ids in read.articles]
    assert abs(sum(map(len, learned.words)) / sum(rare) - tasks.HIDDEN) < 0.03
    assert learned == task.training_examples(vocabulary) and not any(read.words)
    assert learned != tasks.newsroom(1, copying=True).training_examples(vocabulary)
    plain = tasks.newsroom(0)
    assert plain.training_examples(plain.vocabulary()) == plain.encode(plain.splits.train, plain.vocabulary())


def test_what_ships_is_what_was_trained_in_half_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary.of_words(["flood closes bridge"])
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), d_model=8, num_heads=2, d_ff=8))
    before = [parameter.clone() for parameter in model.parameters()]
    pretrained.ship(model, vocabulary, tmp_path / "shipped.safetensors")
    loaded = checkpoints.load_checkpoint(tmp_path / "shipped.safetensors").model
    monkeypatch.setattr(pretrained.newsroom, "SHIPPED", tmp_path / "plain")
    monkeypatch.setattr(pretrained.newsroom, "COPYING", tmp_path / "copying")
    assert pretrained.ship(model, vocabulary) == tmp_path / "plain"
    assert pretrained.ship(CopyingTransformer(model.config), vocabulary) == tmp_path / "copying"
    assert [type(pretrained.newsroom_model(copying=copying)[0]) for copying in (False, True)] == [
        Transformer,
        CopyingTransformer,
    ]
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert all(torch.equal(p, q.half().float()) for p, q in zip(loaded.parameters(), before, strict=True))


# --- minutes, steps


class Clock:
    """Stands in for `time`: each reading is so many seconds after the last one."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def perf_counter(self) -> float:
        self.now += self.seconds
        return self.now


def test_minutes_become_steps_which_repeat_the_run_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(write_pairs(Path("shop.jsonl"), 40))
    with monkeypatch.context() as patch:
        patch.setattr(training, "time", Clock(0.5))  # 20 steps between two readings: 40 a second, so 12 in 0.3 s
        patch.setattr(runs, "time", Clock(0.0))  # to get ready takes none
        run("--data", data, "--minutes", "0.005")
        path = checkpoint_of("shop")
        out = capsys.readouterr().out
        assert "--steps 12 is what 0.005 minutes hold; it repeats this run exactly" in out
        state = checkpoints.load_checkpoint(path).state
        assert state is not None and state.recipe.steps == 12
        assert len(state.history.step) == 1, "now a step takes half a second: half of the time again is over"
        assert "1 steps of 12" in out and "the time is over, and --resume goes on" in out
        run("--data", data, "--minutes", "0.005", "--resume")
        state = checkpoints.load_checkpoint(path).state
        assert state is not None and len(state.history.step) == 2, "its minutes hold one step more"
    run("--data", data, "--resume")
    measured = path.read_bytes()
    run("--data", data, "--steps", "12", "--replace")
    assert path.read_bytes() == measured, "the timing leaves no trace, in weights, averages, random state or history"


def test_a_run_is_not_stopped_where_only_its_steps_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "time", Clock(1e6))
    run("--data", str(write_pairs(Path("shop.jsonl"), 40)), "--steps", "3")
    state = checkpoints.load_checkpoint(checkpoint_of("shop")).state
    assert state is not None and state.finished


# --- folders


@pytest.mark.parametrize(
    ("file", "stem"),
    [
        ("shop.jsonl", "shop"),
        (".hidden.jsonl", "hidden"),
        ("my.data.v1.jsonl", "my.data.v1"),
        ("ten_pairs.jsonl", "ten_pairs"),
        ("Shop.JSONL.GZ", "Shop"),
        ("shops/train.jsonl", "shops"),
        ("my.data.v2/train.jsonl", "my.data.v2"),
        ("two words.csv", "two words"),
    ],
)
def test_a_run_is_called_by_its_data(file: str, stem: str) -> None:
    path = Path(file)
    path.parent.mkdir(exist_ok=True)
    rows = [(f"the shop sold {n}", f"{n} sold") for n in range(9)]
    if file.endswith("csv"):
        path.write_text("article,summary\n" + "".join(f"{article},{summary}\n" for article, summary in rows))
    else:
        text = "".join(json.dumps({"article": article, "summary": summary}) + "\n" for article, summary in rows)
        path.write_bytes(gzip.compress(text.encode()) if file.endswith("GZ") else text.encode())
    for data in [path, path.parent] if path.name.startswith("train.") else [path]:
        assert re.fullmatch(rf"{re.escape(stem)}-[0-9a-f]{{6}}-seed3", tasks.choose(None, data, 3).name)


def test_runs_on_other_pairs_never_share_a_folder() -> None:
    names = [tasks.choose("ten_pairs", None).name]
    for number, file in enumerate(["a/shop.jsonl", "b/shop.jsonl", "ten_pairs.jsonl", "v.1.jsonl", "v.2.jsonl"]):
        Path(file).parent.mkdir(exist_ok=True)
        names.append(tasks.choose(None, write_pairs(Path(file), 20 + number)).name)
    assert len(set(names)) == len(names)
    assert tasks.choose(None, Path("a/shop.jsonl")).name == names[1], "the same pairs find their run again"


def test_a_finished_run_is_replaced_only_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    path = Path("runs/ten_pairs-seed0/checkpoint.safetensors")
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=r"^runs.ten_pairs-seed0 holds a finished run: --replace trains it anew"):
        run()
    monkeypatch.setenv("TFM_BY_MAKE", "1")
    with pytest.raises(ValueError, match="holds a finished run: REPLACE=1 trains it anew"):
        run()
    assert path.read_bytes() == whole
    run("--replace")
    assert path.read_bytes() == whole, "the same run"


# --- what is typed wrong


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--steps", "0"], "--steps wants a whole number from 1 on, got 0"),
        (["--steps", "2.5"], "--steps wants a whole number from 1 on, got 2.5"),
        (["--minutes", "0"], "--minutes wants a number above 0, such as 10 or 0.5, got 0"),
        (["--minutes", "nan"], "--minutes wants a number above 0, such as 10 or 0.5, got nan"),
        (["--minutes", "inf"], "--minutes wants a number above 0, such as 10 or 0.5, got inf"),
        (["--minutes", "ten"], "--minutes wants a number above 0, such as 10 or 0.5, got ten"),
        (["--workers", "0"], "--workers wants a whole number from 1 on, got 0"),
        (["--seed", "-1"], "--seed wants a whole number from 0 on, got -1"),
        (["--copy", "2"], "--copy is 0 or 1, not 2"),
        (["--task", "foo"], "--task is ten_pairs or newsroom, not foo"),
        (["--replace", "--resume"], "--resume and --replace exclude each other; give one of them"),
        (["--epochs", "3"], "there is no option --epochs 3"),
    ],
)
def test_wrong_options_end_in_one_line_before_anything_is_read(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for by_make in (False, True):
        if by_make:
            monkeypatch.setenv("TFM_BY_MAKE", "1")
            said = re.sub("--([a-z]+)", lambda name: name[1].upper(), said)
        with pytest.raises(SystemExit) as end:
            run("--data", "there_is_none.jsonl", *options)
        err = capsys.readouterr().err
        assert end.value.code == 2 and err.startswith(f"error: {said}")
        assert err.count("\n") == 1 and "ship" not in err.lower()


def test_a_bug_shows_its_traceback_and_a_check_of_ours_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tfm_lib", "train"])
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # this process keeps its own handlers

    def bug(*arguments: object) -> None:
        _, _ = range(3)

    def check(*arguments: object) -> None:
        Recipe(steps=0)

    def system(*arguments: object) -> None:
        Path("nowhere").read_text()

    monkeypatch.setattr(tasks, "choose", bug)
    with pytest.raises(ValueError, match="too many values to unpack"):
        main()
    for raises, said in ((check, "error: steps must be positive, got 0"), (system, "error: .*No such file.*nowhere")):
        monkeypatch.setattr(tasks, "choose", raises)
        with pytest.raises(SystemExit, match=said):
            main()


def test_an_error_of_a_worker_is_marked_unless_it_is_a_bug() -> None:
    def check() -> None:
        Recipe(steps=0)

    def system() -> None:
        Path("nowhere").read_text()

    def bug() -> None:
        int("x")

    with pytest.raises(CourseError, match="^steps must be positive, got 0$"):
        marking(check)
    with pytest.raises(CourseError, match="No such file"):
        marking(system)
    with pytest.raises(ValueError, match="invalid literal") as error:
        marking(bug)
    assert not isinstance(error.value, CourseError)


def test_an_alphabet_that_lacks_signs_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As into a file on Windows."""
    rows = [{"article": f"день {n} ✓", "summary": f"{n} ламп"} for n in range(9)]
    Path("shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # this process keeps its own handlers
    monkeypatch.setattr(sys, "argv", ["tfm_lib", "train", "--data", "shop.jsonl", "--steps", "1", "--device", "cpu"])
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="cp1252"))
    main()
    sys.stdout.flush()
    assert re.search(r"^reference  \d \?{4}$", shown.getvalue().decode("cp1252"), re.MULTILINE)


def test_getting_ready_is_part_of_the_minutes_and_half_of_them_is_left_to_train(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(write_pairs(Path("shop.jsonl"), 40))
    monkeypatch.setattr(training, "time", Clock(0.5))  # 40 steps a second
    for ready, steps in ((0.1, 8), (60.0, 6)):
        monkeypatch.setattr(runs, "time", Clock(ready))
        run("--data", data, "--minutes", "0.005", "--replace")
        assert f"--steps {steps} is what 0.005 minutes hold" in capsys.readouterr().out


def test_few_pairs_are_not_read_for_ever(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(training, "time", Clock(1e-4))
    monkeypatch.setattr(tasks, "PASSES", 3)
    monkeypatch.setattr(runs, "PASSES", 3)
    data = str(write_pairs(Path("shop.jsonl"), 40))
    run("--data", data, "--minutes", "10")
    recipe = checkpoints.load_checkpoint(checkpoint_of("shop")).state.recipe  # type: ignore[union-attr]
    task = tasks.pairs_of_file(Path(data), 0)
    batches = len(plan_batches(task.training_examples(task.vocabulary()), recipe.max_tokens))
    assert recipe.steps == 3 * batches
    assert f"--steps {recipe.steps}: 3 times over these pairs, which is less than the minutes hold" in (
        capsys.readouterr().out
    )


def embeddings_at_the_start(data: Path) -> torch.Tensor:
    """A run of no more than its first save: its one step has a rate of zero."""
    run("--data", str(data), "--steps", "1", "--replace")
    task = tasks.pairs_of_file(data, 0)
    vocabulary = task.vocabulary()
    vectors = word_vectors(task.training_examples(vocabulary).articles, len(vocabulary), task.start.sizes["d_model"], 0)
    return runs._new_model(task, vocabulary, vectors, torch.device("cpu")).output.weight


def test_pairs_that_are_read_often_are_learned_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """More dropout and smoothing, embeddings that stay, risk in the end: and a run that is stopped goes on so."""
    data = write_pairs(Path("shop.jsonl"), 40)
    task = tasks.pairs_of_file(data, 0)
    batches = len(plan_batches(task.training_examples(task.vocabulary()), task.recipe.max_tokens))
    monkeypatch.setattr(tasks, "RISK", 0.5)
    monkeypatch.setattr(runs, "RISK", 0.5)
    start = embeddings_at_the_start(data)
    for steps, dropout, smoothing in ((5 * batches - 1, 0.1, 0.0), (5 * batches, 0.2, 0.1)):
        run("--data", str(data), "--steps", str(steps), "--replace")
        model, _, state, _ = checkpoints.load_checkpoint(checkpoint_of("shop"))
        assert state is not None and state.finished
        often = steps == 5 * batches
        assert (model.config.dropout, state.recipe.label_smoothing) == (dropout, smoothing)
        assert (state.recipe.risk_steps, state.recipe.fixed_embeddings) == (round(0.5 * steps) * often, often)
        assert model.output.weight.equal(start) == often
    run("--data", str(data), "--steps", str(steps), "--minutes", "1e-9", "--replace")
    assert len(checkpoints.load_checkpoint(checkpoint_of("shop")).state.history.step) == 1  # type: ignore[union-attr]
    run("--data", str(data), "--resume")
    again = checkpoints.load_checkpoint(checkpoint_of("shop")).model
    assert all(a.equal(b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
    newsroom = tasks.newsroom(0)
    assert newsroom.of_passes(100) is newsroom, "whose recipe is its own"


def test_the_steps_that_minimize_risk_are_measured_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one takes nine times as long as another, half of the steps take nine tenths of the minutes."""
    timed = []

    def steps_within(minutes: float, model: Transformer, *rest: object) -> int:
        timed.append((model.output.weight.requires_grad, len(rest) == 3))
        return 100 if len(rest) == 3 else 900

    monkeypatch.setattr(training, "steps_within", steps_within)
    monkeypatch.setattr(runs, "RISK", 0.5)
    monkeypatch.setattr(training, "train_step", lambda *rest: 1.0)
    monkeypatch.setattr(training, "risk_step", lambda *rest: 1.0)
    run("--data", str(write_pairs(Path("shop.jsonl"), 2000)), "--minutes", "1")
    assert timed == [(True, False), (False, False), (False, True)]
    assert "--steps 180 is what 1 minutes hold" in capsys.readouterr().out


def test_the_rules_that_suit_the_development_set_are_kept_and_written_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let development like what the first rule writes least and the last most, until a table is to be made."""
    liked = iter([0.1, 0.2, 0.3])

    def rated(*arguments: object) -> Scores:
        real = score(*arguments)  # type: ignore[arg-type]
        return replace(real, rougeL=next(liked, real.rougeL))

    monkeypatch.setattr(results.scoring, "score", rated)
    monkeypatch.setattr(tasks, "pairs_of_file", pairs_of_file)  # a small model is sure of no text
    run("--data", str(write_pairs(Path("shop.jsonl"), 40)), "--steps", "1")
    kept = checkpoints.load_checkpoint(checkpoint_of("shop"))
    assert kept.rules.no_repeat_ngram_size == 3 and kept.state is not None and kept.state.finished
    summarizer = Summarizer.load(checkpoint_of("shop"))
    assert summarizer.rules == kept.rules
    words = summarizer.vocabulary.encode(summarizer.write("on day 3 the shop sold 3 lamps"))
    n = kept.rules.no_repeat_ngram_size
    ngrams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    assert len(set(ngrams)) == len(ngrams), f"what is written does not obey {kept.rules}"


def test_rules_are_chosen_on_the_first_part_of_the_development_set_and_on_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written is the article, or its first word, which is right in the pairs that may not be asked."""
    monkeypatch.setattr(results, "ASKED", 2)
    size = "no_repeat_ngram_size"
    monkeypatch.setattr(decoding, "greedy", lambda _, src, n, rules: src if getattr(rules, size) else src[:, :1])
    asked, others = [Pair(text, text) for text in ("rain today", "snow and wind")], [Pair("sun and sand", "sun")] * 3
    task = replace(
        tasks.ten_pairs(0),
        splits=Splits(others, [*asked, *others], others),
        rules=(Rules(), Rules(no_repeat_ngram_size=2)),
    )
    vocabulary = Vocabulary.of_words(text for pair in task.splits.dev for text in pair)
    rules = results.best_rules(task, torch.nn.Linear(1, 1), vocabulary)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert rules.no_repeat_ngram_size == 2 and "twice: ROUGE-L 100.0\n" in said, f"not by development pairs:\n{said}"


def test_a_file_may_call_its_fields_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"mail {n},on day {n} the shop sold {n} lamps,{n} Lamps sold" for n in range(20)]
    Path("mail.csv").write_text("\n".join(["id,body,subject", *rows]))
    run("--data", "mail.csv", "--steps", "1", "--fields", "body, subject")
    assert re.search(
        r"article    on day \d+ the shop sold \d+ lamps\nreference  \d+ Lamps sold", capsys.readouterr().out
    )
    with pytest.raises(ValueError, match=r"the field body is missing \(there are: id, subject, x\)"):
        Path("mail.csv").write_text("id,subject,x\n1,2,3")
        run("--data", "mail.csv", "--steps", "1", "--fields", "body,subject")
    for wrong in ("body", "body,", "a,b,c"):
        with pytest.raises(SystemExit):
            run("--data", "mail.csv", "--fields", wrong)
        assert f"wants the names of two fields, such as body,subject, got {wrong}" in capsys.readouterr().err
