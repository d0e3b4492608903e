"""The shipped summarizer made smaller: fewer bits, fewer weights, fewer layers; and with experts, larger.

    OMP_NUM_THREADS=1 python -m benchmarks.adapt_and_compress.compressing

It takes some ten CPU minutes, and writes compressing.json, which lesson 17 shows and its control turns.
"""

from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.lessons import definitions
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import Batch, encode_pairs
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import sequence_loss, train
from tfm_lib.model import Transformer
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import summarize
from tfm_lib.writing.scoring import exact_match

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.adapt_and_compress.compressing"
STORIES, SEEDS = 300, 3
BITS, GROUP = (8, 7, 6, 5, 4, 3, 2), 32
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7)
STEPS = {"distilled": 150, "experts": 150}
LESSON = definitions("17_adapt_and_compress")


class Test:
    """The stories of the test, and what a model makes of them."""

    def __init__(self) -> None:
        self.stories = make_newsroom(0).test[:STORIES]
        _, self.vocabulary = newsroom_model()
        self.texts = encode_pairs(self.stories, self.vocabulary, 72, 16)

    def of(self, model: nn.Module) -> dict[str, Any]:
        """The share of headlines that are exactly right, and the first one."""
        written = summarize(model.eval(), self.vocabulary, self.texts, 16)
        exact = exact_match(written, [story.summary for story in self.stories])
        return {"exact": round(exact, 4), "headline": written[0]}


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """All that is quantized or pruned: each weight with two dimensions, a tied table once."""
    return [p for p in model.parameters() if p.dim() == 2]


