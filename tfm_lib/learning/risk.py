"""Minimum risk: learning from the scores of texts that the model writes itself, and not from each right word alone."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.data.batches import Batch, shifted
from tfm_lib.learning.recipes import Recipe
from tfm_lib.masks import padding_mask
from tfm_lib.model import Transformer
from tfm_lib.writing.decoding import evaluating, sample
from tfm_lib.writing.rouge import prefix_lcs

TEXTS, TEMPERATURE = 4, 0.7  # that a model writes for each article, and how boldly
SHARPNESS = 0.5  # of the odds among them: log p times this
WORDS = 0.2  # the weight of the loss at each right word, which keeps texts readable


def risk_step(model: Transformer, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float) -> float:
    """One step of gradient descent on the risk of one batch, in the place of `training.train_step`; returns its loss.

    The risk is 1 less the expected score of a text among the few that the model writes for an article, so that texts of
    a better score become more probable. The score is ROUGE-L, as F1, over the summary's tokens.
    Source: Shen et al. 2016, "Minimum Risk Training for Neural Machine Translation", section 3.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    pad_id, start_id, eos_id = batch.pad_id, model.config.start_id, model.config.eos_id
    rows = torch.arange(len(batch.src), device=batch.src.device).repeat_interleave(TEXTS)  # (B * TEXTS,)
    # Its seed comes from torch's random state, which a checkpoint keeps: a run that goes on draws the same.
    chance = torch.Generator(rows.device).manual_seed(int(torch.randint(2**62, ())))
    longest = batch.labels.shape[1]
    written = sample(model, batch.src[rows], longest, generator=chance, temperature=TEMPERATURE).clone()
    scores = _scores(written, batch.labels[rows], pad_id, eos_id).view(-1, TEXTS)  # (B, TEXTS)

    src_mask = padding_mask(batch.src, pad_id)  # (B, 1, 1, S)
    with evaluating(model):  # without dropout, as it was written
        memory = model.encode(batch.src, src_mask)
        logits = model.decode(shifted(written, start_id), memory[rows], src_mask=src_mask[rows])  # (B * TEXTS, T, V)
    surprise = F.cross_entropy(logits.mT, written, ignore_index=pad_id, reduction="none").sum(1)  # (B * TEXTS,)
    odds = (-SHARPNESS * surprise.view(-1, TEXTS)).softmax(1)  # (B, TEXTS)
    risk = 1 - (odds * scores).sum(1).mean()

    logits = model(batch.src, batch.decoder_input)  # (B, T, V)
    words = F.cross_entropy(logits.mT, batch.labels, ignore_index=pad_id, label_smoothing=recipe.label_smoothing)
    loss = risk + WORDS * words
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def _scores(written: Tensor, references: Tensor, pad_id: int, eos_id: int) -> Tensor:
    """ROUGE-L, as F1, of each row of tokens against its reference, without padding and ends: (N, T), (N, U) -> (N,)."""
    scores = []
    for rows in zip(written.tolist(), references.tolist(), strict=True):
        text, reference = ([i for i in ids if i not in (pad_id, eos_id)] for ids in rows)
        scores.append(2 * prefix_lcs(reference, text)[-1] / max(1, len(text) + len(reference)))
    return torch.tensor(scores, device=written.device)
