"""Beam search that is too simple to be wrong: one text at a time, no cache, lists instead of tensors."""

import torch
from torch import Tensor

from tfm_lib.model import Transformer
from tfm_lib.writing.next_token import NO_RULES, Rules, log_softmax

Text = tuple[float, list[int]]  # its total log p, at the end its score, and its tokens


@torch.no_grad()
def plain_beam_search(
    model: Transformer,
    src: Tensor,
    max_new_tokens: int,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    rules: Rules = NO_RULES,
) -> list[Text]:
    """The best texts for src (S,), num_beams at most, best first; the settings are those of `beam_hypotheses`."""
    config = model.config
    beams: list[Text] = [(0.0, [config.start_id])]
    finished: list[Text] = []
    for length in range(1, max_new_tokens + 1):
        tgt = torch.tensor([tokens for _, tokens in beams], device=src.device)  # (beams, length)
        log_probs = log_softmax(model(src.expand(len(beams), -1), tgt)[:, -1])  # (beams, V)
        log_probs = rules.forbid(log_probs, tgt, config.eos_id, full=length == max_new_tokens)
        longer: list[Text] = []
        for (total, tokens), row in zip(beams, log_probs.tolist(), strict=True):
            longer += [(total + log_p, [*tokens, token]) for token, log_p in enumerate(row) if log_p > -torch.inf]
        best = sorted(longer, reverse=True)[: 2 * num_beams]  # one of each beam may end, and num_beams go on
        for total, tokens in best[:num_beams]:
            if tokens[-1] == config.eos_id or length == max_new_tokens:
                finished.append((total / length**length_penalty, tokens[1:]))
        finished = sorted(finished, reverse=True)[:num_beams]
        beams = [beam for beam in best if beam[1][-1] != config.eos_id][:num_beams]
        if not beams:
            break
        as_if_it_ended = beams[0][0] / length**length_penalty
        if len(finished) == num_beams and (early_stopping or as_if_it_ended <= finished[-1][0]):
            break
    return finished
