"""LLaVA's way beside Flamingo's: patches projected into the input of lesson 18's text model.

    OMP_NUM_THREADS=1 python -m benchmarks.pictures_and_text.projected

All ways have the frozen eye that ships, text models of the same seeds that read the captions of the training set, and
the pictures, steps, rate and tests of pictures.py. *gates* are its gated layers; *projector, then text* spends the
second half of the steps on both. `loss` is that of the text model alone, on the captions that it read.
"""

import time
from statistics import fmean, stdev

import torch
from torch import Tensor, nn

from benchmarks.pictures_and_text.pictures import (
    LOOK_STEPS,
    SEEDS,
    TESTED,
    VOCABULARY,
    described,
    encode,
    look,
    next_words,
    reader,
    summary,
)
from benchmarks.turns import machine, write_record
from tfm_lib.data.pictures import SEEN
from tfm_lib.masks import causal_mask
from tfm_lib.model import Encoder
from tfm_lib.pretrained.pictures import VisionTransformer, pictures_config, pictures_model

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.pictures_and_text.projected"
WAYS = ("gates", "projector", "projector, then text")


class Projected(nn.Module):
    """A text model that reads patches before words: tokens (B, T), memory (B, 1 + P, D) -> logits (B, T, V).

    Source: Liu et al. 2023, section 4.1.
    """

    def __init__(self, text: Encoder, width: int) -> None:
        super().__init__()
        self.text, self.projector = text, nn.Linear(width, width)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        x = torch.cat([self.projector(memory[:, 1:]), self.text.embedding(tokens)], 1)  # (B, P + T, D)
        mask = causal_mask(x.shape[1])
        for layer in self.text.layers:
            x = layer(x, mask)
        return self.text.norm(x[:, -tokens.shape[1] :]) @ self.text.embedding.tokens.weight.T


@torch.no_grad()
def alone(text: Encoder) -> float:
    """The loss of the text model that sees no picture."""
    tokens = encode(SEEN)
    logits = text(tokens, causal_mask(tokens.shape[1])) @ text.embedding.tokens.weight.T
    return round(next_words(logits, tokens).item(), 4)


def run(way: str, seed: int, eye: VisionTransformer, steps: int = LOOK_STEPS) -> dict:
    """One way to connect the eye to a text model of this seed."""
    config, begin = pictures_config(VOCABULARY), time.process_time()
    describer = reader(config, SEEN, seed)
    before, model = alone(describer.text), Projected(describer.text, config.d_model)
    if way == "gates":
        look(describer, describer.looks, eye, steps, seed)
    else:
        first = steps if way == "projector" else steps // 2
        look(model, model.projector, eye, first, seed)
        if first < steps:
            look(model, model, eye, steps - first, seed + len(SEEDS))  # of other pictures
    row: dict = {"name": way, "seed": seed, **described(describer if way == "gates" else model, eye)}
    row |= {"loss": {"before": before, "after": alone(describer.text)}}
    print(row := row | {"cpu_seconds": round(time.process_time() - begin, 1)}, flush=True)
    return row


def summarized(rows: list[dict]) -> list[dict]:
    """Mean and standard deviation over the seeds."""
    lines = summary(rows)
    for line in lines:
        for when in ("before", "after"):
            values = [row["loss"][when] for row in rows if row["name"] == line["name"]]
            line[f"loss {when}"] = {"mean": round(fmean(values), 4), "spread": round(stdev(values), 4)}
    return lines


def main() -> None:
    torch.set_num_threads(1)
    eye = pictures_model()[0].eye
    rows = [run(way, seed, eye) for seed in SEEDS for way in WAYS]
    record = {"command": COMMAND, "machine": machine("torch"), "seeds": SEEDS, "tested": TESTED, "steps": LOOK_STEPS}
    write_record(__file__, record | {"summary": summarized(rows), "rows": rows}, "name")


if __name__ == "__main__":
    main()
