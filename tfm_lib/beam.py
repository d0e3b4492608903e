"""Beam search: several texts are written side by side, and the best of them is kept."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.decoding import Writer, after_the_end, evaluating
from tfm_lib.model import Transformer
from tfm_lib.next_token import NO_RULES, Rules, log_softmax


class Hypotheses(NamedTuple):
    """For each source, the best texts that were found, best first, each in the form that `greedy` returns."""

    tokens: Tensor  # (B, num_beams, T)
    scores: Tensor  # (B, num_beams); -inf, and only pad_id in tokens, where there was no such text


def beam_search(
    model: Transformer,
    src: Tensor,
    max_new_tokens: int,
    src_mask: Tensor | None = None,
    *,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    rules: Rules = NO_RULES,
) -> Tensor:
    """The best text that beam search finds: src (B, S) -> new tokens (B, up to max_new_tokens), as from `greedy`.

    It is the first one of `beam_hypotheses`, which says how they are found.
    """
    tokens, _ = beam_hypotheses(
        model,
        src,
        max_new_tokens,
        src_mask,
        num_beams=num_beams,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        rules=rules,
    )
    best = tokens[:, 0]  # (B, T)
    return best[:, ~after_the_end(best, model.config.eos_id).all(0)]


@torch.inference_mode()
def beam_hypotheses(
    model: Transformer,
    src: Tensor,
    max_new_tokens: int,
    src_mask: Tensor | None = None,
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

    The encoder and the keys and values of cross-attention are computed once a source, and a source that is done leaves
    the batch. For src_mask and the mode see `greedy`; what the rules allow keeps its log p.
    Raises ValueError as `greedy` does, and for num_beams below 1.
    """
    rules.check(max_new_tokens)
    with evaluating(model):
        writer = Writer(model, src, max_new_tokens, src_mask)
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
    if num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    written = writer.start[:, None]  # (b * beams, 1 + length), at first with one beam
    for length in range(1, max_new_tokens + 1):
        log_probs = rules.forbid(log_softmax(writer.next_logits(written[:, -1])), written, writer.eos_id)
        if length == 1:
            totals = torch.zeros_like(log_probs[:, :1])  # (b, beams): a start token is certain
            found = Hypotheses(
                written.new_zeros(len(written), num_beams, max_new_tokens),
                totals.new_full((len(written), num_beams), -torch.inf),
            )
        totals, rows, tokens = _best_continuations(totals, log_probs, 2 * num_beams)  # (b, 2 * num_beams) each
        texts = torch.cat([written[rows], tokens[:, :, None]], dim=2)  # (b, 2 * num_beams, 1 + length)
        ended = (tokens == writer.eos_id) | (length == max_new_tokens)
        scores = (totals / length**length_penalty).masked_fill(~ended, -torch.inf)
        sources = writer.source.view(len(totals), -1)[:, 0]  # (b,), those that are not done
        _keep_best(found, sources, texts[:, :num_beams, 1:], scores[:, :num_beams])

        totals, ranks = totals.masked_fill(ended, -torch.inf).topk(min(num_beams, totals.shape[1]))
        worst = found.scores[sources, -1]
        goes_on = worst == -torch.inf
        if not early_stopping:
            goes_on |= totals[:, 0] / length**length_penalty > worst
        if not goes_on.any():
            break
        totals, ranks = totals[goes_on], ranks[goes_on]
        writer.select(rows[goes_on].gather(1, ranks).flatten())
        written = texts[goes_on].take_along_dim(ranks[:, :, None], dim=1).flatten(0, 1)
    unused = after_the_end(found.tokens, writer.eos_id) | (found.scores == -torch.inf)[:, :, None]
    tokens = found.tokens.masked_fill(unused, writer.pad_id)
    return Hypotheses(tokens[:, :, ~unused.flatten(0, 1).all(0)], found.scores)


def _best_continuations(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of all continuations of a source's beams the best `number`, best first: their totals, the row that each goes on
    from, and the token that it adds, (b, number) each. totals (b, beams), log_probs (b * beams, V)."""
    (sources, beams), vocab_size = totals.shape, log_probs.shape[1]
    every = (totals[:, :, None] + log_probs.view(sources, beams, vocab_size)).flatten(1)  # (b, beams * V)
    totals, best = every.topk(min(number, every.shape[1]))
    first_rows = torch.arange(0, sources * beams, beams, device=best.device)[:, None]
    return totals, first_rows + best // vocab_size, best % vocab_size


def _keep_best(found: Hypotheses, sources: Tensor, texts: Tensor, scores: Tensor) -> None:
    """Of what was found for `sources` (b,) and of new texts (b, beams, length), keep the best."""
    texts = F.pad(texts, (0, found.tokens.shape[2] - texts.shape[2]))
    tokens = torch.cat([found.tokens[sources], texts], dim=1)
    scores, ranks = torch.cat([found.scores[sources], scores], dim=1).topk(found.scores.shape[1])
    found.tokens[sources] = tokens.take_along_dim(ranks[:, :, None], dim=1)
    found.scores[sources] = scores