@torch.no_grad()
def quantized(test: Test) -> list[dict[str, Any]]:
    """Every number of bits with a step for each tensor, row and group. Steps and all other numbers have 16 bits."""
    rows = []
    for per in ("tensor", "row", "group"):
        for bits in BITS:
            model, steps = newsroom_model()[0], 0
            for weight in matrices(model):
                size = {"tensor": weight.numel(), "row": weight.shape[1], "group": GROUP}[per]
                levels, step = LESSON.to_grid(weight, bits, size)
                weight.copy_((levels * step).view_as(weight))
                steps += len(step)
            count = sum(p.numel() for p in matrices(model))
            others = sum(p.numel() for p in model.parameters()) - count
            rows.append({"bits": bits, "per": per, "bytes": count * bits // 8 + 2 * (steps + others)} | test.of(model))
            print(rows[-1], flush=True)
    return rows


@torch.no_grad()
def pruned(test: Test) -> list[dict[str, Any]]:
    """Shares of each matrix, those nearest to zero, set to zero."""
    rows = []
    for share in SHARES:
        model, _ = newsroom_model()
        for weight in matrices(model):
            least = weight.abs().flatten().kthvalue(int(share * weight.numel())).values
            weight.copy_(weight.where(weight.abs() > least, 0.0))
        rows.append({"share": share} | test.of(model))
        print(rows[-1], flush=True)
    return rows


def half(model: Transformer) -> Transformer:
    """The first layer of each stack alone, with all else as it was."""
    student = Transformer(replace(model.config, num_encoder_layers=1, num_decoder_layers=1))
    student.load_state_dict({name: p for name, p in model.state_dict().items() if ".layers.1." not in name})
    return student


def learn(model: nn.Module, steps: int, seed: int, loss: Any) -> None:
    """So many steps on the stories of the training set, with loss(model, batch)."""
    _, vocabulary = newsroom_model()
    pairs = [Pair(story.article, story.summary) for story in make_newsroom(0).train]
    recipe = Recipe(
        steps=steps, peak_rate=1e-3, warmup_steps=30, fall="linear", max_tokens=2048, label_smoothing=0.0, seed=seed
    )  # fmt: skip

    def take_step(
        model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float
    ) -> float:
        for group in optimizer.param_groups:
            group["lr"] = rate
        value = loss(model, batch)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.item()

    train(model, encode_pairs(pairs, vocabulary, 72, 16), recipe, progress=False, take_step=take_step)


def headlines(model: nn.Module, batch: Batch) -> Tensor:
    """The usual loss."""
    return sequence_loss(model(batch.src, batch.decoder_input), batch.labels, batch.pad_id)


def distilled(test: Test, seeds: int) -> list[dict[str, Any]]:
    """Half of the layers: cut out, then trained on headlines, or on what the whole model thinks of every next word."""
    teacher, _ = newsroom_model()

    def from_teacher(model: nn.Module, batch: Batch) -> Tensor:
        words = batch.labels != batch.pad_id
        with torch.no_grad():
            wanted = teacher(batch.src, batch.decoder_input)[words]
        return LESSON.distillation_loss(model(batch.src, batch.decoder_input)[words], wanted, 2)

    rows = [{"on": "nothing", "weights": count(half(teacher))} | {"exact": spread([test.of(half(teacher))["exact"]])}]
    for name, loss in (("headlines", headlines), ("teacher", from_teacher)):
        runs = []
        for seed in range(seeds):
            student = half(teacher)
            learn(student, STEPS["distilled"], seed, loss)
            runs.append(test.of(student)["exact"])
        rows.append({"on": name, "weights": count(student), "exact": spread(runs)})
        print(rows[-1], flush=True)
    return rows


class Flat(nn.Module):
    """Experts in the place of a feed-forward network; it keeps the router's chances of its last call."""

    def __init__(self, mixture: nn.Module) -> None:
        super().__init__()
        self.mixture = mixture
        self.chances: Tensor

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        self.chances = self.mixture.router(rows).softmax(-1)  # (N, E)
        return self.mixture(rows).view_as(x)


def experts(test: Test, seeds: int) -> list[dict[str, Any]]:
    """The feed-forward networks made anew, dense or of 8 experts of which 2 work, and trained with all else.

    A word meets as many weights in either: 2 experts of 3 x 128 x 170, or 2 x 128 x 512.
    """
    rows = []
    for name, weight in (("dense", None), ("experts, balanced", 0.01), ("experts, not balanced", 0.0)):
        runs, loads, total = [], [], 0
        for seed in range(seeds):
            torch.manual_seed(seed)
            model, _ = newsroom_model()
            flat = []
            for layer in [*model.encoder.layers, *model.decoder.layers]:
                if weight is None:
                    for linear in (layer.feed_forward.expand, layer.feed_forward.contract):
                        nn.init.xavier_uniform_(linear.weight)
                        nn.init.zeros_(linear.bias)
                else:
                    layer.feed_forward = Flat(LESSON.MixtureOfExperts(model.config.d_model, 170, 8, 2))
                    flat.append(layer.feed_forward)

            def loss(model: nn.Module, batch: Batch, flat: list = flat, weight: float | None = weight) -> Tensor:
                balance = sum(LESSON.balance_loss(one.chances, 2) for one in flat)
                return headlines(model, batch) + (weight or 0) * balance

            learn(model, STEPS["experts"], seed, loss)
            runs.append(test.of(model)["exact"])
            total = count(model)
            if flat:
                with torch.no_grad():
                    batch = test.texts.batch(range(STORIES))
                    model(batch.src, batch.decoder_input)
                chosen = [one.chances.topk(2).indices.flatten().bincount(minlength=8) for one in flat]
                loads.append(max((row / row.sum() * 8).max().item() for row in chosen))
        row: dict[str, Any] = {"name": name, "weights": total, "exact": spread(runs)}
        rows.append(row | ({"busiest": spread([round(load, 2) for load in loads])} if loads else {}))
        print(rows[-1], flush=True)
    return rows


def count(model: nn.Module) -> int:
    """Its parameters, a tied table once."""
    return sum(p.numel() for p in model.parameters())


def spread(runs: list[float]) -> dict[str, Any]:
    """The mean of the runs, their standard deviation, and the runs themselves."""
    return {"mean": round(fmean(runs), 4), "spread": round(stdev(runs), 4) if len(runs) > 1 else 0.0, "runs": runs}


def measure(seeds: int = SEEDS) -> dict[str, Any]:
    """Everything, on the same stories."""
    test = Test()
    return {
        "command": COMMAND,
        "machine": machine("torch"),
        "stories": STORIES,
        "wanted": test.stories[0].summary,
        "group": GROUP,
        "steps": STEPS,
        "seeds": [*range(seeds)],
        "bits": quantized(test),
        "pruned": pruned(test),
        "distilled": distilled(test, seeds),
        "experts": experts(test, seeds),
    }


def main() -> None:
    torch.set_num_threads(1)
    write_record(__file__, measure(), "bits", "share", "on", "name")


if __name__ == "__main__":
    main()
