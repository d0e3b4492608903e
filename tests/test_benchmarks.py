"""The benchmarks measure what they say: equal work, right results. No test here hangs on a clock."""

import ast
import json
import re
import warnings
from pathlib import Path
from statistics import fmean

import pytest
import torch

from benchmarks import (
    attention_costs,
    buckets,
    changes,
    copying_digits,
    docstrings,
    layers_compared,
    learning,
    lessons,
    report,
    speed,
    training,
)
from benchmarks.peers import PEERS
from tfm_lib.checkpoints import History
from tfm_lib.lessons import course_file
from tfm_lib.pairs import Pair
from tfm_lib.vocabulary import Vocabulary

FOLDER = Path(speed.__file__).parent
BUDGET = learning.Budget(steps=2, every=2, stories=4, seeds=(0,))


@pytest.fixture(scope="module")
def results():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return speed.measure(speed.TINY, speed.TINY, 1, (128, 256), BUDGET, compiling=False)


def test_every_row_is_measured_and_reported(results, tmp_path):
    report.write(json.loads(json.dumps(results)), tmp_path)
    text = (tmp_path / "speed.md").read_text()
    assert {"training, small, dropout", *report.GOALS} <= results.keys()
    for name in report.GOALS:
        rows = results[name]
        assert rows["tfm_lib"]["min"] <= rows["tfm_lib"]["median"] <= rows["tfm_lib"]["max"]
        assert report.TITLES[name] in text and f"**{rows['tfm_lib']['median']:.2f}**" in text
    assert set(results["training, small, dropout"]) == set(speed.installed())
    assert re.search(r"!\[[^]]+\]\(speed\.png\)", text) and (tmp_path / "speed.png").stat().st_size > 10_000
    assert [run["steps"] for runs in results["learning"].values() for run in runs] == [None] * 3


def test_memory_of_attention_is_counted(results):
    """The formula holds 8 x n x n weights at least, in four bytes each; the fused kernel does not."""
    for length, row in results["attention"].items():
        assert row["the formula"]["bytes"] >= 8 * length**2 * 4
        assert row["tfm_lib.attention"]["bytes"] < 8 * length**2 * 4
    assert report.growth(results["attention"], "the formula", "bytes") == pytest.approx(2, abs=0.1)


def test_a_growth_is_found():
    rows = {n: {"x": {"bytes": 3 * n**1.5}} for n in (128, 512, 4096)}
    assert report.growth(rows, "x", "bytes") == pytest.approx(1.5)


