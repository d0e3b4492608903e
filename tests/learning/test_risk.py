"""Risk: what a model writes is scored as ROUGE-L scores it, and what scores better becomes more probable."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from tests.writing.test_copying import lively_copying
from tfm_lib.data.batches import Batch, Examples
from tfm_lib.learning import risk, training
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.risk import risk_step
from tfm_lib.writing.decoding import evaluating, sample

BATCH = Batch.of([[3, 4, 5, 6], [7, 5], [6, 6, 4]], [[4, 6], [5], [3, 6, 4]])
EXAMPLES = Examples([[3, 4, 5, 6], [7, 5], [6, 6, 4]] * 4, [[4, 6], [5], [3, 6, 4]] * 4, 0, 0)
RECIPE = Recipe(steps=8, peak_rate=1e-2, warmup_steps=1, max_tokens=60, label_smoothing=0.1)


def test_scores_by_hand():
    written = torch.tensor([[5, 6, 7, 2], [5, 7, 2, 0], [2, 0, 0, 0], [7, 5, 8, 9]])
    wanted = torch.tensor([[5, 7, 2], [5, 7, 2], [5, 7, 2], [5, 7, 2]])
    assert risk._scores(written, wanted, 0, 2).tolist() == pytest.approx([0.8, 1.0, 0.0, 2 / 6])


def test_the_loss_is_that_of_a_plain_loop(monkeypatch):
    model = lively_copying(3)
    drawn = torch.randint(3, 8, (3 * risk.TEXTS, 4), generator=torch.Generator().manual_seed(1))
    drawn[1, 1:], drawn[5, 2:] = torch.tensor([2, 0, 0]), torch.tensor([2, 0])  # texts that end
    monkeypatch.setattr(risk, "sample", lambda *arguments, **options: drawn)
    expected = torch.tensor(0.0, dtype=torch.float64)
    with evaluating(model), torch.no_grad():
        for article in range(3):
            src = BATCH.src[article][BATCH.src[article] != 0][None]
            right = [i for i in BATCH.labels[article].tolist() if i not in (0, 2)]
            log_ps, scores = [], []
            for row in drawn[article * risk.TEXTS : (article + 1) * risk.TEXTS].tolist():
                row = row[: row.index(2) + 1] if 2 in row else row
                before = torch.tensor([[1, *row[:-1]]])
                log_p = model(src, before).log_softmax(-1)[0]
                log_ps.append(sum(log_p[t, token] for t, token in enumerate(row)))
                scores.append(float(risk._scores(torch.tensor([row]), torch.tensor([right]), 0, 2)))
            odds = (risk.SHARPNESS * torch.stack(log_ps)).softmax(0)
            expected += (1 - (odds * torch.tensor(scores, dtype=torch.float64)).sum()) / 3
        logits = model(BATCH.src, BATCH.decoder_input)
        expected += risk.WORDS * F.cross_entropy(
            logits.flatten(0, 1), BATCH.labels.flatten(), ignore_index=0, label_smoothing=0.1
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    assert risk_step(model.eval(), BATCH, optimizer, RECIPE, 0.0) == pytest.approx(float(expected), abs=1e-6)


def test_each_step_throws_its_own_dice(monkeypatch):
    model, seeds = lively_copying(1), []

    def spied(*arguments, generator, **options):
        seeds.append(generator.initial_seed())
        return sample(*arguments, generator=generator, **options)

    monkeypatch.setattr(risk, "sample", spied)
    for _ in range(3):
        risk_step(model, BATCH, training.make_optimizer(model), RECIPE, 0.0)
    assert len({*seeds}) == 3, f"the dice of three steps have the seeds {seeds}"


def test_what_the_model_writes_scores_better_and_better(monkeypatch):
    monkeypatch.setattr(risk, "WORDS", 0.0)  # by its own texts alone
    torch.manual_seed(0)
    model = lively_copying(1)
    optimizer = training.make_optimizer(model)

    def mean_score() -> float:
        rows = torch.arange(3).repeat_interleave(50)
        texts = sample(model, BATCH.src[rows], 4, generator=torch.Generator().manual_seed(0))
        return risk._scores(texts, BATCH.labels[rows], 0, 2).mean().item()

    before = mean_score()
    for _ in range(30):
        risk_step(model, BATCH, optimizer, RECIPE, 5e-3)
    assert mean_score() > before + 0.1


def test_the_last_steps_of_a_run_minimize_risk():
    usual, risky = (
        training.train(lively_copying(2), EXAMPLES, replace(RECIPE, risk_steps=steps), progress=False)
        for steps in (0, 5)
    )
    assert [a == b for a, b in zip(usual.loss, risky.loss, strict=True)] == 3 * [True] + 5 * [False]
