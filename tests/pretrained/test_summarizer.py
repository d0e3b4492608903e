"""`make write`: what a trained model writes for a user's texts, and what it says where it can't."""

import io
import json
import os
import subprocess
import sys
from math import log
from pathlib import Path

import pytest
import torch

from tests.data.test_batches import bart_like
from tests.model.test_model import small
from tests.times import HUNG
from tests.writing.test_decoding import lively
from tfm_lib.commands.cli import run
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import History, State, save_checkpoint
from tfm_lib.learning.recipes import Recipe
from tfm_lib.pretrained import newsroom_model
from tfm_lib.pretrained import summarizer as writing
from tfm_lib.pretrained.summarizer import Candidate, Summarizer, find_checkpoint
from tfm_lib.writing.beam import beam_hypotheses, beam_search
from tfm_lib.writing.decoding import greedy, token_log_probs

STORY = (
    "Kofi Mensah could not believe the news at first. Builder Julia Rossi welcomed the first guests to four new "
    "cinemas on Thursday. People in Ottawa had waited for them for years."
)
SUMMARY = "ottawa gets 4 theaters from rossi on thursday"
SHIPS = "Model: the newsroom model that ships\n"
UNKNOWN = "unknown words, read as [unk]: "


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def toy() -> Summarizer:
    """Random weights: every text has many summaries that are nearly as probable."""
    return Summarizer(lively(0, max_length=5), Vocabulary.of_words(["the old mill burns"]))


def write(*arguments: str, stdin: bytes | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    if monkeypatch is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin or b"")))
    run("write", *arguments)


def keep(run: str, summarizer: Summarizer, steps_done: int | None = None) -> Path:
    """A run of three steps in runs/, finished unless so many steps are done."""
    path = Path("runs", run, "checkpoint.safetensors")
    history = History()
    for _ in range(3 if steps_done is None else steps_done):
        history.add(1.0, 0.1, 10)
    save_checkpoint(path, summarizer.model, summarizer.vocabulary, State(Recipe(steps=3), history, "", {}))
    return path


# --- in Python


def test_one_beam_is_greedy_and_more_are_beam_search_by_probability(toy):
    model, vocabulary = toy.model, toy.vocabulary
    for text in ("mill", "the old mill burns", "burns the mill"):
        src = torch.tensor([vocabulary.encode(text)])
        assert toy.write(text) == vocabulary.decode(greedy(model, src, 5)[0])
        best = vocabulary.decode(beam_search(model, src, 5, num_beams=4, length_penalty=0.0)[0])
        assert toy.write(text, beams=4) == toy.candidates([text], count=3, beams=4)[0][0].text == best


def test_a_candidates_probability_is_that_of_its_tokens():
    model, vocabulary = newsroom_model()
    [candidates] = Summarizer(model, vocabulary).candidates([STORY], count=4)
    assert candidates[0].text == SUMMARY
    probabilities = [p for _, p in candidates]
    assert probabilities == sorted(probabilities, reverse=True) and sum(probabilities) < 1
    src = torch.tensor([vocabulary.encode(STORY)])
    for text, p in candidates:
        tokens = torch.tensor([[*vocabulary.encode(text), model.config.eos_id]])
        assert token_log_probs(model, src, tokens).sum().item() == pytest.approx(log(p), abs=1e-4)


def test_a_text_whose_probability_is_too_small_for_a_float_is_written(toy, monkeypatch):
    def hopeless(*arguments, **options):
        tokens, scores = beam_hypotheses(*arguments, **options)
        return tokens, scores - 1000

    wanted = toy.write("mill", beams=4)
    monkeypatch.setattr("tfm_lib.pretrained.summarizer.beam_hypotheses", hopeless)
    assert toy.write("mill", beams=4) == wanted
    assert toy.candidates(["mill"], count=1)[0] == [(wanted, 0.0)]


def test_texts_have_the_same_candidates_alone_and_among_many(toy, monkeypatch):
    texts = ["mill", "the old mill burns", "burns the mill", "old", "mill burns the mill"]
    alone = [toy.candidates([text], 2, 3)[0] for text in texts]
    for rows in (64, 2, 1):
        monkeypatch.setattr(Summarizer, "at_once", rows)
        together = toy.candidates(texts, 2, 3)
        assert [[c.text for c in of_text] for of_text in together] == [[c.text for c in of_text] for of_text in alone]
    assert toy.candidates([]) == [] and [len(found) for found in toy.candidates(texts)] == [1] * len(texts)


