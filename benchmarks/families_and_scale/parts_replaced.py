"""What replaced the parts of the 2017 block, one at a time, in a decoder-only model that learns the newsroom.

    OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.parts_replaced

All models have the same layers, width, steps and stories, and, within 2 %, the same number of parameters, but for
grouped heads, which have fewer, and learned positions, which have more. The cells of lesson 16 define `rotate`,
`alibi`, `Attention`, `Gated`, `Layer` and `Decoder` word for word. parts_replaced.json has a row a run. Longer texts
are two stories one after the other: new are their places, but also that a story follows another.
"""

import time
from math import log2

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.families_and_scale.families import PAD, VOCABULARY, WARM_UP, stories, summary, texts
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


def rotate(x: Tensor, base: float = 10_000.0) -> Tensor:
    """x (B, H, T, Dh): pairs of entries, turned by angles that grow with the place."""
    T, Dh = x.shape[-2:]
    speed = base ** (-torch.arange(0, Dh, 2, device=x.device) / Dh)  # (Dh / 2,)
    angle = torch.arange(T, device=x.device)[:, None] * speed  # (T, Dh / 2)
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    a, b = x.chunk(2, dim=-1)  # entry i goes with entry i + Dh / 2
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def alibi(T: int, heads: int) -> Tensor:
    """What is added to the scores (H, T, T): the farther back a key, the less."""
    power = 2 ** (log2(heads) // 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, int(power) + 1)]
    slopes += [2 ** (-4 * i / power) for i in range(1, 2 * int(heads - power), 2)]
    t = torch.arange(T)
    ahead = t - t[:, None]  # negative for the past
    bias = torch.tensor(slopes)[:, None, None] * ahead
    return bias.masked_fill(ahead > 0, -torch.inf)


class Attention(nn.Module):
    """Causal; groups of heads share keys and values."""

    def __init__(self, d: int, heads: int, kv_heads: int, positions: str) -> None:
        super().__init__()
        self.width, self.positions = d // heads, positions
        self.query, self.output = (nn.Linear(d, d, bias=False) for _ in range(2))
        shared = kv_heads * self.width
        self.key, self.value = (nn.Linear(d, shared, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for project in (self.query, self.key, self.value)
        )  # (B, H, T, Dh), and two with fewer heads
        if self.positions == "rotary":
            q, k = rotate(q), rotate(k)
        bias = alibi(x.shape[1], q.shape[1]) if self.positions == "alibi" else None
        mixed = F.scaled_dot_product_attention(
            q, k, v, bias, is_causal=bias is None, enable_gqa=k.shape[1] < q.shape[1]
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """SwiGLU: one half of the network decides how much of the other passes."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(d, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """Pre-norm, with any attention, network and norm: x (B, T, D) -> (B, T, D)."""

    def __init__(self, attention: nn.Module, network: nn.Module, norms: list[nn.Module]) -> None:
        super().__init__()
        self.attention, self.network = attention, network
        self.before_attention, self.before_network = norms

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.network(self.before_network(x))


class Decoder(nn.Module):
    """A decoder-only model: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, vocab: int, d: int, layers: list[Layer], norm: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.layers, self.norm = nn.ModuleList(layers), norm
        self.table = None  # positions that are added, (most, D)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        if self.table is not None:
            x = x + self.table[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embedding.weight.T


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


def build(change: dict) -> Decoder:
    """A model with these parts; embeddings N(0, 1 / d), positions beside them as long, all matrices Xavier uniform."""
    parts = BASE | change
    layers = []
    for _ in range(LAYERS):
        network = Gated(D, HIDDEN * 2 // 3 // 8 * 8) if parts["gated"] else FeedForward(D, HIDDEN)
        attention = Attention(D, HEADS, parts["kv_heads"], parts["positions"])
        layers.append(Layer(attention, network, [parts["norm"](D) for _ in range(2)]))
    model = Decoder(VOCABULARY, D, layers, parts["norm"](D))
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
