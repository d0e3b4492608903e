"""A Transformer of one's own learns the newsroom: lesson 13 shows what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.your_own.own_model

The model of `tfm_lib/practice/own_transformer.py`, with the sizes of the shipped summarizer, is trained as that one:
the same stories in the same order, the same steps and rates, three seeds. It is the paper's, with its norm behind each
sum; the shipped one has it before each part. So the package's own model is trained with the norm in either place.
own_model.json has a row a run: the share of headlines that are exactly right, of the dev set as it learns and of the
test set at the end.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.turns import machine
from tfm_lib.commands.tasks import newsroom
from tfm_lib.data.batches import Examples, pad_rows, plan_batches
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.practice.own_transformer import OwnTransformer
from tfm_lib.writing.decoding import greedy

HERE = Path(__file__).parent
COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.your_own.own_model"
SEEDS = (0, 1, 2)
EVERY, LOOKED_AT = 100, 200  # steps between two looks, stories at each
PAD, START, END = 0, 1, 2


def plain(words: int) -> tuple[nn.Module, Callable[[Tensor, int], Tensor]]:
    """The model with nothing but torch, and how it writes."""
    model = OwnTransformer(words, PAD, START, END, d=128, heads=8, d_ff=512, dropout=0.0)
    return model, model.generate


def own_with_xavier(words: int) -> tuple[nn.Module, Callable[[Tensor, int], Tensor]]:
    """The same, but with the package's initialization: the one thing besides code in which the two differ."""
    model, write = plain(words)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not name.startswith("words"):
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model, write


def ours(words: int, norm_first: bool) -> tuple[nn.Module, Callable[[Tensor, int], Tensor]]:
    """The package's, with the norm before each part or behind each sum."""
    sizes = {"d_model": 128, "num_heads": 8, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(TransformerConfig(vocab_size=words, dropout=0.0, norm_first=norm_first, **sizes))
    return model, lambda src, length: greedy(model, src, length)


MODELS = {
    "your own": plain,
    "your own, Xavier": own_with_xavier,
    "tfm_lib, norm behind": lambda words: ours(words, norm_first=False),
    "tfm_lib, norm before": lambda words: ours(words, norm_first=True),
}


@torch.no_grad()
def exact(write: Callable[[Tensor, int], Tensor], examples: Examples) -> float:
    """The share of headlines that are right to the last word."""
    longest = max(map(len, examples.summaries)) + 1
    right = []
    for start in range(0, len(examples.articles), 200):
        written = write(pad_rows(examples.articles[start : start + 200], PAD), longest).tolist()
        wanted = [[*ids, END] for ids in examples.summaries[start : start + 200]]
        right += [row[: len(ids)] == ids for row, ids in zip(written, wanted, strict=True)]
    return fmean(right)


def run(name: str, seed: int) -> dict:
    """Train one model as the shipped summarizer was trained, and look at it on the way."""
    task = newsroom(seed)
    vocabulary, recipe = task.vocabulary(), task.recipe
    examples = task.encode(task.splits.train, vocabulary)
    dev = task.encode(task.splits.dev[:LOOKED_AT], vocabulary)
    torch.manual_seed(seed)
    model, write = MODELS[name](len(vocabulary))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    plan, looks, begin = plan_batches(examples, recipe.max_tokens, seed), {}, time.process_time()
    for step in range(1, recipe.steps + 1):
        rows = plan[(step - 1) % len(plan)]
        src = pad_rows([examples.articles[i] for i in rows], PAD)
        tgt = pad_rows([[START, *examples.summaries[i], END] for i in rows], PAD)
        model.train()
        optimizer.param_groups[0]["lr"] = recipe.rate(step)
        optimizer.zero_grad()
        logits = model(src, tgt[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD).backward()
        optimizer.step()
        if step % EVERY == 0:
            model.eval()
            looks[step] = exact(write, dev)
    seconds = time.process_time() - begin
    model.eval()
    test = exact(write, task.encode(task.splits.test, vocabulary))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"model": name, "seed": seed, "parameters": parameters, "dev": looks, "test": test, "CPU seconds": seconds}


def main() -> None:
    torch.set_num_threads(1)
    rows = [run(name, seed) for seed in SEEDS for name in MODELS]
    summary = {}
    for name in MODELS:
        of_it = [row for row in rows if row["model"] == name]
        shares = [row["test"] for row in of_it]
        summary[name] = {
            "parameters": of_it[0]["parameters"], "exact": {"mean": fmean(shares), "spread": stdev(shares)},
            "worst": min(shares), "best": max(shares),
        }  # fmt: skip
    record = {"command": COMMAND, "machine": machine(), "seeds": SEEDS, "summary": summary, "rows": rows}
    (HERE / "own_model.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
