"""What a run leaves to be read: its learning curve, how it writes best, and its scores beside the baselines."""

import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tfm_lib.commands.tasks import Task
from tfm_lib.data.batches import Examples
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import command, option
from tfm_lib.files import write_whole
from tfm_lib.learning.checkpoints import History
from tfm_lib.model import Transformer
from tfm_lib.pretrained.summarizer import SCORES
from tfm_lib.writing import decoding, scoring
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.next_token import Rules
from tfm_lib.writing.rouge import lead

LEAST = 10  # test pairs, below which the interval of a lead is none: over a single pair it has no width
FEW = 100  # test pairs, below which a score says little
MANY = 10_000  # training pairs, below which a published model knows far more of the language
ASKED = 500  # development pairs that say which rules suit a model
BEAMS = 4  # as wide as summaries are mostly searched for
CUT = 0.05  # of the summaries, beyond which too many are cut to learn from


def begin(
    task: Task, model: Transformer, vocabulary: Vocabulary, examples: Examples, folder: Path | None
) -> dict[str, Any]:
    """Say what a run learns from; return, and keep in the folder of a new run, what `results_of` gives but scores."""
    remarks = _remarks(task, vocabulary, examples) if task.fields else []
    about = {"fields": [*task.fields], "length": task.max_summary, "remarks": remarks} if task.fields else {}
    parameters = sum(weight.numel() for weight in model.parameters())
    learns = f"Training {parameters:,} parameters on {model.output.weight.device}: {examples}"
    print(learns, *remarks, sep="\n", flush=True)
    if folder is not None:
        keep(about, folder)
    return about


def _remarks(task: Task, vocabulary: Vocabulary, examples: Examples) -> list[str]:
    """What somebody's pairs keep a model from learning, in a line each: the end of a summary, capitals."""
    summaries, cut, remarks = [pair.summary for pair in task.splits.train], examples.cut_summaries, []
    if cut > CUT * len(summaries):
        longest = sorted(map(len, vocabulary.encode_all(summaries, target=True)))[-1 - int(CUT * len(summaries))]
        fix = "leave them out" if task.start.published else f"{option('length', longest)} cuts few or none"
        many = f"In training, {cut:,} of {len(summaries):,} summaries are cut after {task.max_summary} tokens"
        remarks.append(f"{many}, so that the model doesn't learn from them where a summary ends: {fix}.")
    if vocabulary.decode(vocabulary.encode("Abc")).islower() and any(text != text.lower() for text in summaries):
        remarks.append("The model's vocabulary has no capitals: it writes in lower case.")
    return remarks


def keep(record: dict[str, Any], folder: Path) -> None:
    """Write what `results_of` reads."""
    write_whole(folder / SCORES, json.dumps(record, indent=1, ensure_ascii=False).encode())


def draw(history: History, path: Path) -> None:
    """Draw the learning curve to a PNG file."""
    from tfm_lib.show.plots import learning_curve

    picture = io.BytesIO()
    learning_curve(history).savefig(picture)
    write_whole(path, picture.getvalue())


def best_rules(task: Task, model: Transformer, vocabulary: Vocabulary) -> Rules:
    """Of the task's rules, those under which the model writes best on the development set."""
    if len(task.rules) == 1:
        return task.rules[0]
    rated = {}
    for rules in task.rules:
        rated[rules] = development_score(task, model, vocabulary, rules)
        print(f"On the development set, {_named(rules)}: ROUGE-L {100 * rated[rules]:.1f}", flush=True)
    return max(rated, key=rated.__getitem__)


def _named(rules: Rules) -> str:
    size = rules.no_repeat_ngram_size
    return f"no {size} tokens in a row twice" if size else "repetition allowed"


def development_score(task: Task, model: Transformer, vocabulary: Vocabulary, rules: Rules) -> float:
    """ROUGE-L of what the model writes greedily, by these rules, on the development set, or the first part of it."""
    pairs = task.splits.dev[:ASKED]
    written = partial(decoding.greedy, rules=rules)
    texts = decoding.summarize(model, vocabulary, task.encode(pairs, vocabulary), task.max_summary, write=written)
    return scoring.score(texts, [pair.summary for pair in pairs]).rougeL