def test_padding_is_what_the_vocabulary_says():
    model = small(vocab_size=7, tied=False, pad_id=1, start_id=2, eos_id=2, max_length=8).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7, generator=torch.Generator().manual_seed(parameter.numel()))
    summarizer, texts = Summarizer(model, bart_like()), ["flood", "flood closes bridge"]
    alone = [summarizer.candidates([text], 2)[0] for text in texts]
    for one, other in zip(alone, summarizer.candidates(texts, 2), strict=True):  # beside a longer text
        assert [c.text for c in one] == [c.text for c in other]
        assert [c.probability for c in one] == pytest.approx([c.probability for c in other])


def test_there_are_no_more_candidates_than_texts_that_can_be_written(toy):
    [candidates] = Summarizer(lively(0, max_length=1), toy.vocabulary).candidates(["mill"], count=9)
    assert len(candidates) == 8  # each token of the vocabulary
    assert sum(p for _, p in candidates) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.write(" \n"), ValueError, "empty text"),
        (lambda s: s.candidates(["fire", ""]), ValueError, "empty text"),
        (lambda s: s.write("fire", beams=0), ValueError, "beams must be 1 or more, got 0"),
        (lambda s: s.candidates(["fire"], count=-1), ValueError, "count must be 1 or more, got -1"),
        (lambda s: s.candidates(["fire"], 4, 2), ValueError, "2 beams find no 4 texts; leave beams out, or give 4"),
        (lambda s: s.candidates("fire"), TypeError, r"use \['fire'\], or write"),
    ],
)
def test_what_cannot_be_written_is_said(toy, call, error, message):
    with pytest.raises(error, match=message):
        call(toy)


def test_what_of_a_text_is_not_read_is_remarked(toy):
    assert toy.remarks("the old mill burns the") == []
    assert toy.remarks("the old mill burns the mill burns") == ["the model reads the first 5 of 7 tokens"]
    assert toy.candidates(["the old mill burns the mill burns"], 3) == toy.candidates(["the old mill burns the"], 3)
    assert toy.remarks("Tram old Tram fire") == [f"{UNKNOWN}Tram, fire"]
    many = " ".join(f"w{n}" for n in range(12))
    assert toy.remarks(many)[1] == f"{UNKNOWN}w0, w1, w2, w3, w4, w5, w6, w7, w8, w9 and 2 more"


def test_a_model_is_found_by_its_folder_its_file_or_as_the_newest(toy):
    assert find_checkpoint() == find_checkpoint("newsroom") == writing.SHIPPED
    first, second = keep("first", toy), keep("second", toy)
    os.utime(first, (2e9, 2e9))
    assert find_checkpoint() == find_checkpoint(Path("runs/first")) == find_checkpoint(str(first)) == first
    assert Summarizer.load().name == str(first.parent)
    os.utime(second, (3e9, 3e9))
    assert find_checkpoint() == second and find_checkpoint("newsroom") == writing.SHIPPED
    choices = r"^it's: no trained model .* one of: runs.first, runs.second, newsroom, newsroom-copying$"
    with pytest.raises(ValueError, match=choices):
        find_checkpoint("it's")


def test_an_unfinished_run_writes_and_says_so(toy):
    keep("half", toy, steps_done=1)
    found = Summarizer.load("runs/half")
    assert found.name == f"runs{os.sep}half, unfinished: 1 of 3 steps"
    assert found.write("the old mill") == toy.write("the old mill")


def test_weights_that_are_not_finite_are_refused(toy):
    with torch.no_grad():
        next(toy.model.parameters())[0, 0] = torch.nan
    keep("diverged", toy)
    with pytest.raises(ValueError, match=r"runs.diverged has weights that are not finite: its training diverged"):
        Summarizer.load("runs/diverged")


# --- as a command


def test_a_text_is_one_line_and_the_model_is_named_beside_it(capsys):
    write("--text", STORY.replace(". ", ".\n") + " zxq")
    assert capsys.readouterr() == (f"{SUMMARY}\n", f"{SHIPS}the text: {UNKNOWN}zxq\n")
    write("--text", STORY, "--count", "3")
    assert [len(line.split("\t")) for line in capsys.readouterr().out.splitlines()] == [2] * 3


def test_each_line_of_a_file_has_its_line(capsys, monkeypatch):
    monkeypatch.setattr(writing, "ROWS", 2)  # fewer than the file's lines
    texts = f"{STORY}\r\n\nthe library at noon"
    Path("texts.txt").write_bytes(b"\xef\xbb\xbf" + texts.encode())
    with pytest.raises(SystemExit) as end:
        write("--file", "texts.txt")
    out, err = capsys.readouterr()
    assert end.value.code == 1
    assert out.splitlines()[:2] == [SUMMARY, ""] and len(out.splitlines()) == 3
    assert "error: texts.txt, line 2: it is empty; fill it or leave it out\n" in err
    assert err.startswith(SHIPS) and "line 1: " not in err

    with pytest.raises(SystemExit):
        write("--file", "texts.txt", "--count", "2")
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "3", "3"] and rows[0][1:] == ["0.645", SUMMARY]


