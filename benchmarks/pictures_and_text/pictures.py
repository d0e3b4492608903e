"""Eyes, two towers, and a text model that looks, trained for longer than a lesson waits.

    OMP_NUM_THREADS=1 python -m benchmarks.pictures_and_text.pictures

`TwoTowers`, `contrastive_loss` and `fit` are cells of lesson 18, word for word. Each step sees a new picture of each of
the 62 captions, so that no caption stands twice in a batch. pictures.json has a row a run; the models of seed 0 become
tfm_lib/pictures.safetensors.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.turns import machine, write_record
from tfm_lib.data.pictures import CAPTIONS, SEEN, SHAPES, UNSEEN, make_pictures
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import save_checkpoint
from tfm_lib.masks import causal_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained.pictures import SHIPPED, Describer, Pictured, VisionTransformer, describe, pictures_config

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.pictures_and_text.pictures"
SEEDS = (0, 1, 2)
SHORT, STEPS, LONG = 300, 1200, 4800  # of the two towers
SHAPE_STEPS, READ_STEPS, LOOK_STEPS = 2400, 150, 1200
TESTED = 20  # pictures of each caption
VOCABULARY = Vocabulary.of_words(CAPTIONS)
START, END = VOCABULARY.start_id, VOCABULARY.eos_id


def encode(captions: Sequence[str]) -> Tensor:
    """Tokens (B, 6): start, four words, end."""
    return torch.tensor([[START, *VOCABULARY.encode(caption), END] for caption in captions])


class TwoTowers(nn.Module):
    """A vector of length 1 for each picture, and one for each caption."""

    def __init__(self, config: TransformerConfig, width: int = 32) -> None:
        super().__init__()
        self.eye, self.text = VisionTransformer(config), Transformer(config).encoder
        self.of_picture = nn.Linear(config.d_model, width, bias=False)
        self.of_text = nn.Linear(config.d_model, width, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(1 / 0.07).log())
        self.end = config.eos_id

    def see(self, pictures: Tensor) -> Tensor:
        return F.normalize(self.of_picture(self.eye(pictures)[:, 0]), dim=-1)

    def read(self, tokens: Tensor) -> Tensor:
        x = self.text(tokens, causal_mask(tokens.shape[1]))  # (B, T, D)
        end = (tokens == self.end).int().argmax(-1)  # it alone has read all
        return F.normalize(self.of_text(x[torch.arange(len(x)), end]), dim=-1)


def contrastive_loss(pictures: Tensor, captions: Tensor, log_scale: Tensor) -> Tensor:
    """Unit vectors (N, D) of N pictures and of their N captions -> a number."""
    logits = log_scale.exp() * pictures @ captions.T  # (N, N)
    right = torch.arange(len(logits))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


def fit(parameters: Iterable[Tensor], loss: Callable, steps: int, rate: float, seed: int = 0) -> float:
    """Train what `loss` asks of new pictures of all seen captions; the last loss."""
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(parameters, rate, fused=True)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / 30, 1 - step / steps)
        optimizer.zero_grad()
        last = loss(make_pictures(SEEN, draws))
        last.backward()
        optimizer.step()
    return last.item()


def test_pictures(captions: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Pictures that nobody was trained on, and their captions."""
    repeated = [caption for caption in captions for _ in range(TESTED)]
    return make_pictures(repeated, torch.Generator().manual_seed(1234)), repeated


def shares(written: Sequence[str], right: Sequence[str]) -> dict[str, float]:
    """How often the caption is right as a whole, and each of its words."""
    pairs = [(one.split(), other.split()) for one, other in zip(written, right, strict=True)]
    results = {"all": fmean(one == other for one, other in pairs)}
    for place, name in enumerate(("size", "color", "shape"), 1):
        results[name] = fmean(len(one) > place and one[place] == other[place] for one, other in pairs)
    return {name: round(share, 4) for name, share in results.items()}


@torch.no_grad()
def found(towers: TwoTowers) -> dict[str, dict[str, float]]:
    """Of all 72 captions the nearest to each picture, for captions that were seen in training and not."""
    captions, results = towers.read(encode(CAPTIONS)), {}
    for name, group in (("seen", SEEN), ("unseen", UNSEEN)):
        pictures, right = test_pictures(group)
        nearest = (towers.see(pictures) @ captions.T).argmax(-1)
        results[name] = shares([CAPTIONS[i] for i in nearest], right)
    return results


@torch.no_grad()
def described(describer: nn.Module, eye: VisionTransformer, blind: bool = False) -> dict[str, dict[str, float]]:
    """How often its words are right; blind to them it reads start tokens in their place."""
    results = {}
    for name, group in (("seen", SEEN), ("unseen", UNSEEN)):
        pictures, right = test_pictures(group)
        memory, starts = eye(pictures), torch.full((len(right), 4), START)
        tokens = describer(starts, memory).argmax(-1) if blind else describe(describer, memory, START)
        results[name] = shares([VOCABULARY.decode(row) for row in tokens.tolist()], right)
    return results