@pytest.mark.parametrize("name", speed.installed())
def test_a_peer_learns(name):
    """Its loss falls: it trains on the targets that it is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = PEERS[name](speed.TINY, 0.0).train()
        src, tgt = speed.make_batch(speed.TINY, 4)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = model.loss(src, tgt)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_ours_equals_torchs_and_a_difference_would_be_found(monkeypatch):
    assert speed.check_equal(speed.TINY) < 1e-4
    monkeypatch.setattr(speed, "torch_twin", lambda ours: speed.TorchTransformer(speed.TINY, 0.0).stacks)
    with pytest.raises(ValueError, match="our logits differ"):
        speed.check_equal(speed.TINY)


def test_the_page_is_what_the_data_says(tmp_path):
    """speed.md is made of speed.json, and of the notes beside it."""
    results = json.loads((FOLDER / "speed.json").read_text())
    (tmp_path / "speed_notes.md").write_text((FOLDER / "speed_notes.md").read_text())
    report.write(results, tmp_path)
    assert (tmp_path / "speed.md").read_text() == (FOLDER / "speed.md").read_text()


@pytest.mark.parametrize("name", ["real_text_plain", "real_text_5_minutes", "newsroom", "newsroom_copying"])
def test_a_page_of_training_is_what_the_data_says(name):
    report = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert training.page(report, training.notes_of(name)) == (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert f"articles are cut at {report['runs'][0]['config']['max_length']} tokens" in training.page(report)


def real_text(name: str) -> tuple[list[dict], list[dict]]:
    """The runs of a report on real text, and what each of them scored."""
    runs = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["runs"]
    return runs, [scores for run in runs for scores in run["test_sets"].values()]


def test_the_page_on_real_text_quotes_its_reports():
    written = (FOLDER / "real_text.md").read_text(encoding="utf-8")
    names = {
        "real_text_plain": "a model that cannot copy, 7 minutes on busy cores, one seed",
        "real_text_5_minutes": "5 minutes",
        "real_text_30_minutes": "30 minutes",
    }
    measures = ("rouge1", "rouge2", "rougeL")
    for name, words in names.items():
        tested = real_text(name)[1]
        rows = [scores["scores"] for scores in tested]
        cells = [training.spread([100 * row["model"][measure] for row in rows]) for measure in measures]
        beams = [100 * row["model, 4 beams"]["rougeL"] for row in rows if "model, 4 beams" in row]
        cells += [training.spread(beams)] if beams else []
        assert f"| [{words}]({name}.md) | {' | '.join(cells)}" in written, name
        lead = [f"{100 * rows[0]['first 12 words'][measure]:.1f}" for measure in measures]
        assert f"| the first 12 words of the abstract | {' | '.join(lead)} |" in written, name


def test_a_copied_piece_is_bold():
    texts = ["", "the", "the sum", "the summa", "the summary", "the summary of x"]
    assert training.in_bold(texts, [False, True, False, False, True]) == "the **sum**mary **of x**"
    assert training.in_bold(["", "a"], [True]) == "**a**"
    assert training.in_bold(["", "", "a"], [True, False]) == "a", "what is not shown cannot be bold"


def test_a_curve_has_its_end_and_few_points():
    history = History(step=[*range(1, 1042)], loss=[2.0] * 1020 + [1.0] * 21)
    told = training.curve(history)
    assert told["step"][:2] == [21, 42] and len(told["step"]) == len(told["loss"]) == 49
    assert told["loss"][0] == 2.0 and told["loss"][-1] == pytest.approx((12 * 2 + 9) / 21, abs=1e-4)
    assert training.curve(History(step=[1, 2, 3], loss=[3.0, 2.0, 1.0])) == {"step": [1, 2, 3], "loss": [3.0, 2.0, 1.0]}


def test_the_readme_says_how_long_the_model_is():
    files = [FOLDER.parent / f"tfm_lib/{name}.py" for name in ("masks", "attention", "positions", "layers", "model")]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    readme = " ".join((FOLDER.parent / "README.md").read_text(encoding="utf-8").split())
    assert "The model itself is five files of about 800 lines together" in readme and abs(lines - 800) < 0.05 * 800


def test_the_readme_quotes_the_page():
    results = json.loads((FOLDER / "speed.json").read_text())
    readme = " ".join((FOLDER.parent / "README.md").read_text(encoding="utf-8").split())
    quoted = {
        "training, small, dropout": "a training step is {} times as fast",
        "training, small, no dropout": "or {} times without dropout, of which torch's has more",
        "greedy, small, batch 32": "greedy decoding is {} times as fast for 32 texts",
        "greedy, small, batch 1": "and {} times for one",
    }
    for name, words in quoted.items():
        assert words.format(f"{results[name]['tfm_lib']['median']:.1f}") in readme
    beams = [f"{rows['tfm_lib']['median']:.1f}" for name, rows in results.items() if name.startswith("beam")]
    assert f"our beam search is {min(beams)} to {max(beams)} times as fast as BART's" in readme
    for name in ("training, small, dropout", "training, small, no dropout", "training, larger, dropout"):
        assert abs(results[name]["tfm_lib"]["median"] - results[name]["transformers BART"]["median"]) < 0.1
    assert "BART in `transformers` trains as fast as ours" in readme


def test_the_readme_says_how_long_it_takes_to_learn():
    [scores] = [tested["scores"] for tested in real_text("real_text_plain")[1]]
    readme = " ".join((FOLDER.parent / "README.md").read_text(encoding="utf-8").split())
    plain, words = (f"{100 * scores[row]['rougeL']:.1f}" for row in ("model", "first 12 words"))
    below = "[first 12 words of the abstract](benchmarks/real_text.md)"
    assert f"with a ROUGE-L of {plain}, below the {words} of the {below}" in readme
    for minutes, words in (
        (5, "One that copies has {} after [five minutes on two cores]({}), and {} with beam search"),
        (30, "the mean of three seeds; after [thirty]({1}) it has {0} and {2}."),
    ):
        runs, tested = real_text(f"real_text_{minutes}_minutes")
        assert len(runs) == 3 and all(
            run["copying"] and min(run["seconds"], run["cpu_seconds"] / 2) < 72 * minutes for run in runs
        )
        leads = [lead for scores in tested for lead in scores["leads"].values()]
        assert all(low > 0 for _, low, _ in leads), "every seed, beyond its interval"
        own, beams = (
            f"{fmean(100 * scores['scores'][row]['rougeL'] for scores in tested):.1f}"
            for row in ("model", "model, 4 beams")
        )
        assert words.format(own, f"benchmarks/real_text_{minutes}_minutes.md", beams) in readme
    for run in json.loads((FOLDER / "newsroom.json").read_text())["runs"]:
        assert 30 < run["seconds"] < 90 and run["test_sets"]["test set"]["scores"]["model"]["exact"] > 0.9
    assert "The small stories are learned in about a minute." in readme


def test_the_page_of_changes_is_made_of_its_record():
    record = json.loads((FOLDER / "changes.json").read_text(encoding="utf-8"))
    assert changes.table(record) == (FOLDER / "changes.md").read_text(encoding="utf-8")


def test_buckets_are_measured_in_so_many_rounds(monkeypatch):
    asked = []

    def take_turns(tasks, rounds):
        asked.append(rounds)
        return {"random": [2.0, 3.0, 9.0], "bucketed": [1.0, 2.0, 3.0]}

    monkeypatch.setattr(buckets, "take_turns", take_turns)
    report = buckets.measure(*buckets.uneven(64), 2560, 3)
    assert asked == [3] and report["ratio"] == {"median": 2.0, "min": 1.5, "max": 3.0}
    assert (report["random"]["seconds"], report["bucketed"]["seconds"]) == (3.0, 2.0)


def test_the_page_of_docstrings_is_what_the_data_says():
    record = json.loads((FOLDER / "docstrings.json").read_text(encoding="utf-8"))
    assert docstrings.page(record) == (FOLDER / "docstrings.md").read_text(encoding="utf-8")


def test_a_run_on_docstrings_is_scored_pair_by_pair(monkeypatch):
    """What the lesson takes apart: a score for each pair, whose mean is the score; and no text of others."""
    pairs = docstrings.harvest("networkx")
    monkeypatch.setattr(docstrings, "SCORED", 4)
    monkeypatch.setitem(docstrings.SIZES, "small", docstrings.Size(True, 16, 4, 512, 1e-3, 0.0, 32))
    done = docstrings.run("small", "copying", 0, pairs[4:60])
    assert len(done["scores"]["each"]) == 4 == len(done["blocked scores"]["each"])
    assert done["scores"]["rougeL"] == pytest.approx(sum(done["scores"]["each"]) / 4, abs=0.1)
    assert not any(pair.article in json.dumps(done) or pair.summary in json.dumps(done) for pair in pairs)


@pytest.mark.parametrize(
    ("text", "loops"),
    [("return the the node", True), ("the node of the node", True), ("the node of the edge", False), ("", False)],
)
def test_a_loop_is_two_words_again_or_a_word_at_once(text, loops):
    assert docstrings.loops(text) == loops


def definitions(source: str) -> dict[str, str]:
    """The classes and functions of a text, without its comments and lines."""
    return {
        part.name: ast.unparse(part)
        for part in ast.parse(source).body
        if isinstance(part, ast.ClassDef | ast.FunctionDef)
    }


def test_lesson_14_trains_what_its_benchmarks_trained():
    book = json.loads(course_file("notebooks/14_before_and_beside.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    lesson = {name: text for cell in cells for name, text in definitions(cell).items()}
    shared = {
        copying_digits: ("Copier", "digits", "train"),
        layers_compared: ("Recurrent", "Convolution", "SelfAttention", "Reader", "symbol_from_afar", "fit"),
    }
    for script, names in shared.items():
        own = definitions(Path(script.__file__).read_text(encoding="utf-8"))
        for name in names:
            assert lesson[name] == own[name], name


@pytest.mark.parametrize(("name", "script"), [("copying_digits", copying_digits), ("layers_compared", layers_compared)])
def test_a_record_of_lesson_14_is_complete(name, script):
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert record["command"] == script.COMMAND and tuple(record["seeds"]) == script.SEEDS
    assert f"torch {torch.__version__.partition('+')[0]}" in record["machine"]["versions"]
    keys = [key for key in ("model", "kind", "task", "n") if key in record["runs"][0]]
    groups = {tuple(run[key] for key in keys) for run in record["runs"]}
    assert len(record["runs"]) == len(groups) * len(script.SEEDS)


def test_copying_is_measured_on_whole_strings():
    row = copying_digits.run("GRU with attention", 3, 0, steps=2, tested=8)
    assert row["n"] == len(row["wrote"]) == len(row["looked"]) == 3 and row["whole"] <= min(row["by position"])


@pytest.mark.parametrize(("distance", "first"), [(2, 2), (6, 6)])
def test_the_symbol_from_afar_stood_so_far_back(distance, first):
    ids, labels = layers_compared.symbol_from_afar(distance)
    assert (labels[:, :first] == layers_compared.IGNORED).all() and (labels[:, first:] == ids[:, :-first]).all()


def test_sorted_digits_are_asked_for_behind_the_separator():
    ids, labels = layers_compared.sorting(4)
    assert (ids[:, 4] == 10).all() and (labels[:, :4] == layers_compared.IGNORED).all()
    assert (labels[:, 4:] == ids[:, :4].sort(1)[0]).all() and (ids[:, 5:] == labels[:, 4:-1]).all()


def test_a_story_is_followed_by_its_summary_word_for_word():
    vocabulary = Vocabulary.of_words(["fire in oslo today", "fire oslo"])
    ids, labels = layers_compared.stories([Pair("fire in oslo today", "fire oslo")], vocabulary)()
    summary = [*vocabulary.encode("fire oslo"), 2]
    assert ids[0].tolist() == [*vocabulary.encode("fire in oslo today"), 1, *summary[:-1]]
    assert labels[0].tolist() == [layers_compared.IGNORED] * 4 + summary


def test_definitions_are_those_of_cells_that_only_define(monkeypatch, tmp_path):
    codes = [
        "from math import pi\n\ndef area(r):\n    return pi * square(r)",
        "area(1)",
        "def square(r):\n    return r * r",
    ]
    codes += ["import math\nfound = math.pi", "class Circle:\n    pass"]
    cells = [{"cell_type": "code", "source": code.splitlines(keepends=True)} for code in codes]
    cells.append({"cell_type": "markdown", "source": ["def prose(): no code"]})
    (tmp_path / "a_lesson.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.setattr(lessons, "course_file", lambda name: tmp_path / Path(name).name)
    found = lessons.definitions("a_lesson")
    assert found.area(2) == pytest.approx(12.566, abs=1e-3) and {"square", "Circle"} <= vars(found).keys()
    assert "found" not in vars(found)


@pytest.fixture(scope="module")
def cheaper():
    """The functions of lesson 15."""
    return lessons.definitions("15_cheaper_attention")


@pytest.fixture(scope="module")
def attention():
    """What was measured of them."""
    return json.loads((FOLDER / "attention_costs.json").read_text(encoding="utf-8"))


def test_ours_equal_the_packages_and_other_versions_do_not():
    record = json.loads((FOLDER / "references.json").read_text(encoding="utf-8"))
    packages = {row["reference"].split(":")[0] for row in record["rows"].values()}
    assert len(packages) == 6 and all(f"{name} missing" not in record["machine"]["versions"] for name in packages)
    for name, row in record["rows"].items():
        shipped = name.endswith("as it ships")  # routing-transformer adds 1e-5 to each count
        assert row["difference"] < (2e-5 if shipped else 1e-13), name
        assert row.get("its difference", 1) > 0.01, name


def test_each_way_to_attend_is_measured_at_each_length(cheaper, attention):
    draw = torch.Generator().manual_seed(0)
    names = [*attention_costs.variants(cheaper, *torch.randn(2, 1, 2, 256, 16), 64, draw)]
    assert [*attention["costs"]] == names
    lengths = attention["lengths"]
    for row in attention["costs"].values():
        for each in ("ratio", "ms", "MiB", "million FLOPs"):
            assert len(row[each]) == len(lengths)
        assert {len(ratios) for ratios in row["ratio"]} == {attention["repetitions"]}
        crossings = [attention_costs.cheaper_from(lengths, ratios) for ratios in zip(*row["ratio"], strict=True)]
        assert row["cheaper from"] == crossings
    inexact = [name for name in names if name not in (attention_costs.FULL, attention_costs.CAUSAL)]
    assert all([*rows] == inexact for rows in attention["errors"].values()) and len(attention["inputs"]) == 4


def test_a_mask_costs_and_blocks_save(attention):
    at = attention["lengths"].index(2048)
    rows = attention["costs"]
    assert min(rows["window by mask"]["ratio"][at]) > 1, "slower in each repetition"
    assert max(rows["window in blocks"]["ratio"][at]) < 0.5
    assert rows["window by mask"]["million FLOPs"] == rows["fused kernel"]["million FLOPs"]
    assert rows["window by mask"]["cheaper from"] == [None] * 3


def test_what_is_exact_has_no_error(attention):
    for rows in attention["errors"].values():
        assert max(rows["explicit table"]["error"] + rows["online softmax"]["error"]) < 1e-6
        assert rows["window by mask"]["error"] == rows["window in blocks"]["error"]
        assert all(error > 0.1 for row in rows.values() for error in row["plain mean"])


@pytest.fixture
def one_thread():
    """As the records were measured: each further thread of the fused kernel has memory of its own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_errors_memory_and_flops_are_those_of_the_record(cheaper, attention, monkeypatch):
    """What hangs on no clock: it comes out again."""
    monkeypatch.setattr(attention_costs, "SEEDS", [0])
    monkeypatch.setattr(attention_costs, "REPETITIONS", 1)
    layer = attention_costs.errors(cheaper, attention_costs.inputs()["layer 2"])
    for name, row in layer.items():
        recorded = attention["errors"]["layer 2"][name]
        assert row["error"][0] == pytest.approx(recorded["error"][0], rel=0.02, abs=1e-6), name
    for name, row in attention_costs.costs(cheaper, {256: 1}).items():
        for what in ("MiB", "million FLOPs"):
            assert row[what] == pytest.approx(attention["costs"][name][what][:1]), (name, what)


@pytest.mark.parametrize(
    ("ratios", "length"),
    [([2, 1.5, 1.1], None), ([0.9, 0.8, 0.7], 256), ([4, 2, 0.5], 724), ([0.9, 2, 0.5], 724), ([2, 1, 0.5], 512)],
)
def test_a_way_is_cheaper_from_where_it_stays_below_the_kernel(ratios, length):
    assert attention_costs.cheaper_from([256, 512, 1024], ratios) == length
