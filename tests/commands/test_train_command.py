"""`train` from end to end: ten pairs by heart, a file of pairs, stopping and going on."""

import io
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from tests.learning.test_training import Clock
from tfm_lib import pretrained
from tfm_lib.commands import cli, results, runs, tasks
from tfm_lib.commands.tasks import pairs_of_file
from tfm_lib.data.batches import plan_batches
from tfm_lib.data.newsroom import TEN_PAIRS, make_newsroom
from tfm_lib.data.pairs import Pair, Splits
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import BY_MAKE, CourseError, course_errors
from tfm_lib.learning import checkpoints, training, workers
from tfm_lib.learning.checkpoints import Checkpoint
from tfm_lib.learning.head_start import word_vectors
from tfm_lib.learning.recipes import Recipe
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained.summarizer import Summarizer
from tfm_lib.writing import decoding
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.next_token import Rules
from tfm_lib.writing.scoring import score

LEFT_BEHIND = {"checkpoint.safetensors", "history.json", "learning_curve.png", "scores.json", "scores.txt"}
run = partial(cli.run, "train", "--device", "cpu")


@pytest.fixture(autouse=True)
def small_models_in_a_folder_of_their_own(tmp_path, monkeypatch):
    """Of a file of pairs, in this process: what is tested here hangs on no size, and a tenth of the time is enough."""
    small = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}

    def of_file(*arguments, **named):
        task = pairs_of_file(*arguments, **named)
        return replace(task, start=replace(task.start, sizes=task.start.sizes | small), max_summary=16)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "pairs_of_file", of_file)


def write_rows(file: str | Path, pairs: Sequence[tuple[str, str]]) -> Path:
    path = Path(file)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(dict(zip(Pair._fields, pair, strict=True))) + "\n" for pair in pairs))
    return path


def write_pairs(path: Path, number: int) -> Path:
    return write_rows(path, [(f"on day {n} the shop sold {n} lamps " * 3, f"{n} Lamps sold") for n in range(number)])


@pytest.fixture
def shop() -> str:
    return str(write_pairs(Path("shop.jsonl"), 40))


def checkpoint_of(stem: str = "shop") -> Path:
    """The checkpoint of the one run of that name here."""
    [folder] = Path("runs").glob(f"{stem}-*-seed0")
    return folder / "checkpoint.safetensors"


def trained(*options: str, stem: str = "shop") -> Checkpoint:
    """What a run leaves with these options."""
    run(*options)
    return checkpoints.load_checkpoint(checkpoint_of(stem))


def test_ten_pairs_are_learned_by_heart(capsys):
    run()
    folder = Path("runs/ten_pairs-seed0")
    scores = json.loads((folder / "scores.json").read_text())["training pairs, learned by heart"]["scores"]
    assert scores["model"]["exact"] == 1.0 > scores["most frequent summary"]["exact"]
    assert {path.name for path in folder.iterdir()} == LEFT_BEHIND
    texts = [best.text for [best] in Summarizer.load().candidates([article for article, _ in TEN_PAIRS])]
    assert texts == [summary for _, summary in TEN_PAIRS], "what is on the disk can do it too"
    state = checkpoints.load_checkpoint(folder / "checkpoint.safetensors").state
    assert state.finished and len(state.history.step) <= 40, "seconds, not minutes"
    out = capsys.readouterr().out
    assert TEN_PAIRS[0][1] in out and "The training pairs, learned by heart\n10 pairs" in out
    assert "test" not in out, "nothing that was trained on is called a test"


