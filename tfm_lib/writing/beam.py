"""Beam search over many sources at once, with a cache: what lesson 08 writes for one, without."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.errors import CourseError
from tfm_lib.model import SourceMask, Transformer
from tfm_lib.writing.cache import BeamCache
from tfm_lib.writing.decoding import Writer, after_the_end, evaluating
from tfm_lib.writing.next_token import NO_RULES, Rules, log_softmax


class BeamWriter(Writer):
    """A writer whose rows are beams, and whose cache never moves.

    A source's beams are the tokens of one row, and a mask says whose past each key is. So when beams are chosen anew
    only the mask changes, and what belongs to the source is there once for all its beams.
    """

    cache: BeamCache

    def __init__(
        self, model: Transformer, src: Tensor, max_new_tokens: int, src_mask: SourceMask, num_beams: int
    ) -> None:
        super().__init__(model, src, max_new_tokens, src_mask)
        room = 1 + num_beams * (max_new_tokens - 1)  # the start token, and then a token for each beam
        self.cache = BeamCache(model.config.num_decoder_layers, room, src.shape[1], src.device)
        self.past = torch.ones(len(src), 1, 0, dtype=torch.bool, device=src.device)  # (b, beams, keys)

    def next_logits(self, token: Tensor) -> Tensor:
        """Write one more token in each beam, (b * beams,) -> the logits of those that may follow, (b * beams, V)."""
        ids = token.view(len(self.past), -1)  # (b, beams)
        self.cache.begin_step(ids.shape[1])
        new_keys = torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device).expand(len(ids), -1, -1)
        self.past = torch.cat([self.past, new_keys], dim=2)
        mask = self.past[:, None]  # (b, 1, beams, keys)
        logits = self.model.decode(ids, self.memory, src_mask=self.src_mask, tgt_mask=mask, cache=self.cache)
        return logits.flatten(0, 1)

    def select(self, rows: Tensor) -> None:
        """Go on with the beams `rows` (b * beams,), as many for each source; sources that have none leave."""
        sources = (rows // self.past.shape[1]).unique_consecutive()  # (b,)
        source, past = self.source[rows], self.past.flatten(0, 1)[rows].unflatten(0, (len(sources), -1))
        if len(sources) < len(self.past):
            super().select(sources)
        self.source, self.past = source, past


class Hypotheses(NamedTuple):
    """For each source, the best texts that were found, best first, each in the form that `greedy` returns."""

    tokens: Tensor  # (B, num_beams, T)
    scores: Tensor  # (B, num_beams); -inf, and only pad_id in tokens, where there was no such text


def beam_search(
    model: Transformer, src: Tensor, max_new_tokens: int, src_mask: SourceMask = "padding", **settings: Any
) -> Tensor:
    """The best text of `beam_hypotheses`, whose settings it takes: src (B, S) -> new tokens (B, T), as by `greedy`."""
    best = beam_hypotheses(model, src, max_new_tokens, src_mask, **settings).tokens[:, 0]  # (B, T)
    return best[:, ~after_the_end(best, model.config.eos_id).all(0)]


@torch.inference_mode()
def beam_hypotheses(
    model: Transformer,
    src: Tensor,
    max_new_tokens: int,
    src_mask: SourceMask = "padding",
    *,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    rules: Rules = NO_RULES,
) -> Hypotheses:
    """Write num_beams texts side by side: src (B, S) -> the best num_beams of those that ended, and their scores.

    Each step ranks all continuations of a source's beams by their total, the sum of log p of their tokens, and keeps
    the first 2 * num_beams. Those that end with eos_id among the first num_beams are hypotheses, with the score
    total / (number of tokens, eos_id among them) ** length_penalty. Those that end further down are dropped, and the
    first num_beams that don't end go on. At max_new_tokens, every text counts as ended.
    A source is done with num_beams hypotheses if early_stopping; otherwise when, in addition, the best total that goes
    on, divided as if it ended now, is no better than the worst hypothesis. That is a heuristic: under a positive
    length_penalty a text's score may still rise as it grows. In all this it follows `generate` of transformers.

    The source is encoded and projected once for all its beams, and leaves the batch when it is done. What the rules
    allow keeps its log p. Raises ValueError as `greedy` does, and for num_beams below 1.
    """
    with evaluating(model):
        writer = BeamWriter(model, src, max_new_tokens, src_mask, num_beams)
        return search(writer, max_new_tokens, num_beams, length_penalty, early_stopping, rules)


@torch.inference_mode()
def search(
    writer: Writer,
    max_new_tokens: int,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    rules: Rules = NO_RULES,
) -> Hypotheses:
    """The loop of `beam_hypotheses`, over anything that gives logits; see there."""
    rules.check(max_new_tokens)
    if num_beams < 1:
        raise CourseError(f"num_beams must be at least 1, got {num_beams}")
    texts = writer.start[:, None]  # (b * beams, 1 + length), at first with one beam
    for length in range(1, max_new_tokens + 1):
        log_probs = log_softmax(writer.next_logits(texts[:, -1]))  # (b * beams, V)
        log_probs = rules.forbid(log_probs, texts, writer.eos_id, length == max_new_tokens)
        if length == 1:
            totals = torch.zeros_like(log_probs[:, :1])  # (b, beams): a start token is certain
            shape = (len(texts), num_beams)
            finished = Hypotheses(texts.new_zeros(*shape, max_new_tokens), totals.new_full(shape, -torch.inf))
        totals, rows, tokens = _best_continuations(totals, log_probs, 2 * num_beams)  # (b, 2 * num_beams) each
        longer = torch.cat([texts[rows], tokens[:, :, None]], dim=2)  # (b, 2 * num_beams, 1 + length)
        ended = (tokens == writer.eos_id) | (length == max_new_tokens)
        scores = (totals / length**length_penalty).masked_fill(~ended, -torch.inf)
        sources = writer.source.view(len(totals), -1)[:, 0]  # (b,), those that are not done
        _keep_best(finished, sources, longer[:, :num_beams, 1:], scores[:, :num_beams])

        totals, ranks = totals.masked_fill(ended, -torch.inf).topk(min(num_beams, totals.shape[1]))
        worst = finished.scores[sources, -1]
        goes_on = worst == -torch.inf
        if not early_stopping:
            goes_on |= totals[:, 0] / length**length_penalty > worst
        if not goes_on.any():
            break
        totals, ranks = totals[goes_on], ranks[goes_on]
        writer.select(rows[goes_on].gather(1, ranks).flatten())
        texts = longer[goes_on].take_along_dim(ranks[:, :, None], dim=1).flatten(0, 1)
    unused = after_the_end(finished.tokens, writer.eos_id) | (finished.scores == -torch.inf)[:, :, None]
    tokens = finished.tokens.masked_fill(unused, writer.pad_id)
    return Hypotheses(tokens[:, :, ~unused.flatten(0, 1).all(0)], finished.scores)


def _best_continuations(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of all continuations of a source's beams the best `number`, best first: their totals, the row that each goes on
    from, and the token that it adds, (b, number) each. totals (b, beams), log_probs (b * beams, V)."""
    (sources, beams), vocab_size = totals.shape, log_probs.shape[1]
    every = (totals[:, :, None] + log_probs.view(sources, beams, vocab_size)).flatten(1)  # (b, beams * V)
    totals, best = every.topk(min(number, every.shape[1]))
    first_rows = torch.arange(0, sources * beams, beams, device=best.device)[:, None]
    return totals, first_rows + best // vocab_size, best % vocab_size


def _keep_best(finished: Hypotheses, sources: Tensor, texts: Tensor, scores: Tensor) -> None:
    """Of the finished texts of `sources` (b,) and of new ones (b, beams, length), keep the best."""
    texts = F.pad(texts, (0, finished.tokens.shape[2] - texts.shape[2]))
    tokens = torch.cat([finished.tokens[sources], texts], dim=1)
    scores, ranks = torch.cat([finished.scores[sources], scores], dim=1).topk(finished.scores.shape[1])
    finished.tokens[sources] = tokens.take_along_dim(ranks[:, :, None], dim=1)
    finished.scores[sources] = scores
