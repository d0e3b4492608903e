"""Three families out of one stack, trained on the newsroom: lesson 16 draws what this writes.

    OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.families

Each model is trained for the same number of steps on the same stories, and asked for what families are used for: a
hidden word, the next word, a headline, the kind of a story of which it has seen few. A stack of four layers has
872,704 parameters; two and two layers of an encoder-decoder, whose decoder attends twice, have 15 % more. `Stack`,
`hide_words` and `cut_spans` are those of the lesson's cells. families.json has a row a run.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.lessons import definitions
from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import pad_rows
from tfm_lib.data.newsroom import EVENTS, Story, make_newsroom
from tfm_lib.learning.recipes import linear_rate
from tfm_lib.masks import causal_mask, padding_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import greedy

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.families_and_scale.families"
SEEDS = (0, 1, 2)
STEPS, BATCH, RATE, WARM_UP = 600, 24, 1.5e-3, 100
SHARES = (0.0, 0.5, 1.0)  # of the article that the prefix holds
TESTED, ASKED = 500, 3  # stories, and words hidden in each
LABELED = 3  # stories of each kind that the small head learns from
WORDS = 604  # of the shipped vocabulary; behind them stand the mask and the sentinels
MASK, SENTINELS = WORDS, range(WORDS + 1, WORDS + 16)
VOCABULARY = WORDS + 16
PAD, START, END = 0, 1, 2
LESSON = definitions("16_families_and_scale")
Stack, hide_words, cut_spans = LESSON.Stack, LESSON.hide_words, LESSON.cut_spans


@cache
def stories(split: str) -> tuple[list[Story], list[list[int]], list[list[int]]]:
    """Stories of the newsroom, their articles and their headlines as ids."""
    _, vocabulary = newsroom_model()
    examples = getattr(make_newsroom(0), split)
    rows = (
        [vocabulary.encode(text) for text in texts]
        for texts in zip(*((s.article, s.summary) for s in examples), strict=True)
    )
    return examples, *rows


def config(layers: int = 4) -> TransformerConfig:
    """The width of the shipped summarizer, so many layers on the encoder's side, and two of a decoder."""
    sizes = {"d_model": 128, "num_heads": 8, "d_ff": 512, "dropout": 0.0, "norm_first": True, "max_length": 96}
    depth = {"num_encoder_layers": layers, "num_decoder_layers": 2}
    return TransformerConfig(vocab_size=VOCABULARY, **sizes, **depth)


def texts(indices: Sequence[int], split: str = "train") -> tuple[Tensor, Tensor]:
    """Article, [start], headline, [end]: tokens (B, T), and how much of each is article (B,)."""
    _, articles, headlines = stories(split)
    rows = [[*articles[i], START, *headlines[i], END] for i in indices]
    return pad_rows(rows, PAD), torch.tensor([len(articles[i]) + 1 for i in indices])


def _shifted(tokens: Tensor, first: Tensor | None = None) -> Tensor:
    """The next token at each place, as a label; with `first`, from the place on that it names."""
    labels = F.pad(tokens[:, 1:], (0, 1))
    if first is not None:
        labels = labels * (torch.arange(tokens.shape[1]) >= first[:, None] - 1)
    return labels


def masked_loss(model: nn.Module, indices: Sequence[int], draw: torch.Generator) -> Tensor:
    """BERT's: of the words that were chosen, seen from both sides."""
    tokens, _ = texts(indices)
    hidden, labels = hide_words(tokens, MASK, WORDS, draw)
    return _loss(model(hidden, torch.full((len(tokens),), tokens.shape[1])), labels)


def next_word_loss(model: nn.Module, indices: Sequence[int], draw: torch.Generator) -> Tensor:
    """GPT's: of each word behind those to its left."""
    tokens, _ = texts(indices)
    return _loss(model(tokens, torch.zeros(len(tokens))), _shifted(tokens))


def prefix_loss(share: float) -> Callable:
    """Of the headline's words alone, where this share of the article is seen from both sides."""

    def loss(model: nn.Module, indices: Sequence[int], draw: torch.Generator) -> Tensor:
        tokens, article = texts(indices)
        return _loss(model(tokens, (share * article).floor()), _shifted(tokens, article))

    return loss


def span_loss(model: nn.Module, indices: Sequence[int], draw: torch.Generator) -> Tensor:
    """T5's: of the spans that were cut out of the articles."""
    random = Random(int(torch.randint(2**31, (1,), generator=draw)))
    _, articles, _ = stories("train")
    pairs = [cut_spans(articles[i], SENTINELS, random) for i in indices]
    return _seq2seq_loss(model, [source for source, _ in pairs], [target for _, target in pairs])