def test_a_file_of_pairs_from_end_to_end(capsys):
    run("--data", str(write_pairs(Path("shop.jsonl"), 60)), "--steps", "3", "--minutes", "1")
    folder = checkpoint_of().parent
    assert {path.name for path in folder.iterdir()} == LEFT_BEHIND
    record = json.loads((folder / "scores.json").read_text())["test set"]
    assert record["pairs"] == 6 and len(record["examples"]) == 5
    assert all(low <= high for _, low, high in record["leads"].values())
    assert set(record["leads"]) == {"model", "model, 4 beams"}
    assert [name.split()[0] for name in record["scores"]] == ["model", "model,", "first", "most", "nearest"]
    out, err = capsys.readouterr()
    assert "48 pairs; cut for length: 0 articles, 0 summaries" in out
    assert re.search(r"model against (first|most|nearest)[a-z0-9 ]*: ROUGE-L [+-]\d+\.\d, 95 % interval [+-]", out)
    assert "6 test pairs: each moves a score by up to 16.7, so that they say little." in out
    assert (folder / "scores.txt").read_text() in out
    assert "3/3 steps" in err and "tokens/s" in err
    assert len(checkpoints.History.load(folder / "history.json").loss) == 3


def test_a_stopped_run_goes_on_to_the_very_weights(shop, monkeypatch):
    run("--data", shop, "--steps", "4")
    path = checkpoint_of()
    wanted = path.read_bytes()
    path.unlink()
    run("--data", shop, "--steps", "4", "--minutes", "1e-9")
    with pytest.raises(ValueError, match="unfinished run: --resume goes on, --replace begins it anew"):
        run("--data", shop, "--steps", "4")

    real, steps = training.train_step, Mock(side_effect=[None, None, KeyboardInterrupt])
    with monkeypatch.context() as patch:
        patch.setattr(training, "train_step", lambda *arguments: steps() or real(*arguments))
        with pytest.raises(SystemExit, match=r"is whole, and the same command with --resume goes on"):
            run("--data", shop, "--steps", "4", "--resume")
    torch.rand(3)
    run("--data", shop, "--resume")
    assert path.read_bytes() == wanted, "weights, Adam's averages, random state and history, bit for bit"


def test_a_run_stopped_before_its_first_checkpoint_promises_none(shop, monkeypatch):
    monkeypatch.setattr(checkpoints, "save_checkpoint", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run("--data", shop, "--steps", "1")


def test_a_run_goes_on_only_as_it_began_and_is_replaced_only_where_that_is_asked_for(shop, monkeypatch):
    run("--data", shop, "--steps", "4", "--minutes", "1e-9")
    path = checkpoint_of()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a run of 4 steps, not of 9; go on without --steps"):
        run("--data", shop, "--steps", "9", "--resume")
    with pytest.raises(ValueError, match="nothing to resume"):
        run("--data", shop, "--seed", "1", "--resume")
    write_pairs(Path(shop), 41)
    other = r"there is no \S+ \(but \S+shop-\w{6}-seed0\S+, of other data or another seed\)"
    with pytest.raises(ValueError, match=other):
        run("--data", shop, "--resume")
    write_pairs(Path(shop), 40)
    path.write_bytes(before[:-1])
    for options in ([], ["--resume"]):
        with pytest.raises(ValueError, match="no whole checkpoint .*use another copy, or train anew with --replace"):
            run("--data", shop, *options)
    assert trained("--data", shop, "--steps", "4", "--replace").state.finished
    monkeypatch.setenv(BY_MAKE, "")
    with pytest.raises(ValueError, match=r"^runs.shop-\w+-seed0 holds a finished run: REPLACE=1 trains it anew"):
        run("--data", shop, "--steps", "4")


@pytest.mark.parametrize("copying", [False, True])
def test_the_newsroom_has_two_test_sets_and_counts_slots(copying, monkeypatch):
    """Two steps on few stories: what it learns in all of them, the benchmark and the slow test tell."""
    few, newsroom = partial(make_newsroom, train=60, dev=10, test=12), tasks.newsroom
    monkeypatch.setattr(tasks, "make_newsroom", few)
    monkeypatch.setattr(tasks, "newsroom", lambda *arguments: newsroom(*arguments).of_steps(2))
    run("--task", "newsroom", "--copy", str(int(copying)))
    folder = Path("runs/newsroom-copying-seed0" if copying else "runs/newsroom-seed0")
    model, vocabulary, *_ = checkpoints.load_checkpoint(folder / "checkpoint.safetensors")
    assert isinstance(model, CopyingTransformer) == copying and len(vocabulary.slots) == (tasks.SLOTS if copying else 0)
    record = json.loads((folder / "scores.json").read_text())
    assert list(record) == ["seconds", "test set", "names that were never seen"]
    assert all("slots" in row for row in record["test set"]["scores"].values())
    assert record["names that were never seen"]["examples"][0]["article"] == few(0).unseen_names[0].article


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--task newsroom --data shop.jsonl", "two things to learn"),
        ("--steps 3", "^--steps 3 is for pairs of a file: add --data FILE, or leave it out"),
        ("--length 3", "^--length 3 is for pairs of a file: add --data FILE, or leave it out"),
        ("--model x --data shop.jsonl --length 9", "by its own lengths, .* no --copy or --length"),
        ("--skip", "^--skip is for pairs of a file: add --data FILE, or leave it out"),
        ("--fields a,b", "^--fields a,b is for pairs of a file: add --data FILE"),
        ("--ship", "newsroom model of seed 0 ships; add --task newsroom and leave the seed"),
        ("--ship --task newsroom --seed 1", "newsroom model of seed 0"),
        ("--copy 1", "copying is for the newsroom or a file of pairs"),
        ("--resume --replace", "--resume and --replace exclude each other"),
        ("--model facebook/bart-base", "give --data FILE beside --model facebook/bart-base, and no --copy"),
        ("--model x --data shop.jsonl --copy 0", "give --data FILE beside --model x, and no --copy"),
        ("--resume", "nothing to resume: there is no .*; train without --resume"),
    ],
)
def test_what_cannot_be_together_is_refused(options, message):
    with pytest.raises(CourseError, match=message):
        run(*options.split())


