"""What replaced the parts of the 2017 block, one at a time, in a decoder-only model that learns the newsroom.

    OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.parts_replaced

All models have the same layers, width, steps and stories, and, within 2 %, the same number of parameters, but for
grouped heads, which have fewer, and learned positions, which have more. The parts are those that the cells of lesson 16
define. parts_replaced.json has a row a run. Longer texts are two stories one after the other: new are their places, but
also that a story follows another.
"""

import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.families_and_scale.families import LESSON, PAD, VOCABULARY, WARM_UP, stories, summary, texts
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import pad_rows
from tfm_lib.layers import FeedForward
from tfm_lib.learning.recipes import linear_rate
from tfm_lib.positions import sinusoidal_table

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.parts_replaced"
SEEDS = (0, 1, 2)
STEPS, BATCH, RATE, TESTED = 600, 16, 3e-3, 500
D, HEADS, LAYERS = 64, 4, 3
HIDDEN = 256  # of the plain network; a gated one has two thirds, rounded to a multiple of 8


MOST = 192  # places in the tables of positions: two stories
BASE = {"positions": "sinusoids", "norm": nn.LayerNorm, "gated": False, "kv_heads": HEADS}
CHANGES: dict[str, dict] = {
    "as in 2017, pre-norm": {},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "rotary positions": {"positions": "rotary"},
    "ALiBi": {"positions": "alibi"},
    "RMSNorm": {"norm": nn.RMSNorm},
    "SwiGLU": {"gated": True},
    "2 heads for keys": {"kv_heads": 2},
    "1 head for keys": {"kv_heads": 1},
    "as in Llama": {"positions": "rotary", "norm": nn.RMSNorm, "gated": True, "kv_heads": 2},
}


def build(change: dict) -> nn.Module:
    """A model with these parts; embeddings N(0, 1 / d), positions beside them as long, all matrices Xavier uniform."""
    parts = BASE | change
    layers = []
    for _ in range(LAYERS):
        network = LESSON.Gated(D, HIDDEN * 2 // 3 // 8 * 8) if parts["gated"] else FeedForward(D, HIDDEN)
        attention = LESSON.Attention(D, HEADS, parts["kv_heads"], parts["positions"])
        layers.append(LESSON.Layer(attention, network, [parts["norm"](D) for _ in range(2)]))
    model = LESSON.Decoder(VOCABULARY, D, layers, parts["norm"](D))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    nn.init.normal_(model.embedding.weight, std=D**-0.5)
    if parts["positions"] == "sinusoids":
        model.table = sinusoidal_table(MOST, D) / D**0.5  # beside embeddings of length 1
    elif parts["positions"] == "learned":
        model.table = nn.Parameter(torch.randn(MOST, D) / D**0.5)
    return model


def _loss(model: nn.Module, tokens: Tensor, first: int = 0) -> Tensor:
    labels = F.pad(tokens[:, 1:], (0, 1))
    labels[:, :first] = 0
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=0)


def train(model: nn.Module, seed: int, steps: int) -> float:
    """Next words of the stories; returns the CPU seconds."""
    draw, begin = torch.Generator().manual_seed(seed), time.process_time()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    size = len(stories("train")[1])
    order = torch.randperm(size, generator=draw)[: steps * BATCH]
    for step, indices in enumerate(order.split(BATCH), start=1):
        optimizer.param_groups[0]["lr"] = linear_rate(step, RATE, min(WARM_UP, steps), steps)
        optimizer.zero_grad()
        _loss(model, texts(indices.tolist())[0]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return time.process_time() - begin


@torch.inference_mode()
def run(name: str, seed: int, steps: int = STEPS, tested: int = TESTED) -> dict:
    """Train one model; nats per token on held-out stories, and on those that follow another story."""
    torch.manual_seed(seed)
    with torch.inference_mode(False):
        model = build(CHANGES[name])
        seconds = train(model, seed, steps)
    tokens, _ = texts(range(tested), "dev")
    pairs = [
        [*a[a != PAD].tolist(), *b[b != PAD].tolist()][:MOST] for a, b in zip(tokens[::2], tokens[1::2], strict=False)
    ]
    longest = int((tokens != PAD).sum(1).max())
    long = pad_rows(pairs, PAD)
    return {
        "name": name,
        "seed": seed,
        "seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters()),
        "cache": 2 * LAYERS * CHANGES[name].get("kv_heads", HEADS) * (D // HEADS) * 4,  # bytes a token, in float32
        "nats": _loss(model, tokens).item(),
        "beyond": _loss(model, long, longest).item(),  # at places that three training texts in 20,000 reach, or fewer
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in CHANGES:
        for seed in SEEDS:
            rows.append(run(name, seed))
            print(rows[-1], flush=True)
    record = {"command": COMMAND, "machine": machine("torch"), "seeds": SEEDS, "steps": STEPS, "batch": BATCH}
    record |= {"summary": summary(rows), "rows": rows}
    write_record(__file__, record, "name")


if __name__ == "__main__":
    main()
