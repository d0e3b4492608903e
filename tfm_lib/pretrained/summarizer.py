"""A trained model at work: texts in, summaries out."""

import json
import os
from collections.abc import Mapping, Sequence
from math import exp, inf
from os.path import expanduser
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from tfm_lib.data.batches import pad_rows
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import CHECKPOINT, RUNS, load_checkpoint
from tfm_lib.model import Transformer
from tfm_lib.pretrained import COPYING, SHIPPED
from tfm_lib.pretrained.firefox import FIREFOX
from tfm_lib.writing.beam import beam_hypotheses
from tfm_lib.writing.next_token import NO_RULES, Rules

ROWS = 64  # texts that are written side by side
SHOWN = 10  # unknown words of a text
SCORES = "scores.json"  # what a run leaves beside its checkpoint
SHIP = {"newsroom": SHIPPED, "newsroom-copying": COPYING}  # what comes with the package, by the name to ask for it
NAMES = {SHIPPED: "the newsroom model that ships", COPYING: "the newsroom model that ships and copies"}


class Candidate(NamedTuple):
    """A summary, and how probable the model finds it: the product of p over its tokens, its end among them."""

    text: str
    probability: float


class Summarizer:
    """A trained model and its vocabulary. `Summarizer.load("runs/NAME").write("...")` summarizes a text."""

    at_once = ROWS
    results: Mapping[str, Any] = MappingProxyType({})  # as `results_of` gives them; `length` is that of a summary

    def __init__(
        self, model: Transformer, vocabulary: Vocabulary, name: str = "a model in memory", rules: Rules = NO_RULES
    ) -> None:
        self.model, self.vocabulary, self.name, self.rules = model, vocabulary, name, rules

    @classmethod
    def load(cls, run: str | Path | None = None) -> "Summarizer":
        """The model of a run, or of what `find_checkpoint` takes instead, on the CPU. An unfinished run's will do.

        A translator by its name, firefox/en-pt or firefox/pt-en, translates. Raises ValueError as `find_checkpoint`,
        `load_checkpoint` and `read_translator` do, and where training has diverged.
        """
        if str(run).startswith(FIREFOX):
            from tfm_lib.pretrained.translator import Interpreter, read_translator

            return Interpreter(read_translator(str(run)))
        path = find_checkpoint(run)
        model, vocabulary, state, rules = load_checkpoint(path)
        name = NAMES.get(path) or str(path).removesuffix(f"{os.sep}{CHECKPOINT}")
        if not all(parameter.isfinite().all() for parameter in model.parameters()):
            raise CourseError(f"{name} has weights that are not finite: its training diverged; train it anew")
        if state is not None and not state.finished:
            name += f", unfinished: {len(state.history.step)} of {state.recipe.steps} steps"
        summarizer = cls(model, vocabulary, name, rules)
        summarizer.results = results_of(path)
        return summarizer

    def write(self, text: str, beams: int = 1) -> str:
        """The summary of a text: greedily, or the most probable one that beam search finds with so many beams.

        `remarks` says what of a text the model doesn't read. Raises ValueError where nothing is left of it.
        """
        [[best]] = self.candidates([text], 1, beams)
        return best.text

    def candidates(self, texts: Sequence[str], count: int = 1, beams: int | None = None) -> list[list[Candidate]]:
        """The `count` most probable summaries that beam search finds for each text, most probable first.

        There are fewer where no more were found. Of different rows of tokens two may read the same. beams: `count`
        unless given; one is greedy. Raises ValueError for an empty text, and for numbers that can't be.
        """
        beams = count if beams is None else beams
        if isinstance(texts, str):
            raise TypeError(f"texts must be many texts, got one; use [{texts[:20]!r}], or write")
        for name, number in {"count": count, "beams": beams}.items():
            if number < 1:
                raise CourseError(f"{name} must be 1 or more, got {number}")
        if count > beams:
            raise CourseError(f"{beams} beams find no {count} texts; leave beams out, or give {count} or more")
        words = [self.vocabulary.slot_words(text) for text in texts]
        rows = self.vocabulary.encode_all(texts, words)
        if not all(rows):
            raise CourseError("an empty text has no summary; leave it out")
        candidates: list[list[Candidate]] = []
        for start in range(0, len(rows), self.at_once):
            part = slice(start, start + self.at_once)
            candidates += self._candidates(rows[part], words[part], count, beams)
        return candidates

    def _writing(self, src: Tensor) -> tuple[Transformer, int]:
        """The model for texts src (B, S), and how many tokens it may write."""
        return self.model, self.results.get("length", self.model.config.max_length)

    def _candidates(
        self, rows: list[list[int]], words: list[list[str]], count: int, beams: int
    ) -> list[list[Candidate]]:
        decode, longest = self.vocabulary.decode, self.model.config.max_length
        rows = [self.vocabulary.frame(ids, longest) for ids in rows]
        src = pad_rows(rows, self.vocabulary.pad_id).to(next(self.model.parameters()).device)  # (B, S)
        model, most = self._writing(src)
        # Without a length penalty the score is the sum of log p, and the ranking is that of the probabilities.
        tokens, scores = beam_hypotheses(model, src, most, num_beams=beams, length_penalty=0.0, rules=self.rules)
        of_texts = zip(tokens[:, :count].tolist(), scores[:, :count].tolist(), words, strict=True)
        return [  # the score of a beam without a text is -inf; that of a long text may be so low that its p is 0
            [Candidate(decode(ids, slots), exp(s)) for ids, s in zip(texts, log_ps, strict=True) if s > -inf]
            for texts, log_ps, slots in of_texts
        ]

    def refusal(self, text: str) -> CourseError | None:
        """Why the model can't write for a text, where it can't."""
        return None

    def remarks(self, text: str) -> list[str]:
        """What of a text the model doesn't read, in a line each: words it doesn't know, what is too long."""
        remarks = []
        length, longest = len(self.vocabulary.encode(text)), self.model.config.max_length
        if length > longest:
            remarks.append(f"the model reads the first {longest} of {length} tokens")
        copied = self.vocabulary.slot_words(text)
        if unknown := list(dict.fromkeys(self.vocabulary.unknown_words(text, copied))):
            more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
            remarks.append(f"unknown words, read as [unk]: {', '.join(unknown[:SHOWN])}{more}")
        return remarks


def results_of(checkpoint: Path) -> dict[str, Any]:
    """What a run left beside it: scores and, of somebody's pairs, their `fields`, `length` and `remarks` for users.

    Raises ValueError where the file is cut short or altered.
    """
    path = checkpoint.with_name(SCORES)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")).items()) if path.is_file() else {}
    except (ValueError, AttributeError) as error:
        fix = "delete it, and the model writes without it, or train the model anew"
        raise CourseError(f"{path} is cut short or altered ({error}); {fix}") from error


def find_checkpoint(run: str | Path | None = None) -> Path:
    """The checkpoint of a run: given by its folder or by the file itself, or by the name of one in SHIP.

    Without a run, the newest one in runs/, or what ships where there is none. Raises ValueError where there is nothing.
    """
    runs = sorted(RUNS.glob(f"*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
    if run is None:
        return runs[-1] if runs else SHIPPED
    for path in (Path(expanduser(run)), Path(expanduser(run)) / CHECKPOINT):
        if path.is_file():
            return path
    if str(run) not in SHIP:
        choices = ", ".join([*(str(path.parent) for path in runs), *SHIP])
        raise CourseError(f"{run}: no trained model is there; give one of: {choices}")
    return SHIP[str(run)]