def report(
    task: Task, model: Transformer, vocabulary: Vocabulary, rules: Rules, folder: Path, record: dict[str, Any]
) -> None:
    """Print a table and five examples of each test set, and keep them in the record of what the run is about."""
    texts: list[str] = []
    baselines = scoring.Baselines(task.splits.train, task.splits.dev)
    for name, (splits, stories) in task.test_sets.items():
        examples = task.encode(splits.test, vocabulary)
        print(f"Scoring the {name}: {examples}", flush=True)
        write = partial(decoding.summarize, model, vocabulary, examples, task.max_summary, progress=True)
        summaries, variants = write(write=partial(decoding.greedy, rules=rules)), {}
        if len(task.rules) > 1:
            variants[f"model, {BEAMS} beams"] = write(write=partial(beam_search, num_beams=BEAMS, rules=rules))
        table = scoring.evaluate(summaries, splits, stories, baselines, others=variants, progress=True)
        texts.append(f"The {name}\n{table}")
        leads: dict[str, tuple[float, float, float]] = {}
        if len(task.rules) > 1:  # the newsroom needs no interval to tell its models from a baseline
            leads, lines = _leads({"model": summaries, **variants}, table, baselines, splits.test)
            texts += lines
        shown = list(zip(splits.test, summaries, strict=True))[:5]
        texts += [f"article    {p.article}\nreference  {p.summary}\nmodel      {text}" for p, text in shown]
        listed = [p._asdict() | {"model": text} for p, text in shown]
        record[name] = table.to_dict() | {"leads": leads, "examples": listed}
    text = "\n\n".join(texts)
    write_whole(folder / "scores.txt", f"{text}\n".encode())
    print(f"\n{text}\n\nCheckpoint, scores and learning curve are in {folder}")
    if len(task.rules) > 1:
        sizes, published = (len(task.splits.train), len(examples)), task.start.published is not None
        verdict, *rest = conclusion(*sizes, leads["model"], published)
        print(" ".join([verdict, *record["remarks"]]), *rest, sep="\n")
        print(f"It writes by the rule that the development set chose: {_named(rules)}.")
        record["remarks"] += [verdict] if leads["model"][2] < 0 else []
    keep(record, folder)
    print(f"Next: {command('write')} {option('text', repr('...'))}")


def conclusion(learned: int, tested: int, over_best: tuple[float, float, float], published: bool = False) -> list[str]:
    """What a run on somebody's pairs has shown: against the best baseline, by how many test pairs, and what would help.

    over_best: the lead over that baseline in ROUGE-L, and its 95 % interval. published: it began as a published model.
    """
    mean, low, high = (100 * value for value in over_best)
    if low > 0 and tested >= LEAST:
        verdict = f"The model is better than what needs no model, by {mean:.1f} ROUGE-L."
    elif high < 0:
        verdict = f"The model is worse than what needs no model, by {-mean:.1f} ROUGE-L: don't use it yet."
    else:
        verdict = "The test pairs don't tell the model from what needs no model."
    each = 100 / tested
    measure = f"{tested:,} test pair{'s' * (tested != 1)}: each moves a score by up to {each:.1f}"
    measure += ", so that they say little." if tested < FEW else "."
    pairs = f"{learned:,} pair{'s' * (learned != 1)}"
    help = f"It learned from {pairs}; more of them, or more time, may help."
    if learned < MANY and not published:
        teach = f"{pairs} teach{'es' * (learned == 1)} little language"
        help = f"{teach}; {option('model', 'facebook/bart-base')} has learned English."
    return [verdict, measure, help]


def _leads(
    ways: dict[str, list[str]], table: scoring.Table, baselines: scoring.Baselines, pairs: Sequence[Pair]
) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    """By how much each way to write is better than the best baseline, with its interval, as numbers and in words."""
    texts = baselines.summarize([pair.article for pair in pairs])
    best = max(texts, key=lambda row: table.scores[row].rougeL)
    leads, lines = {}, []
    for way, summaries in ways.items():
        leads[way] = lead(summaries, texts[best], [pair.summary for pair in pairs], baselines.tokenizer)
        mean, low, high = (100 * value for value in leads[way])
        lines.append(f"{way} against {best}: ROUGE-L {mean:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}")
    return leads, lines