def test_what_is_wrong_with_lines_is_said_once_and_the_others_are_written(capsys):
    story = json.dumps({"id": 1, "article": STORY}).encode()
    wrong = {
        b'{"text": "a"}': "the field article is missing (there are: text); add it, or say which holds the text",
        b"[1]": "expected an object with article, got list",
        b'{"article": 3}': "article must be a string, got int; write it as text",
        b"": "it is empty; fill it or leave it out",
        b"\xff\xfe\xfa": "not Unicode",
    }
    Path("texts.jsonl").write_bytes(b"\n".join([story, *wrong, story, *wrong]) + b"\n")
    with pytest.raises(SystemExit) as end:
        write("--file", "texts.jsonl")
    out, err = capsys.readouterr()
    assert end.value.code == 1
    assert out.splitlines() == [SUMMARY, *[""] * 5, SUMMARY, *[""] * 5]
    first, *lines = err.splitlines()[1:]
    assert first == "error: texts.jsonl: 10 of 12 texts can't be summarized"
    for number, (line, start) in enumerate(zip(lines, wrong.values(), strict=True), start=2):
        assert line.startswith(f"  line {number}, line {number + 6}: {start}")


@pytest.mark.parametrize("given", ["a.jsonl", "-"])
def test_a_file_without_the_field_writes_nothing_and_says_so_once(given, capsys, monkeypatch):
    text = b'{"body": "the library"}\n' * 60
    Path("a.jsonl").write_bytes(text)
    with pytest.raises(ValueError, match=r"60 of 60 texts .*\n  line 1, .* and 55 more: .*: --fields body$"):
        write("--file", given, stdin=text, monkeypatch=monkeypatch)
    assert capsys.readouterr() == ("", SHIPS)


def test_what_a_run_has_shown_is_said_where_it_writes(toy, capsys):
    results = {"remarks": ["The model is worse: don't use it yet."], "fields": ["body", "subject"], "length": 2}
    keep("toy", toy).with_name("scores.json").write_text(json.dumps(results))
    Path("a.csv").write_text("subject,body\nx,the old mill\n")
    write("--file", "a.csv")
    out, err = capsys.readouterr()
    assert err == f"Model: runs{os.sep}toy\n{results['remarks'][0]}\n"
    assert len(out.split()) <= 2 < len(toy.write("the old mill").split())
    for broken in ('{"length": 2', "[]"):
        Path("runs/toy/scores.json").write_text(broken)
        with pytest.raises(CourseError, match="scores.json is cut short or altered .*; delete it, and the model"):
            Summarizer.load("runs/toy")


@pytest.mark.parametrize("arguments", [["--file", "-"], []])
def test_standard_input_is_read_where_it_is_no_terminal(arguments, capsys, monkeypatch):
    for given in (STORY, json.dumps({"article": STORY})):
        write(*arguments, stdin=given.encode(), monkeypatch=monkeypatch)
        assert capsys.readouterr().out == f"{SUMMARY}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "a", "--file", "b"], "a text and a file are two things to summarize"),
        (["--text", " \n"], "the text: it is empty; fill it or leave it out"),
        (["--file", "it's.CSV"], "can't read it's.CSV: there is no such file; check the path"),
        (["--file", "empty.txt"], "empty.txt: no texts in it; give each a line"),
        (["--file", "-"], "standard input: no texts in it"),
        (["--text", "fire", "--model", "runs/none"], "runs/none: no trained model is there; give one of: newsroom"),
    ],
)
def test_wrong_options_are_said(arguments, message, monkeypatch):
    Path("empty.txt").touch()
    with pytest.raises(ValueError, match=message):
        write(*arguments, monkeypatch=monkeypatch)


def test_who_gives_nothing_at_a_terminal_is_told_what_to_give(monkeypatch):
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    with pytest.raises(ValueError, match=r"make write TEXT='...' or FILE=texts.txt; without make, --text or --file"):
        write()


def test_summaries_are_lines_of_utf_8_wherever_they_go(toy, monkeypatch):
    keep("toy", toy)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(Summarizer, "candidates", lambda *_: [[Candidate("a\tfire \n in Zürich\r", 1.0)]])
    write("--text", "fire")
    assert out.buffer.getvalue().decode() == "a fire in Zürich\n"


@pytest.mark.skipif(sys.platform == "win32", reason="its shell has no such pipes")
def test_a_reader_who_has_enough_is_no_error():
    Path("many.txt").write_text("the library\n" * 640)
    command = f"('{sys.executable}' -m tfm_lib write --file many.txt; echo status $? >&2) | head -n 1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=HUNG)
    assert ran.stdout.count("\n") == 1
    assert [line for line in ran.stderr.splitlines() if "unknown" not in line] == [SHIPS.strip(), "status 0"]
