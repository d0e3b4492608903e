"""How a published model wants to write: what its generation_config.json says, as arguments of ours."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfm_lib.writing.next_token import NO_RULES, Rules

# What `generate` of transformers does where nothing is said: 20 tokens behind the start token, among others.
DEFAULTS = {"max_length": 21, "min_length": 0, "num_beams": 1, "length_penalty": 1.0, "early_stopping": False}
# Settings that ours does not know, with the values at which they change nothing.
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("num_beam_groups", "repetition_penalty", "encoder_repetition_penalty", "guidance_scale"), 1),
    **dict.fromkeys(("do_sample", "diversity_penalty", "penalty_alpha", "encoder_no_repeat_ngram_size"), 0),
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    **dict.fromkeys(("force_words_ids", "constraints", "exponential_decay_length_penalty", "sequence_bias"), None),
}
# Of Rules, and what the same is called there.
RULES = {
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "first": "forced_bos_token_id",
    "last": "forced_eos_token_id",
    "renormalized": "renormalize_logits",
}


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Settings of `greedy` (num_beams=1) and `beam_search`."""

    max_new_tokens: int
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    rules: Rules = NO_RULES

    @classmethod
    def of(cls, theirs: Mapping[str, Any], source: str | Path = "generation_config.json") -> "Generation":
        """What a generation_config.json says; max_length and min_length there count the start token.

        Settings that are not built here are left out, with a warning that names them: texts differ by them alone.
        """
        settings = DEFAULTS | {name: value for name, value in theirs.items() if value is not None}
        unknown = {name: settings[name] for name, neutral in NEUTRAL.items() if settings.get(name, neutral) != neutral}
        banned = settings.get("bad_words_ids", [])
        if phrases := [ids for ids in banned if len(ids) != 1]:
            unknown["bad_words_ids"] = phrases
        if settings["early_stopping"] not in (True, False):
            unknown["early_stopping"], settings["early_stopping"] = settings["early_stopping"], False
        if unknown:
            options = ", ".join(f"{name}={value!r}" for name, value in unknown.items())
            warnings.warn(f"{source}: {options}: not built here and left out", stacklevel=2)
        return cls(
            max_new_tokens=settings.get("max_new_tokens", settings["max_length"] - 1),
            num_beams=settings["num_beams"],
            length_penalty=float(settings["length_penalty"]),
            early_stopping=settings["early_stopping"],
            rules=Rules(
                min_new_tokens=settings.get("min_new_tokens", max(0, settings["min_length"] - 1)),
                banned=tuple(ids[0] for ids in banned if len(ids) == 1),
                **{ours: settings[name] for ours, name in RULES.items() if name in settings},
            ),
        )

    def theirs(self) -> dict[str, Any]:
        """The same as a generation_config.json would say it."""
        shortest = self.rules.min_new_tokens
        return {
            "max_length": self.max_new_tokens + 1,
            "min_length": shortest + 1 if shortest else 0,
            "num_beams": self.num_beams,
            "length_penalty": self.length_penalty,
            "early_stopping": self.early_stopping,
            "bad_words_ids": [[i] for i in self.rules.banned] or None,
            **{name: getattr(self.rules, ours) for ours, name in RULES.items()},
        }
