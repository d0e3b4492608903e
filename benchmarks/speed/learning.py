"""How long it takes until the newsroom is learned: ours beside torch.nn.Transformer, same data, order and rates."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from benchmarks.speed.peers import EOS, Shape, TorchTransformer, cross_entropy
from tfm_lib.commands.tasks import newsroom
from tfm_lib.data.batches import Batch, Examples, pad_rows, plan_batches
from tfm_lib.learning.training import set_seed
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.decoding import greedy


@dataclass(frozen=True)
class Budget:
    """How much of it is tried."""

    steps: int = 600
    every: int = 50  # steps between two looks
    stories: int = 200  # of the dev set, at each look
    goal: float = 0.9  # of them exactly right
    seeds: tuple[int, ...] = (0, 1, 2)


def measure(budget: Budget) -> dict:
    """For each model, a row a seed: steps and CPU seconds of training until the goal is met, or null."""
    rows: dict[str, list[dict]] = {}
    for seed in tqdm(budget.seeds, "seeds", leave=False):
        task = newsroom(seed)
        vocabulary = task.vocabulary()
        examples = task.encode(task.splits.train, vocabulary)
        dev = task.encode(task.splits.dev[: budget.stories], vocabulary)
        shape = Shape(128, 2, 512, len(vocabulary), batch=0, source=0, target=0)
        for name, make in _models(shape, task.start.sizes).items():
            set_seed(seed)
            model, write = make()
            rows.setdefault(name, []).append(_run(model, write, task.recipe.rate, examples, dev, seed, budget))
    return rows


def _models(shape: Shape, sizes: dict) -> dict[str, Callable]:
    """Ours, and torch's with its own embeddings, N(0, 1), and with ours, N(0, 1/d)."""

    def ours() -> tuple[nn.Module, Callable]:
        model = Transformer(TransformerConfig(vocab_size=shape.vocab_size, **sizes))
        return model, lambda src, length: greedy(model, src, length)

    def torchs(narrow: bool) -> tuple[nn.Module, Callable]:
        model = TorchTransformer(shape, sizes["dropout"], sizes["norm_first"])
        if narrow:
            for table in (model.source, model.target):
                nn.init.normal_(table.weight, std=shape.d_model**-0.5)
        return model, model.greedy

    return {
        "tfm_lib": ours,
        "torch.nn.Transformer": lambda: torchs(False),
        "torch.nn.Transformer, embeddings N(0, 1/d)": lambda: torchs(True),
    }


def _run(
    model: nn.Module,
    write: Callable[[Tensor, int], Tensor],
    rate: Callable[[int], float],
    examples: Examples,
    dev: Examples,
    seed: int,
    budget: Budget,
) -> dict:
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    plan, seconds, exact = plan_batches(examples, 2048, seed), 0.0, 0.0
    for step in range(1, budget.steps + 1):
        rows = plan[(step - 1) % len(plan)]
        batch = Batch.of([examples.articles[i] for i in rows], [examples.summaries[i] for i in rows])
        begin = time.process_time()
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        tgt = torch.cat([batch.decoder_input[:, :1], batch.labels], dim=1)
        cross_entropy(model(batch.src, batch.decoder_input), tgt).backward()
        optimizer.step()
        seconds += time.process_time() - begin
        if step % budget.every == 0:
            exact = _exact(model.eval(), write, dev)
            if exact >= budget.goal:
                return {"seed": seed, "steps": step, "seconds": seconds, "exact": exact}
    return {"seed": seed, "steps": None, "seconds": seconds, "exact": exact}


def _exact(model: nn.Module, write: Callable[[Tensor, int], Tensor], dev: Examples) -> float:
    longest = max(map(len, dev.summaries)) + 1
    tokens = write(pad_rows(dev.articles), longest).tolist()
    wanted = [[*ids, EOS] for ids in dev.summaries]
    return fmean(row[: len(ids)] == ids for row, ids in zip(tokens, wanted, strict=True))
