"""Lesson 15's cheaper attentions beside packages of others that compute the same: writes references.json.

The packages are no part of the course's environment. Put them into a folder of their own, beside the torch that is
there, and run:

    uv pip install --python .venv --no-deps --target runs/references linformer==0.2.3 performer-pytorch==1.1.4 \\
        reformer-pytorch==1.4.4 routing-transformer==1.6.1 local-attention==1.11.2 \\
        compressive-transformer-pytorch==0.4.0 axial-positional-embedding==0.3.12 colt5-attention==0.11.2 \\
        hyper-connections==0.4.11 mixture-of-experts==0.2.3 mogrifier==0.0.5 product-key-memory==0.3.0
    PYTHONPATH=runs/references OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.cheaper_attention.references

All is computed in float64, from a few seeds. Beside the largest difference of ours stands, where there is one, the
smallest difference that a common other version makes. What transformers has (Longformer, BigBird, Reformer with any
number of rounds) needs no package, so tests and the lesson compare with it.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from compressive_transformer_pytorch.compressive_transformer_pytorch import SelfAttention as CompressiveAttention
from linformer import LinformerSelfAttention
from local_attention import LocalAttention
from performer_pytorch import performer_pytorch
from reformer_pytorch import LSHAttention
from routing_transformer import routing_transformer
from torch import Tensor

from benchmarks.lessons import definitions
from benchmarks.turns import machine

OUT = Path(__file__).parent / "references.json"
COMMAND = "PYTHONPATH=runs/references OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.cheaper_attention.references"
PACKAGES = (
    "linformer",
    "performer-pytorch",
    "reformer-pytorch",
    "routing-transformer",
    "local-attention",
    "compressive-transformer-pytorch",
)
SEEDS = range(5)
BATCH, HEADS, TOKENS, WIDTH = 2, 4, 64, 16
WINDOW, MEMORY, CHUNK, RANK, FEATURES = 8, 16, 8, 16, 256


class Comparison(NamedTuple):
    """Two outputs that should be one, and a third that should not. `reference` says where the second comes from."""

    name: str
    reference: str
    ours: Tensor
    theirs: Tensor
    other: Tensor | None = None
    what: str = ""  # the other one

    def differences(self) -> tuple[float, float]:
        """Of ours, and of the other version: the largest absolute ones."""
        of_other = torch.zeros(()) if self.other is None else self.other - self.theirs
        return (self.ours - self.theirs).abs().max().item(), of_other.abs().max().item()


def split(x: Tensor) -> Tensor:
    """(B, T, H Dh) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    """(B, H, T, Dh) -> (B, T, H Dh)."""
    return x.transpose(1, 2).flatten(2)


def windows(lesson: SimpleNamespace) -> Iterator[Comparison]:
    inputs = torch.randn(3, BATCH, HEADS, TOKENS, WIDTH).unbind()
    for causal, name in ((True, "window, backwards"), (False, "window, to both sides")):
        yield Comparison(
            name,
            "local-attention: LocalAttention(exact_windowsize=True)",
            lesson.window_attention(*inputs, WINDOW, causal),
            LocalAttention(WINDOW, causal=causal, exact_windowsize=True)(*inputs),
            LocalAttention(WINDOW, causal=causal)(*inputs),
            "its default, which cuts windows at blocks",
        )


def linformer(lesson: SimpleNamespace) -> Iterator[Comparison]:
    theirs = LinformerSelfAttention(HEADS * WIDTH, TOKENS, k=RANK, heads=HEADS)
    x = torch.randn(BATCH, TOKENS, HEADS * WIDTH)
    query, key, value = (split(project(x)) for project in (theirs.to_q, theirs.to_k, theirs.to_v))
    ours = theirs.to_out(merge(lesson.linformer(query, key, value, theirs.proj_k, theirs.proj_v)))
    changed = x.clone()
    changed[:, -1] += 1
    yield Comparison("Linformer", "linformer: LinformerSelfAttention", ours, theirs(x))
    yield Comparison(
        "Linformer, first output",
        "linformer: LinformerSelfAttention",
        ours[:, 0],
        theirs(x)[:, 0],
        theirs(changed)[:, 0],
        "the same after a change of the last token: it leaks",
    )


def performer(lesson: SimpleNamespace) -> Iterator[Comparison]:
    query, key, value = torch.randn(3, BATCH, HEADS, TOKENS, WIDTH).unbind()
    directions = performer_pytorch.gaussian_orthogonal_random_matrix(FEATURES, WIDTH)

    def theirs(attend: Callable[..., Tensor], eps: float) -> Tensor:
        features = partial(performer_pytorch.softmax_kernel, projection_matrix=directions, eps=eps)
        return attend(features(query, is_query=True), features(key, is_query=False), value)

    running = partial(performer_pytorch.causal_linear_attention_noncuda, eps=0)
    for name, reference, ours, attend in (
        ("Performer", "linear_attention", lesson.performer, performer_pytorch.linear_attention),
        ("Performer, causal", "causal_linear_attention_noncuda", lesson.causal_performer, running),
    ):
        yield Comparison(
            name,
            f"performer-pytorch: {reference} of softmax_kernel(eps=0)",
            ours(query, key, value, directions),
            theirs(attend, 0),
            theirs(attend, 1e-4),
            "its default, which adds eps=1e-4 to each feature",
        )