def test_a_file_is_learned_by_a_model_that_copies_unless_it_may_not(shop):
    assert isinstance(trained("--data", shop, "--steps", "1").model, CopyingTransformer)
    assert type(trained("--data", shop, "--steps", "1", "--copy", "0", stem="shop-plain").model) is Transformer
    assert len(list(Path("runs").iterdir())) == 2, "with copying and without it are two runs"


def test_some_words_are_hidden_from_a_newsroom_that_copies_in_training_alone(monkeypatch):
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


def test_what_ships_is_what_was_trained_in_half_precision(tmp_path, monkeypatch):
    vocabulary = Vocabulary.of_words(["flood closes bridge"])
    config = TransformerConfig(vocab_size=len(vocabulary), d_model=8, num_heads=2, d_ff=8)
    for kind, name in ((Transformer, "SHIPPED"), (CopyingTransformer, "COPYING")):
        monkeypatch.setattr(pretrained.newsroom, name, tmp_path / name)
        model = kind(config)
        assert pretrained.ship(model, vocabulary) == tmp_path / name
        loaded, _ = pretrained.newsroom_model(copying=name == "COPYING")
        assert type(loaded) is kind
        for p, q in zip(loaded.parameters(), model.parameters(), strict=True):
            assert p.dtype == q.dtype == torch.float32 and p.equal(q.half().float()), "what was trained stays as it was"


# --- minutes, steps


