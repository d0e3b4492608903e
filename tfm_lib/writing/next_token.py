"""The next token: which may come, and with what probability."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.errors import CourseError


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a text may not do, whoever chooses its tokens: greedy, sampling and beam search alike.

    Raises ValueError for values that can't be, and, when it is first asked, for ids that are not in the vocabulary.
    """

    min_new_tokens: int = 0  # eos_id may not come before so many other tokens
    no_repeat_ngram_size: int = 0  # no so many tokens in a row may come twice; 0: they may
    banned: tuple[int, ...] = ()  # ids that never come
    first: int | None = None  # the id that every text begins with, certain whatever the model says
    last: int | None = None  # the id that comes where a text is full, certain too
    renormalized: bool = False  # what the rules allow shares the probability of what they forbid

    def __post_init__(self) -> None:
        object.__setattr__(self, "banned", tuple(self.banned))  # a file has it as a list
        counts = {"min_new_tokens": self.min_new_tokens, "no_repeat_ngram_size": self.no_repeat_ngram_size}
        for name, value in (counts | {f"id {i}": i for i in self._ids}).items():
            if not isinstance(value, int):
                raise CourseError(f"{name} must be a whole number, got {value!r}; round it")
            if value < 0:
                raise CourseError(f"{name} can't be negative, got {value}; leave it out for no such rule")

    @property
    def _ids(self) -> list[int]:
        return [i for i in (*self.banned, self.first, self.last) if i is not None]

    def check(self, max_new_tokens: int) -> None:
        """Raise ValueError unless texts of up to max_new_tokens can obey."""
        if (least := self.min_new_tokens) > max_new_tokens:
            raise CourseError(f"min_new_tokens must lie in 0..{max_new_tokens}, max_new_tokens, got {least}")

    def forbid(self, logits: Tensor, written: Tensor, eos_id: int, full: bool = False) -> Tensor:
        """The logits or log-probabilities (B, V), with -inf at the tokens that may not follow `written` (B, 1 + t).

        The start token, with which `written` begins, counts in the tokens that may not come twice. Where nothing
        else is left, eos_id is allowed after all. full: no token comes after this one.
        """
        if self == NO_RULES:
            return logits
        length, n, last_id = written.shape[1], self.no_repeat_ngram_size, logits.shape[1] - 1
        if wrong := [i for i in self._ids if i > last_id]:
            raise CourseError(f"banned, first and last must be ids of the vocabulary, 0..{last_id}, got {wrong[0]}")
        certain = self.last if full and self.last is not None else self.first if length == 1 else None
        if certain is not None:
            alone = torch.full_like(logits, -torch.inf)
            alone[:, certain] = 0.0
            return alone
        forbidden = torch.zeros_like(logits, dtype=torch.bool)
        forbidden[:, list(self.banned)] = True
        if 0 < n <= length:
            ngrams = written.unfold(1, n, 1)  # (B, places, n)
            would_repeat = (ngrams[:, :, :-1] == written[:, None, length - n + 1 :]).all(-1)  # (B, places)
            times = torch.zeros_like(forbidden, dtype=torch.int64)
            forbidden |= times.scatter_add(1, ngrams[:, :, -1], would_repeat.long()) > 0
        if length <= self.min_new_tokens:
            forbidden[:, eos_id] = True
        forbidden[:, eos_id] &= ~forbidden.all(-1)
        logits = logits.masked_fill(forbidden, -torch.inf)
        return log_softmax(logits) if self.renormalized else logits


NO_RULES = Rules()


def next_token_probs(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """What `sample` draws from: logits (..., V) -> probabilities (..., V) that sum to 1.

    The logits are divided by the temperature; then all but the top_k most likely tokens get 0; then all but the
    fewest most likely ones that together reach the probability top_p. What is left is scaled to sum to 1.
    Raises ValueError for a temperature that is not positive, top_k below 1, top_p outside (0, 1].
    Source: Fan et al. 2018, section 5 (top-k); Holtzman et al. 2020, section 3 (top-p); the order is `generate`'s.
    """
    if not temperature > 0:
        raise CourseError(f"temperature must be positive, got {temperature}; greedy is what 0 would mean")
    if top_k is not None and top_k < 1:
        raise CourseError(f"top_k counts tokens and must be at least 1, got {top_k}; use None for all of them")
    if top_p is not None and not 0 < top_p <= 1:
        raise CourseError(f"top_p is a probability in (0, 1], got {top_p}; use None for all tokens")
    logits = logits / temperature
    if top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    probs = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    if top_p is not None:
        ranked, order = probs.sort(descending=True, stable=True)
        more_likely = F.pad(ranked.cumsum(-1)[..., :-1], (1, 0))  # what all tokens before it have together
        nucleus = ranked.masked_fill(more_likely >= top_p, 0.0)
        probs = torch.zeros_like(probs).scatter(-1, order, nucleus / nucleus.sum(-1, keepdim=True))
    return probs


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities over the last axis, in float32 at least: sums of half-precision ones would be too coarse."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