def reformer(lesson: SimpleNamespace) -> Iterator[Comparison]:
    query, value = torch.randn(2, BATCH, HEADS, TOKENS, WIDTH).unbind()
    seed = torch.initial_seed()
    for name, rounds, chunk in (("Reformer, two chunks", 1, TOKENS // 2), ("Reformer, 4 rounds", 4, CHUNK)):
        torch.manual_seed(seed)
        rotations = torch.randn(WIDTH, rounds, TOKENS // chunk // 2).transpose(0, 1)

        def theirs(query: Tensor, rounds: int = rounds, chunk: int = chunk) -> Tensor:
            torch.manual_seed(seed)  # it draws the same rotations
            attend = LSHAttention(bucket_size=chunk, n_hashes=rounds).eval()
            return attend(query.flatten(0, 1), value.flatten(0, 1))[0].view_as(value)

        yield Comparison(
            name,
            "reformer-pytorch: LSHAttention of queries times the root of their width",
            lesson.lsh_attention(query, value, rotations, chunk),
            theirs(query * WIDTH**0.5),
            theirs(query),
            "scores divided by the root, which transformers does not do",
        )


def routing(lesson: SimpleNamespace) -> Iterator[Comparison]:
    query, key, value = torch.randn(3, BATCH, HEADS, TOKENS, WIDTH).unbind()
    for name, clusters, size in (("routing, one cluster", 1, TOKENS), ("routing, 8 clusters", 8, TOKENS // 4)):
        theirs = routing_transformer.KmeansAttention(clusters, size, HEADS, WIDTH).eval()
        theirs.kmeans.initted.fill_(True)  # take the centroids as they are
        centroids = theirs.kmeans.means  # (H, C, Dh)
        mean = partial(routing_transformer.scatter_mean, eps=0)
        with patch.object(routing_transformer, "scatter_mean", mean):
            wanted = theirs(query, key, value)[0].nan_to_num()  # 0 / 0 for a query in no cluster
        unit = (F.normalize(x, dim=-1) for x in (query, key))
        yield Comparison(
            name,
            "routing-transformer: KmeansAttention, whose mean adds no eps to the count",
            lesson.routing_attention(query, key, value, centroids, size),
            wanted,
            lesson.routing_attention(*unit, value, centroids, size),
            "scores of normalized queries and keys",
        )
        yield Comparison(
            f"{name}, as it ships",
            "routing-transformer: KmeansAttention, whose mean divides by count + 1e-5",
            lesson.routing_attention(query, key, value, centroids, size),
            theirs(query, key, value)[0],
        )


def memories(lesson: SimpleNamespace) -> Iterator[Comparison]:
    x = torch.randn(BATCH, TOKENS, HEADS * WIDTH)

    def layer(rate: int, squeezed: int) -> CompressiveAttention:
        """With room for so many squeezed tokens; it squeezes by the plain mean of `rate` tokens."""
        layer = CompressiveAttention(HEADS * WIDTH, WINDOW, MEMORY, squeezed, cmem_ratio=rate, heads=HEADS).eval()
        layer.compress_mem_fn.conv.weight.copy_(torch.eye(HEADS * WIDTH)[:, :, None].expand(-1, -1, rate) / rate)
        layer.compress_mem_fn.conv.bias.zero_()
        return layer

    def theirs(attend: CompressiveAttention) -> Tensor:
        out, memory = [], None
        for segment in x.split(WINDOW, dim=1):
            mixed, memory, _ = attend(segment, memory)
            out.append(mixed)
        return torch.cat(out, dim=1)

    for name, rate, squeezed, attend in (
        ("segments with memory", 1, 0, partial(lesson.segment_attention, segment=WINDOW, memory=MEMORY)),
        (
            "compressed memory",
            4,
            TOKENS,
            partial(lesson.compressive_attention, segment=WINDOW, memory=MEMORY, rate=4),
        ),
    ):
        reference = layer(rate, squeezed)
        inputs = map(split, (reference.to_q(x), *reference.to_kv(x).chunk(2, dim=-1)))
        room = "for no squeezed token" if not squeezed else "for all, squeezed by the mean"
        yield Comparison(
            name,
            f"compressive-transformer-pytorch: SelfAttention with room {room}",
            reference.to_out(merge(attend(*inputs))),
            theirs(reference),
        )


COMPARED = (windows, linformer, performer, reformer, routing, memories)


@torch.no_grad()
def measure() -> dict:
    """Each comparison: the largest difference of ours over the seeds, and the smallest one of the other version."""
    lesson = definitions("15_cheaper_attention")
    rows: dict[str, dict] = {}
    for seed in SEEDS:
        for compare in COMPARED:
            torch.manual_seed(seed)
            for found in compare(lesson):
                ours, other = found.differences()
                row = rows.setdefault(found.name, {"reference": found.reference, "difference": 0.0})
                row["difference"] = max(row["difference"], ours)
                if found.what:
                    row["other version"] = found.what
                    row["its difference"] = min(row.get("its difference", other), other)
    return {
        "command": COMMAND,
        "machine": machine("torch", *PACKAGES),
        "seeds": [*SEEDS],
        "numbers": "float64, standard normal inputs",
        "sizes": {"batch": BATCH, "heads": HEADS, "tokens": TOKENS, "width of a head": WIDTH, "window": WINDOW}
        | {"segment": WINDOW, "memory": MEMORY, "chunk": CHUNK, "rank": RANK, "features": FEATURES},
        "rows": rows,
    }


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    OUT.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
