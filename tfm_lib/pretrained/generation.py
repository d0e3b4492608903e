"""How a published model wants to write: what its generation_config.json says, as arguments of ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfm_lib.errors import CourseError
from tfm_lib.writing.next_token import NO_RULES, Rules

# What `generate` of transformers does where nothing is said: 20 tokens behind the start token, among others.
DEFAULTS = {"max_length": 21, "min_length": 0, "num_beams": 1, "length_penalty": 1.0, "early_stopping": False}
# Settings that ours does not know, with the values at which they change nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "encoder_no_repeat_ngram_size": (0,),
    "penalty_alpha": (0.0,),
    "force_words_ids": (),
    "constraints": (),
    "suppress_tokens": ((), []),
    "begin_suppress_tokens": ((), []),
    "exponential_decay_length_penalty": (),
    "sequence_bias": (),
    "guidance_scale": (1.0,),
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
    def of(cls, theirs: Mapping[str, Any]) -> "Generation":
        """What a generation_config.json says; max_length and min_length there count the start token.

        Raises ValueError for settings that ours does not have.
        """
        said = DEFAULTS | {name: value for name, value in theirs.items() if value is not None}
        for name, values in NEUTRAL.items():
            if name in said and said[name] not in values:
                raise CourseError(f"{name}={said[name]!r} is a way to write that is not built here; remove it")
        banned = said.get("bad_words_ids", [])
        if any(len(ids) != 1 for ids in banned):
            raise CourseError(f"bad_words_ids can ban single tokens only, got {banned}")
        if said["early_stopping"] not in (True, False):
            raise CourseError(f"early_stopping must be true or false, got {said['early_stopping']!r}")
        return cls(
            max_new_tokens=said.get("max_new_tokens", said["max_length"] - 1),
            num_beams=said["num_beams"],
            length_penalty=float(said["length_penalty"]),
            early_stopping=said["early_stopping"],
            rules=Rules(
                min_new_tokens=said.get("min_new_tokens", max(0, said["min_length"] - 1)),
                no_repeat_ngram_size=said.get("no_repeat_ngram_size", 0),
                banned=tuple(ids[0] for ids in banned),
                first=said.get("forced_bos_token_id"),
                last=said.get("forced_eos_token_id"),
                renormalized=said.get("renormalize_logits", False),
            ),
        )

    def theirs(self) -> dict[str, Any]:
        """The same as a generation_config.json would say it."""
        rules = self.rules
        return {
            "max_length": self.max_new_tokens + 1,
            "min_length": rules.min_new_tokens + 1 if rules.min_new_tokens else 0,
            "num_beams": self.num_beams,
            "length_penalty": self.length_penalty,
            "early_stopping": self.early_stopping,
            "no_repeat_ngram_size": rules.no_repeat_ngram_size,
            "bad_words_ids": [[i] for i in rules.banned] or None,
            "forced_bos_token_id": rules.first,
            "forced_eos_token_id": rules.last,
            "renormalize_logits": rules.renormalized,
        }