def next_words(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def reader(config: TransformerConfig, captions: Sequence[str], seed: int) -> Describer:
    """A describer that has read captions, and no picture."""
    torch.manual_seed(seed)
    describer, tokens = Describer(config), encode(captions)
    nothing = torch.zeros(len(tokens), 1, config.d_model)
    fit(describer.text.parameters(), lambda _: next_words(describer(tokens, nothing), tokens), READ_STEPS, 3e-3)
    return describer


def look(
    describer: nn.Module, part: nn.Module, eye: VisionTransformer, steps: int, seed: int, blind: bool = False
) -> float:
    """Train a part of it, such as the gated layers, to write the captions of what the frozen eye sees."""
    tokens = encode(SEEN)
    read = torch.full_like(tokens, START) if blind else tokens

    def loss(pictures: Tensor) -> Tensor:
        with torch.no_grad():
            memory = eye(pictures)
        return next_words(describer(read, memory), tokens)

    return fit(part.parameters(), loss, steps, 3e-3, seed)


def classify(eye: VisionTransformer, head: nn.Module, seed: int, steps: int) -> dict[str, float]:
    """Train them to name the shape; how often that is right."""
    labels = torch.tensor([SHAPES.index(caption.split()[-1]) for caption in SEEN])
    both = [*eye.parameters(), *head.parameters()]
    fit(both, lambda pictures: F.cross_entropy(head(eye(pictures)[:, 0]), labels), steps, 1e-3, seed)
    results = {}
    for name, group in (("seen", SEEN), ("unseen", UNSEEN)):
        pictures, right = test_pictures(group)
        with torch.no_grad():
            named = head(eye(pictures)[:, 0]).argmax(-1).tolist()
        results[name] = round(
            fmean(SHAPES[i] == caption.split()[-1] for i, caption in zip(named, right, strict=True)), 4
        )
    return results


def meet(seed: int, steps: int) -> TwoTowers:
    """Two towers, trained."""
    torch.manual_seed(seed)
    towers, tokens = TwoTowers(pictures_config(VOCABULARY)), encode(SEEN)

    def loss(pictures: Tensor) -> Tensor:
        return contrastive_loss(towers.see(pictures), towers.read(tokens), towers.log_scale)

    fit(towers.parameters(), loss, steps, 1e-3, seed)
    return towers


def meet_twice(seed: int, steps: int, several: bool) -> TwoTowers:
    """Two towers whose batches hold captions drawn at random, so some of them twice and more.

    several: every picture of a caption is right, not only the one that stands beside it.
    """
    torch.manual_seed(seed)
    towers, random = TwoTowers(pictures_config(VOCABULARY)), torch.Generator().manual_seed(seed)

    def loss(_: Tensor) -> Tensor:
        drawn = torch.randint(len(SEEN), (len(SEEN),), generator=random)
        captions = [SEEN[i] for i in drawn]
        see, read = towers.see(make_pictures(captions, random)), towers.read(encode(captions))
        if not several:
            return contrastive_loss(see, read, towers.log_scale)
        logits = towers.log_scale.exp() * see @ read.T
        right = (drawn[:, None] == drawn).float()
        right /= right.sum(-1, keepdim=True)
        return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2

    fit(towers.parameters(), loss, steps, 1e-3, seed)
    return towers


def run(seed: int) -> tuple[list[dict], Pictured]:
    """All models of one seed."""
    config, rows = pictures_config(VOCABULARY), []
    torch.manual_seed(seed)
    shipped = Pictured(config)

    def report(name: str, begin: float, **of: object) -> None:
        rows.append({"name": name, "seed": seed, **of, "cpu_seconds": round(time.process_time() - begin, 1)})
        print(rows[-1], flush=True)

    begin = time.process_time()
    report("shapes", begin, **classify(shipped.shape_eye, shipped.head, seed, SHAPE_STEPS), steps=SHAPE_STEPS)
    for steps in (SHORT, STEPS, LONG):
        begin = time.process_time()
        towers = meet(seed, steps)
        report("towers", begin, **found(towers), steps=steps)
        if steps == SHORT:
            early = towers.eye
    for several in (False, True):
        begin = time.process_time()
        report("twice", begin, **found(meet_twice(seed, SHORT, several)), several=several, steps=SHORT)
    shipped.eye = towers.eye
    for read, captions in (("seen", SEEN), ("all", CAPTIONS)):
        text = reader(config, captions, seed)
        report("text only", time.process_time(), **described(text, towers.eye), read=read)
        ways = (("both", towers.eye, False), ("picture only", towers.eye, True), ("early eye", early, False))
        for name, eye, blind in ways:
            begin, describer = time.process_time(), deepcopy(text)
            look(describer, describer.looks, eye, LOOK_STEPS, seed, blind)
            gates = [round(gate, 3) for one in describer.looks for gate in one.gates.tanh().tolist()]
            report(name, begin, **described(describer, eye, blind), read=read, gates=gates)
            if (name, read) == ("both", "seen"):
                shipped.describer = describer
    return rows, shipped


def summary(rows: list[dict]) -> list[dict]:
    """Mean and standard deviation over the seeds of all that was asked of each model."""
    lines, kinds = [], ("name", "steps", "several", "read")
    for kind in dict.fromkeys(tuple((key, row[key]) for key in kinds if key in row) for row in rows):
        of_kind = [row for row in rows if all(row.get(key) == value for key, value in kind)]
        line: dict = dict(kind)
        for group in ("seen", "unseen"):
            values = [row[group] if isinstance(row[group], dict) else {"shape": row[group]} for row in of_kind]
            line[group] = {
                name: {"mean": round(fmean(shown), 4), "spread": round(stdev(shown), 4)}
                for name in values[0]
                for shown in [[value[name] for value in values]]
            }
        lines.append(line)
    return lines


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for seed in SEEDS:
        of_seed, shipped = run(seed)
        rows += of_seed
        if seed == SEEDS[0]:
            save_checkpoint(SHIPPED, shipped.half(), VOCABULARY)
    record = {"command": COMMAND, "machine": machine("torch"), "seeds": SEEDS, "tested": TESTED}
    record |= {"summary": summary(rows), "rows": rows}
    write_record(__file__, record, "name")


if __name__ == "__main__":
    main()