def headline_loss(model: nn.Module, indices: Sequence[int], draw: torch.Generator) -> Tensor:
    """The encoder-decoder's of lesson 06: of the headline behind the whole article."""
    _, articles, headlines = stories("train")
    return _seq2seq_loss(model, [articles[i] for i in indices], [headlines[i] for i in indices])


def _seq2seq_loss(model: nn.Module, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    tgt = pad_rows([[START, *target] for target in targets], PAD)
    labels = pad_rows([[*target, END] for target in targets], PAD)
    return _loss(model(pad_rows(sources, PAD), tgt), labels)


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)


def train(model: nn.Module, loss_of: Callable, seed: int, steps: int = STEPS) -> float:
    """Train it, and return the CPU seconds that this took."""
    draw, begin = torch.Generator().manual_seed(seed), time.process_time()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    size = len(stories("train")[1])
    order = torch.cat([torch.randperm(size, generator=draw) for _ in range(-(-steps * BATCH // size))])
    for step, indices in enumerate(order[: steps * BATCH].split(BATCH), start=1):
        optimizer.param_groups[0]["lr"] = linear_rate(step, RATE, WARM_UP, steps)
        optimizer.zero_grad()
        loss_of(model, indices.tolist(), draw).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return time.process_time() - begin


@torch.inference_mode()
def next_nats(model: nn.Module, tested: int = TESTED) -> float:
    """Nats per token of held-out stories, read from the left."""
    tokens, _ = texts(range(tested), "dev")
    return _loss(model(tokens, torch.zeros(tested)), _shifted(tokens)).item()


@torch.inference_mode()
def headlines(model: nn.Module, share: float, tested: int = TESTED) -> float:
    """The share of headlines that are exact, written greedily behind the article by one stack."""
    _, articles, right = stories("test")
    tokens = pad_rows([[*articles[i], START] for i in range(tested)], PAD)
    length = (tokens != PAD).sum(1)
    prefix = (share * length).floor()
    most = max(map(len, right[:tested])) + 1
    tokens = F.pad(tokens, (0, most))
    written = [[] for _ in range(tested)]
    for _ in range(most):
        logits = model(tokens[:, : int(length.max())], prefix)
        best = logits[torch.arange(tested), length - 1].argmax(-1)
        tokens[torch.arange(tested), length] = best
        length = length + 1
        for row, token in zip(written, best.tolist(), strict=True):
            row.append(token)
    ended = [row[: row.index(END)] if END in row else row for row in written]
    return fmean(one == other for one, other in zip(ended, right, strict=False))


@torch.inference_mode()
def seq2seq_headlines(model: Transformer, tested: int = TESTED) -> float:
    """The share of headlines that are exact, written greedily by an encoder-decoder."""
    _, articles, right = stories("test")
    written = greedy(model, pad_rows(articles[:tested], PAD), max(map(len, right)) + 1).tolist()
    ended = [row[: row.index(END)] if END in row else row for row in written]
    return fmean(one == other for one, other in zip(ended, right, strict=False))


def asked(tested: int = TESTED) -> list[tuple[int, int]]:
    """Which word of which test story is hidden."""
    random = Random(0)
    _, articles, _ = stories("test")
    return [(i, place) for i in range(tested) for place in random.sample(range(1, len(articles[i])), ASKED)]


@torch.inference_mode()
def fill_in(model: nn.Module, family: str, tested: int = TESTED) -> float:
    """The share of hidden words that come first: seen from both sides, from the left alone, or behind a sentinel."""
    _, articles, _ = stories("test")
    places = asked(tested)
    right = torch.tensor([articles[i][place] for i, place in places])
    at = torch.tensor([place for _, place in places])
    rows = torch.arange(len(places))
    if family == "encoder-decoder":
        cut = [[*articles[i][:place], SENTINELS[0], *articles[i][place + 1 :]] for i, place in places]
        tgt = torch.tensor([[START, SENTINELS[0]]]).expand(len(places), -1)
        return (model(pad_rows(cut, PAD), tgt)[:, 1].argmax(-1) == right).float().mean().item()
    tokens = pad_rows([articles[i] for i, _ in places], PAD)
    if family == "encoder-only":
        tokens[rows, at] = MASK
        logits = model(tokens, torch.full((len(places),), tokens.shape[1]))[rows, at]
    else:
        logits = model(tokens, torch.zeros(len(places)))[rows, at - 1]
    return (logits.argmax(-1) == right).float().mean().item()


@torch.no_grad()
def features(model: nn.Module, family: str, split: str, count: int) -> tuple[Tensor, Tensor]:
    """A vector for each story and the number of its kind.

    The vector is the mean of the states, but the last state of a decoder-only model, which alone has seen all: compare
    each with what an untrained stack has in the same reading.
    """
    examples, articles, _ = stories(split)
    tokens = pad_rows(articles[:count], PAD)
    real = padding_mask(tokens, PAD)
    mask = real & causal_mask(tokens.shape[1]) if family == "decoder-only" else real
    states = model.encoder(tokens, mask)
    length = real[:, 0, 0].sum(-1)
    if family == "decoder-only":
        vectors = states[torch.arange(count), length - 1]
    else:
        vectors = (states * real[:, 0, 0, :, None]).sum(1) / length[:, None]
    kinds = list(EVENTS)
    return vectors, torch.tensor([kinds.index(story.event) for story in examples[:count]])


def classify(model: nn.Module, family: str, tested: int = TESTED) -> float:
    """The share of test stories whose kind a linear head names that was trained on few labeled ones."""
    (few, labels), (x, kinds) = (
        features(model, family, split, count) for split, count in (("train", LABELED * len(EVENTS)), ("test", tested))
    )
    mean, std = few.mean(0), few.std(0) + 1e-6
    head = nn.Linear(few.shape[1], len(EVENTS))
    nn.init.zeros_(head.weight)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05, weight_decay=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(head((few - mean) / std), labels).backward()
        optimizer.step()
    with torch.inference_mode():
        return (head((x - mean) / std).argmax(-1) == kinds).float().mean().item()


def run(name: str, seed: int, steps: int = STEPS, tested: int = TESTED) -> dict:
    """Train one model and ask it for all that it can."""
    torch.manual_seed(seed)
    row: dict = {"name": name, "seed": seed}
    if name in UNTRAINED:
        model: nn.Module = Stack(config())
        family = "decoder-only" if name.endswith("last token") else "encoder-only"
        return row | {"classify": classify(model, family, tested)}
    if name in ("encoder-decoder", "encoder-decoder, headlines"):
        model = Transformer(config(2))
        row["seconds"] = train(model, span_loss if name == "encoder-decoder" else headline_loss, seed, steps)
        if name == "encoder-decoder":
            row |= {"fill in": fill_in(model, name, tested), "classify": classify(model, name, tested)}
        else:
            row |= {"headlines": seq2seq_headlines(model, tested)}
    elif name == "encoder-only":
        model = Stack(config())
        row["seconds"] = train(model, masked_loss, seed, steps)
        row |= {"fill in": fill_in(model, name, tested), "classify": classify(model, name, tested)}
    elif name == "decoder-only":
        model = Stack(config())
        row["seconds"] = train(model, next_word_loss, seed, steps)
        row |= {"fill in": fill_in(model, name, tested), "classify": classify(model, name, tested)}
        row |= {"nats": next_nats(model, tested), "headlines": headlines(model, 0.0, tested)}
    else:
        share = float(name.removeprefix("prefix "))
        model = Stack(config())
        row["seconds"] = train(model, prefix_loss(share), seed, steps)
        row["headlines"] = headlines(model, share, tested)
    return row | {"parameters": sum(p.numel() for p in model.parameters())}


UNTRAINED = ("untrained", "untrained, last token")
NAMES = (*UNTRAINED, "encoder-only", "decoder-only", "encoder-decoder", "encoder-decoder, headlines")


def summary(rows: list[dict]) -> dict[str, dict]:
    """The mean and the standard deviation over the seeds of all that was asked of each model."""
    results: dict[str, dict] = {}
    for name in dict.fromkeys(row["name"] for row in rows):
        of_name = [row for row in rows if row["name"] == name]
        measures = [key for key in of_name[0] if key not in ("name", "seed", "parameters", "seconds")]
        results[name] = {
            key: {"mean": round(fmean(values), 4), "spread": round(stdev(values), 4)}
            for key in measures
            for values in [[row[key] for row in of_name]]
        }
    return results


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in (*NAMES, *(f"prefix {share}" for share in SHARES)):
        for seed in SEEDS:
            rows.append(run(name, seed))
            print(rows[-1], flush=True)
    record = {"command": COMMAND, "machine": machine("torch"), "seeds": SEEDS, "steps": STEPS, "batch": BATCH}
    record |= {"summary": summary(rows), "rows": rows}
    write_record(__file__, record, "name")


if __name__ == "__main__":
    main()