def test_minutes_become_steps_which_repeat_the_run_bit_for_bit(shop, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(training, "time", Clock(0.5))  # 20 steps between two readings: 40 a second, so 12 in 0.3 s
        patch.setattr(runs, "time", Clock(0.0))  # to get ready takes none
        state = trained("--data", shop, "--minutes", "0.005").state
        out = capsys.readouterr().out
        assert "--steps 12 is what 0.005 minutes hold; it repeats this run exactly" in out
        assert state.recipe.steps == 12
        assert len(state.history.step) == 1, "now a step takes half a second: half of the time again is over"
        assert "1 steps of 12" in out and "the time is over, and --resume goes on" in out
        state = trained("--data", shop, "--minutes", "0.005", "--resume").state
        assert len(state.history.step) == 2, "its minutes hold one step more"
    run("--data", shop, "--resume")
    measured = checkpoint_of().read_bytes()
    run("--data", shop, "--steps", "12", "--replace")
    assert checkpoint_of().read_bytes() == measured, "the timing leaves no trace, in weights, averages or random state"


def test_a_run_is_not_stopped_where_only_its_steps_are_given(shop, monkeypatch):
    monkeypatch.setattr(training, "time", Clock(1e6))
    assert trained("--data", shop, "--steps", "3").state.finished


@pytest.mark.parametrize(("ready", "steps"), [(0.1, 8), (60.0, 6)])
def test_getting_ready_is_part_of_the_minutes_and_half_of_them_is_left(ready, steps, shop, monkeypatch, capsys):
    monkeypatch.setattr(training, "time", Clock(0.5))  # 40 steps a second
    monkeypatch.setattr(runs, "time", Clock(ready))
    run("--data", shop, "--minutes", "0.005")
    assert f"--steps {steps} is what 0.005 minutes hold" in capsys.readouterr().out


def batches_of(data: str) -> int:
    task = tasks.pairs_of_file(Path(data), 0)
    return len(plan_batches(task.training_examples(task.vocabulary()), task.recipe.max_tokens))


def test_few_pairs_are_not_read_for_ever(shop, monkeypatch, capsys):
    monkeypatch.setattr(training, "time", Clock(1e-4))
    monkeypatch.setattr(runs, "PASSES", 3)
    steps = trained("--data", shop, "--minutes", "10").state.recipe.steps
    assert steps == 3 * batches_of(shop)
    line = f"--steps {steps}: 3 times over these pairs, which is less than the minutes hold"
    assert line in capsys.readouterr().out


def test_pairs_that_are_read_often_are_learned_in_another_way(shop, monkeypatch):
    """More dropout and smoothing, embeddings that stay, risk in the end: and a run that is stopped goes on so."""
    monkeypatch.setattr(runs, "RISK", 0.5)
    task = tasks.pairs_of_file(Path(shop), 0)
    vocabulary, most = task.vocabulary(), 5 * batches_of(shop)
    vectors = word_vectors(task.training_examples(vocabulary).articles, len(vocabulary), 16, 0)
    begun = runs._Start(task, training, vocabulary, None, torch.device("cpu"))
    start = begun.model(task, vectors).output.weight
    for steps, dropout, smoothing in ((most - 1, 0.1, 0.0), (most, 0.2, 0.1)):
        model, _, state, _ = trained("--data", shop, "--steps", str(steps), "--replace")
        often = steps == most
        assert (model.config.dropout, state.recipe.label_smoothing) == (dropout, smoothing)
        assert (state.recipe.risk_steps, state.recipe.fixed_embeddings) == (round(0.5 * steps) * often, often)
        assert model.output.weight.equal(start) == often
    stopped = trained("--data", shop, "--steps", str(steps), "--minutes", "1e-9", "--replace").state
    assert len(stopped.history.step) == 1
    again = trained("--data", shop, "--resume").model
    assert all(a.equal(b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
    monkeypatch.setattr(tasks, "make_newsroom", partial(make_newsroom, train=60, dev=10, test=12))
    newsroom = tasks.newsroom(0)
    assert newsroom.of_passes(100) is newsroom, "whose recipe is its own"
    together = SimpleNamespace(**{**vars(training), "minimizes_risk": workers.minimizes_risk})
    monkeypatch.setattr(runs, "who_trains", lambda: together)
    assert trained("--data", shop, "--steps", str(most), "--replace").state.recipe.risk_steps == 0


def test_the_steps_that_minimize_risk_are_measured_too(monkeypatch, capsys):
    """Where one takes nine times as long as another, half of the steps take nine tenths of the minutes."""
    timed = []

    def steps_within(minutes, model, *rest):
        timed.append((model.output.weight.requires_grad, len(rest) == 3))
        return 100 if len(rest) == 3 else 900

    monkeypatch.setattr(training, "steps_within", steps_within)
    monkeypatch.setattr(runs, "RISK", 0.5)
    monkeypatch.setattr(training, "train_step", lambda *rest: 1.0)
    monkeypatch.setattr(training, "risk_step", lambda *rest: 1.0)
    run("--data", str(write_pairs(Path("shop.jsonl"), 2000)), "--minutes", "1")
    assert timed == [(True, False), (False, False), (False, True)]
    assert "--steps 180 is what 1 minutes hold" in capsys.readouterr().out


# --- folders, fields, rules


@pytest.mark.parametrize("file", ["train.jsonl", "training.jsonl", "train-00000-of-00001.jsonl"])
def test_the_same_files_are_the_same_run_however_they_are_given(file, tmp_path):
    Path("news").mkdir()
    ways = [write_pairs(Path("news/data") / file, 9), Path("news/data"), tmp_path / "news", Path("news/../news/data")]
    names = {tasks.choose(None, way).name for way in (ways if file != "training.jsonl" else ways[:2])}
    assert len(names) == 1 and names.pop().startswith("news-")


def test_cut_summaries_are_told_at_the_start_and_the_end_and_whenever_the_model_writes(capsys):
    write_rows("long.jsonl", [(f"the shop sold {n}", f"{n} Lamps are sold " * (5 + n % 2 * 4)) for n in range(40)])
    run("--data", "long.jsonl", "--steps", "1")
    start, _, end = capsys.readouterr().out.partition("1 steps of 1")
    cut, case = "In training, 32 of 32 summaries are cut after 16 tokens", "no capitals: it writes in lower case."
    for line in (start, next(line for line in end.splitlines() if line.startswith(("The model is", "The test pairs")))):
        assert cut in line and case in line
    assert re.search("It writes by the rule .* chose: (no [23] tokens in a row twice|repetition allowed)[.]\n", end)
    cli.run("write", "--text", "the shop sold 3")
    out, err = capsys.readouterr()
    assert cut in err and case in err and len(Summarizer.load().vocabulary.encode(out)) <= 16, "as when it was scored"


def test_the_length_that_is_proposed_keeps_summaries_whole():
    write_rows("long.jsonl", [(f"the shop sold {n}", f"lamp {n} " * (90 if n % 9 else 30)) for n in range(40)])
    told, length = [], None
    for _ in range(2):
        task = pairs_of_file(Path("long.jsonl"), 0, length=length)
        vocabulary = task.vocabulary()
        examples = task.training_examples(vocabulary)
        assert plan_batches(examples, task.recipe.max_tokens)
        told += results._remarks(task, vocabulary, examples) or [task.name]
        length = int("".join(re.findall(r"--length (\d+) cuts few or none", told[-1])) or 0)
    assert "in lower case" not in told[0] and re.fullmatch(r"long-\d+-\w{6}-seed0", told[1])


def test_a_run_is_called_by_its_data_and_never_shares_a_folder_with_other_pairs():
    names = [tasks.choose("ten_pairs", None).name]
    stems = {
        "a/shop.jsonl": "shop",
        "b/shop.jsonl": "shop",
        "ten_pairs.jsonl": "ten_pairs",
        ".v.1.jsonl": "v.1",
        "my.data.v2/train.jsonl": "my.data.v2",
        "two Words.JSONL": "two Words",
    }
    for number, (file, stem) in enumerate(stems.items()):
        names.append(tasks.choose(None, write_pairs(Path(file), 20 + number), 3).name)
        assert re.fullmatch(rf"{stem}-[0-9a-f]{{6}}-seed3", names[-1])
    assert len(set(names)) == len(names)
    assert tasks.choose(None, Path("a/shop.jsonl"), 3).name == names[1], "the same pairs find their run again"


def test_a_file_may_call_its_fields_otherwise(capsys):
    rows = [f"mail {n},on day {n} the shop sold {n} lamps,{n} Lamps sold" for n in range(20)]
    Path("mail.csv").write_text("\n".join(["id,text,headline", *rows]))
    run("--data", "mail.csv", "--steps", "1", "--fields", "text, headline")
    Path("more.jsonl").write_text("".join(json.dumps({"text": f"the shop sold {n}"}) + "\n" for n in range(9)))
    cli.run("write", "--file", "more.jsonl")
    shown = r"article    on day \d+ the shop sold \d+ lamps\nreference  \d+ Lamps sold"
    assert re.search(shown, capsys.readouterr().out)
    Path("mail.csv").write_text("id,subject,x\n1,2,3")
    with pytest.raises(ValueError, match=r"the field body is missing \(there are: id, subject, x\)"):
        run("--data", "mail.csv", "--steps", "1", "--fields", "body,subject")


def test_the_rules_that_suit_the_development_set_are_kept_and_written_by(shop, monkeypatch):
    """Let development like what the first rule writes least and the last most, until a table is to be made."""
    liked = iter([0.1, 0.2, 0.3])

    def rated(*arguments):
        real = score(*arguments)
        return replace(real, rougeL=next(liked, real.rougeL))

    monkeypatch.setattr(results.scoring, "score", rated)
    monkeypatch.setattr(tasks, "pairs_of_file", pairs_of_file)  # a small model is sure of no text
    rules = trained("--data", shop, "--steps", "1").rules
    assert rules.no_repeat_ngram_size == 3
    summarizer = Summarizer.load(checkpoint_of())
    assert summarizer.rules == rules
    words = summarizer.vocabulary.encode(summarizer.write("on day 3 the shop sold 3 lamps"))
    ngrams = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
    assert len(set(ngrams)) == len(ngrams), f"what is written does not obey {rules}"


def test_rules_are_chosen_on_the_first_part_of_the_development_set_and_on_nothing_else(monkeypatch, capsys):
    """What is written is the article, or its first word, which is right in the pairs that may not be asked."""
    monkeypatch.setattr(results, "ASKED", 2)
    size = "no_repeat_ngram_size"
    monkeypatch.setattr(decoding, "greedy", lambda _, src, n, rules: src if getattr(rules, size) else src[:, :1])
    asked, others = [Pair(text, text) for text in ("rain today", "snow and wind")], [Pair("sun and sand", "sun")] * 3
    splits, both = Splits(others, [*asked, *others], others), (Rules(), Rules(no_repeat_ngram_size=2))
    task = replace(tasks.ten_pairs(0), splits=splits, rules=both)
    vocabulary = Vocabulary.of_words(text for pair in splits.dev for text in pair)
    assert results.best_rules(task, torch.nn.Linear(1, 1), vocabulary) == both[1]
    assert "twice: ROUGE-L 100.0\n" in capsys.readouterr().out


# --- errors and alphabets


def test_an_error_of_a_worker_is_marked_unless_it_is_a_bug():
    with pytest.raises(CourseError, match="^steps must be positive, got 0$"):
        course_errors(lambda: Recipe(steps=0))
    with pytest.raises(CourseError, match="No such file"):
        course_errors(lambda: Path("nowhere").read_text())
    with pytest.raises(ValueError, match="invalid literal") as error:
        course_errors(lambda: int("x"))
    assert not isinstance(error.value, CourseError)


def test_a_broken_file_leaves_no_run():
    Path("shop.jsonl").write_text('{"article": "a"}\n')
    with pytest.raises(CourseError, match="^shop.jsonl: none of 1 rows is a pair\n  line 1: the field summary is mis"):
        run("--data", "shop.jsonl")
    assert not Path("runs").exists()


def test_an_alphabet_that_lacks_signs_stops_nothing(monkeypatch):
    """As into a file on Windows."""
    write_rows("shop.jsonl", [(f"день {n} ✓", f"{n} ламп") for n in range(9)])
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # this process keeps its own handlers
    monkeypatch.setattr(sys, "argv", ["tfm", "train", "--data", "shop.jsonl", "--steps", "1", "--device", "cpu"])
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="cp1252"))
    cli.main()
    sys.stdout.flush()
    assert re.search(r"^reference  \d \?{4}$", shown.getvalue().decode("cp1252"), re.MULTILINE)
