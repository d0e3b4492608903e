"""Models with one fault each, for the check-up: a healthy source, and a table of replacements in it.

Each plant names the code that the check-up must report. `MODEL` is an encoder-decoder as people write one by hand,
with a cache, a loss and a beam search; `TORCH` uses nn.Transformer; `GPT` is decoder-only and `BERT` encoder-only.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from tfm_lib.checkup import Report, checkup

VOCAB, PAD, START, EOS = 24, 0, 1, 2
SEED = 0  # of the weights of each model

MODEL = """
import math
import torch
import torch.nn.functional as F
from torch import nn

V, D, H, LAYERS, PAD, START, EOS, MAX = 24, 32, 4, 2, 0, 1, 2, 64

class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        place = torch.arange(MAX).float()[:, None]
        rate = torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
        pe = torch.zeros(MAX, D)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("pe", pe)

    def forward(self, x, past=0):
        if past + x.shape[1] > MAX:
            raise ValueError(f"{past + x.shape[1]} positions, and the table has {MAX}")
        return x + self.pe[past : past + x.shape[1]]

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D) for _ in range(4))
        self.drop = nn.Dropout(0.1)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], H, D // H).transpose(1, 2)

    def forward(self, x, memory, mask, cache=None):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(memory)), self.split(self.wv(memory))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // H)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = self.drop(scores.softmax(-1))
        return self.wo((weights @ v).transpose(1, 2).reshape(x.shape[0], -1, D))

def feed_forward():
    return nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.ff = Attention(), feed_forward()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attention(x, x, mask)))
        return self.norm2(x + self.drop(self.ff(x)))

class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cross, self.ff = Attention(), Attention(), feed_forward()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, memory, mask, src_mask, cache=None):
        x = self.norm1(x + self.drop(self.attention(x, x, mask, cache)))
        x = self.norm2(x + self.drop(self.cross(x, memory, src_mask)))
        return self.norm3(x + self.drop(self.ff(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_emb = nn.Embedding(V, D)
        self.tgt_emb = nn.Embedding(V, D)
        self.positions = Positions()
        self.encoder = nn.ModuleList([EncoderLayer() for _ in range(LAYERS)])
        self.decoder = nn.ModuleList([DecoderLayer() for _ in range(LAYERS)])
        self.out = nn.Linear(D, V, bias=False)
        for table in (self.src_emb, self.tgt_emb):
            nn.init.normal_(table.weight, std=D**-0.5)
        self.out.weight = self.tgt_emb.weight

    def pad_mask(self, src):
        return (src != PAD)[:, None, None, :]

    def causal(self, new, past=0):
        return torch.ones(new, past + new).bool().tril(past)

    def encode(self, src):
        x, mask = self.positions(self.src_emb(src) * math.sqrt(D)), self.pad_mask(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def decode(self, tgt, memory, src_mask, caches=None, past=0):
        x = self.positions(self.tgt_emb(tgt) * math.sqrt(D), past)
        mask = self.causal(tgt.shape[1], past)
        for i, layer in enumerate(self.decoder):
            x = layer(x, memory, mask, src_mask, None if caches is None else caches[i])
        return self.out(x)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), self.pad_mask(src))

    def begin(self, src):
        return [self.encode(src), self.pad_mask(src), [[] for _ in range(LAYERS)], 0]

    def step(self, new, state):
        memory, src_mask, caches, past = state
        logits = self.decode(new, memory, src_mask, caches, past)
        return logits, [memory, src_mask, caches, past + new.shape[1]]

    def loss(self, src, tgt):
        logits, labels = self(src, tgt[:, :-1]), tgt[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)

    def generate(self, src, beams=2, length=4):
        was, rows = self.training, []
        self.eval()
        for one in src:
            found = [(0.0, [START])]
            for _ in range(length):
                new = []
                for score, ids in found:
                    if ids[-1] == EOS:
                        new.append((score, ids))
                        continue
                    best = self(one[None], torch.tensor([ids]))[0, -1].log_softmax(-1).topk(beams)
                    new += [(score + float(s), [*ids, int(i)]) for s, i in zip(*best)]
                found = sorted(new, reverse=True)[:beams]
            rows.append([ids + [PAD] * (length + 1 - len(ids)) for _, ids in found])
        self.train(was)
        return torch.tensor(rows)

def build():
    model = Model()
    return model, dict(encode=model.begin, decode=model.step, loss=model.loss, generate=model.generate)
"""

TORCH = """
import math
import torch
from torch import nn

V, D, PAD = 24, 32, 0

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(V, D), nn.Embedding(64, D)
        self.transformer = nn.Transformer(D, 4, 2, 2, 64, batch_first=True)
        self.out = nn.Linear(D, V)

    def embed(self, ids):
        return self.emb(ids) + self.pos(torch.arange(ids.shape[1]))

    def forward(self, src, tgt):
        hidden = src == PAD
        future = torch.ones(tgt.shape[1], tgt.shape[1]).bool().triu(1)
        x = self.transformer(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
        )
        return self.out(x)

def build():
    return Model(), {}
"""

GPT = """
import torch
from torch import nn

V, D = 24, 32

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(V, D), nn.Embedding(64, D)
        layer = nn.TransformerEncoderLayer(D, 4, 64, norm_first=True, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(D, V)

    def forward(self, tokens):
        future = torch.ones(tokens.shape[1], tokens.shape[1]).bool().triu(1)
        x = self.emb(tokens) + self.pos(torch.arange(tokens.shape[1]))
        return self.out(self.layers(x, mask=future))

def build():
    return Model(), {}
"""

MASKED = """
    model, MASK = Model(), 3

    def loss(tokens):
        chosen = (torch.rand(tokens.shape) < 0.2) & (tokens != 0)
        labels = tokens.masked_fill(~chosen, -100)
        return nn.functional.cross_entropy(model(tokens.masked_fill(chosen, MASK)).transpose(1, 2), labels)

    return model, {"kind": "encoder-only", "loss": loss}
"""
BERT = GPT.replace("mask=future", "src_key_padding_mask=tokens == 0").replace("    return Model(), {}\n", MASKED)

LABELLED = (
    GPT.replace("Model(", "ModelForMaskedLM(")
    .replace("tokens):", "tokens, labels=None):")
    .replace("return self.out(self.layers(x, mask=future))", "logits = self.out(self.layers(x, src_key_padding_mask=tokens == 0))\n" + """\
        loss = None if labels is None else nn.functional.cross_entropy(logits.transpose(1, 2), labels)
        return {"logits": logits, "loss": loss}""")
)  # fmt: skip
WITH_TARGETS = (
    GPT.replace("tokens):", "tokens, targets=None):")
    .replace("return self.out(self.layers(x, mask=future))", "logits = self.out(self.layers(x, mask=future))\n" + """\
        loss = None if targets is None else nn.functional.cross_entropy(logits.transpose(1, 2), targets)
        return logits, loss""")
)  # fmt: skip
ONE_SIDED = GPT, BERT, LABELLED, WITH_TARGETS
CROPPING = GPT.replace(
    "return Model(), {}\n",
    """
    model = Model()

    def generate(tokens):
        model.eval()
        for _ in range(4):
            tokens = torch.cat([tokens, model(tokens[:, -64:])[:, -1:].argmax(-1)], 1)
        return tokens

    return model, {"generate": generate}
""",
)
OWN_MODULES = """
class Embedding(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(rows, width) * width**-0.5)

    def forward(self, ids):
        return self.vectors[ids]

class Linear(nn.Module):
    def __init__(self, width, out, bias=True):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(width, out) * width**-0.5)

    def forward(self, x):
        return x @ self.matrix

class Positions(nn.Module)"""
OWN = (
    MODEL.replace("nn.Embedding(", "Embedding(").replace("nn.Linear(", "Linear(")
    .replace("        for table in (self.src_emb, self.tgt_emb):\n", "")
    .replace("            nn.init.normal_(table.weight, std=D**-0.5)\n        self.out.weight = self.tgt_emb.weight\n", "")
    .replace("\nclass Positions(nn.Module)", OWN_MODULES)
)  # fmt: skip
BARE = (
    MODEL.replace("self.src_emb = nn.Embedding(V, D)", "self.src_emb = nn.Parameter(torch.randn(V, D) * D**-0.5)")
    .replace("self.tgt_emb = nn.Embedding(V, D)", "self.tgt_emb = nn.Parameter(torch.randn(V, D) * D**-0.5)")
    .replace("self.out = nn.Linear(D, V, bias=False)", "self.out = nn.Parameter(torch.randn(D, V) * D**-0.5)")
    .replace("        for table in (self.src_emb, self.tgt_emb):\n", "")
    .replace("            nn.init.normal_(table.weight, std=D**-0.5)\n        self.out.weight = self.tgt_emb.weight\n", "")
    .replace("self.src_emb(src)", "self.src_emb[src]").replace("self.tgt_emb(tgt)", "F.embedding(tgt, self.tgt_emb)")
    .replace("return self.out(x)", "return x @ self.out")
)  # fmt: skip
ASKED = (
    TORCH.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n")
    .replace("PAD = 24, 32, 0", "PAD, START, EOS = 24, 32, 0, 1, 2")
    .replace("(self, src, tgt)", "(self, src, attention_mask, tgt, labels=None)")
    .replace("hidden = src == PAD", "hidden = attention_mask == 0")
    .replace("        return self.out(x)\n", """\
        logits, loss = self.out(x), None
        if labels is not None:
            costs, asked = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none"), labels != PAD
            loss = (costs * asked).sum() / asked.sum()
        return {"logits": logits, "loss": loss}

    @torch.no_grad()
    def generate(self, src):
        was, _ = self.training, self.eval()
        hidden, tgt = src == PAD, torch.full((len(src), 1), START)
        memory = self.transformer.encoder(self.embed(src), src_key_padding_mask=hidden)
        for _ in range(9):
            future = torch.ones(tgt.shape[1], tgt.shape[1]).bool().triu(1)
            x = self.transformer.decoder(self.embed(tgt), memory, tgt_mask=future, memory_key_padding_mask=hidden)
            done = (tgt == EOS).any(1)
            tgt = torch.cat([tgt, self.out(x)[:, -1:].argmax(-1).masked_fill(done[:, None], PAD)], 1)
        self.train(was)
        return tgt
""").replace("    return Model(), {}", "    model = Model()\n    return model, {'generate': model.generate}")
)  # fmt: skip
PROMPTED = """
import torch
from torch import nn

V, D, PAD, EOS = 24, 32, 0, 2

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(V, D), nn.Embedding(64, D)
        layer = nn.TransformerEncoderLayer(D, 4, 64, norm_first=True, batch_first=True)
        self.layers = nn.ModuleList([layer])
        self.out = nn.Linear(D, V)

    def forward(self, ids, attention_mask=None, position_ids=None):
        if attention_mask is None:
            attention_mask = ids != PAD
        if position_ids is None:
            position_ids = attention_mask.cumsum(1).sub(1).clamp(min=0)
        past = torch.ones(ids.shape[1], ids.shape[1]).bool().tril()
        mask = past & attention_mask[:, None]
        mask = mask | torch.eye(ids.shape[1]).bool()
        x = self.emb(ids) + self.pos(position_ids)
        for layer in self.layers:
            x = layer(x, (~mask).repeat_interleave(4, 0))
        return self.out(x)

    def generate(self, prompts, length=6, do_sample=False, temperature=1.0, top_k=None, top_p=1.0):
        was = self.training
        self.eval()
        kept = prompts != PAD
        width = kept.sum(1).max()
        ids = torch.stack([nn.functional.pad(row[row != PAD], (width - n, 0)) for row, n in zip(prompts, kept.sum(1))])
        done = torch.zeros(len(ids), 1).bool()
        for _ in range(length):
            mask = ids != PAD
            scores = self(ids, mask, mask.cumsum(1).sub(1).clamp(min=0))[:, -1] / temperature
            best, order = scores.sort(descending=True)
            if top_k:
                best[:, top_k:] = -torch.inf
            best[best.softmax(1).cumsum(1) - best.softmax(1) >= top_p] = -torch.inf
            rank = best.softmax(1).multinomial(1) if do_sample else torch.zeros(len(ids), 1).long()
            new = order.gather(1, rank).masked_fill(done, PAD)
            ids, done = torch.cat([ids, new], 1), done | (new == EOS)
        self.train(was)
        return ids

def build():
    model = Model()
    return model, {"generate": model.generate}
"""
EINSUM = (
    MODEL.replace("self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D) for _ in range(4))", """\
self.wq, self.wk = (nn.Parameter(torch.randn(H, D, D // H) * D**-0.5) for _ in range(2))
        self.wv, self.wo = nn.Linear(D, D), nn.Linear(D, D)""")
    .replace("self.split(self.wq(x))", "torch.einsum('btd,hde->bhte', x, self.wq)")
    .replace("self.split(self.wk(memory))", "torch.einsum('btd,hde->bhte', memory, self.wk)")
)  # fmt: skip


@dataclass(frozen=True)
class Plant:
    """A fault: what is replaced in which source, and the code that must be found."""

    name: str
    code: str
    old: str
    new: str
    source: str = MODEL
    given: dict[str, Any] = field(default_factory=dict)  # to checkup, in the place of the usual ids

    def build(self) -> tuple[Any, dict[str, Any]]:
        """The sick model, and what `checkup` gets beside it."""
        assert self.old in self.source, f"{self.name}: {self.old!r} is not in the source"
        model, given = built(self.source.replace(self.old, self.new))
        return model, {**given, **self.given}

    def examined(self, **how: Any) -> Report:
        model, given = self.build()
        return checkup(model, **given, **how)


def built(source: str) -> tuple[Any, dict[str, Any]]:
    """What `build` of this source returns, with the ids; the same weights every time."""
    names: dict[str, Any] = {}
    torch.manual_seed(SEED)
    exec(compile(source, "sick_model", "exec"), names)
    with warnings.catch_warnings():  # what torch says of batch_first
        warnings.simplefilter("ignore")
        model, given = names["build"]()
    return model, {"vocab_size": VOCAB, "pad_id": PAD, "start_id": START, "eos_id": EOS, **given}


MASK = "mask = self.causal(tgt.shape[1], past)"
LOSS = "logits, labels = self(src, tgt[:, :-1]), tgt[:, 1:]"
TABLE = "return x + self.pe[past : past + x.shape[1]]"
NORMS = "self.norm1, self.norm2, self.norm3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)"
TIED = "self.out.weight = self.tgt_emb.weight"

# fmt: off
PLANTS = [
    # What comes out
    Plant("softmax at the end", "output.probabilities", "return self.out(x)", "return self.out(x).softmax(-1)"),
    Plant("log_softmax at the end", "output.log_probabilities", "return self.out(x)", "return self.out(x).log_softmax(-1)"),
    Plant("hidden states instead of logits", "shapes.not_vocab", "return self.out(x)", "return x"),
    Plant("vocabulary before time", "shapes.axes", "return self.decode(tgt, self.encode(src), self.pad_mask(src))", "return self.decode(tgt, self.encode(src), self.pad_mask(src)).transpose(1, 2)"),
    Plant("texts and places in one axis", "shapes.flattened", "return self.decode(tgt, self.encode(src), self.pad_mask(src))", "return self.decode(tgt, self.encode(src), self.pad_mask(src)).view(-1, V)"),
    Plant("shifted in forward", "shapes.shortened", "return self.decode(tgt, self.encode(src)", "return self.decode(tgt[:, :-1], self.encode(src)"),
    Plant("target before source", "shapes.swapped", "def forward(self, src, tgt):\n        return self.decode", "def forward(self, tgt, src):\n        return self.decode"),
    Plant("source with words of its own", "shapes.vocabularies", "self.src_emb = nn.Embedding(V, D)", "self.src_emb = nn.Embedding(V + 6, D)"),
    Plant("squeeze without an axis", "shapes.single", "x.shape[0], -1, D))", "x.shape[0], -1, D)).squeeze()"),
    Plant("a norm for one length", "shapes.length", "x = self.positions(self.tgt_emb(tgt) * math.sqrt(D), past)", "x = self.positions(self.tgt_emb(tgt) * math.sqrt(D), past); x = x * torch.ones(1, 7 if x.shape[1] > 1 else 1, 1)"),
    Plant("logits of a constant", "output.constant", "return self.out(x)", "return self.out(torch.ones_like(x))"),
    Plant("root of a negative number", "output.nan", "return self.out(x)", "return self.out(x).sqrt()"),
    Plant("dropout of logits", "dropout.logits", "return self.out(x)", "return F.dropout(self.out(x), 0.1, self.training)"),
    Plant("dropout in eval", "dropout.eval", "nn.ReLU(),", "type('Drop', (nn.Module,), {'forward': lambda self, x: F.dropout(x.relu(), 0.1)})(),"),
    # The future
    Plant("no causal mask", "causality.leak", MASK, "mask = torch.ones(tgt.shape[1], past + tgt.shape[1]).bool()"),
    Plant("causal mask one too far", "causality.off_by_one", ".tril(past)", ".tril(past + 1)"),
    Plant("causal mask hides the present", "causality.hides_itself", ".tril(past)", ".tril(past - 1)"),
    Plant("causal mask inverted", "causality.inverted", MASK, MASK + ".logical_not() | torch.eye(tgt.shape[1], past + tgt.shape[1]).bool()"),
    Plant("only the present is seen", "causality.blind", ".tril(past)", ".tril(past).triu(past)"),
    Plant("window of two tokens", "causality.blind", ".tril(past)", ".tril(past).triu(past - 1)"),
    Plant("causal mask only in training", "causality.eval", MASK, "mask = self.causal(tgt.shape[1], past) if self.training else torch.ones(tgt.shape[1], past + tgt.shape[1]).bool()"),
    Plant("causal mask only in eval", "causality.training", MASK, "mask = self.causal(tgt.shape[1], past) if not self.training else torch.ones(tgt.shape[1], past + tgt.shape[1]).bool()"),
    Plant("a norm over time", "causality.norm", NORMS, NORMS.replace("nn.LayerNorm(D)", 'type("TimeNorm", (nn.Module,), {"forward": lambda self, x: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()})()', 1)),
    Plant("heads merged by a view", "causality.axes", "(weights @ v).transpose(1, 2).reshape(", "(weights @ v).reshape("),
    Plant("softmax over queries", "attention.axis", "scores.softmax(-1)", "scores.softmax(-2)"),
    # Padding
    Plant("padding is attended", "padding.source", "return (src != PAD)[:, None, None, :]", "return torch.ones_like(src).bool()[:, None, None, :]"),
    Plant("padding is seen by the decoder", "padding.cross", "self.encode(src), self.pad_mask(src))", "self.encode(src), self.pad_mask(src) | True)"),
    Plant("query rows masked", "padding.query_rows", "x, mask = self.positions(self.src_emb(src) * math.sqrt(D)), self.pad_mask(src)", "x, mask = self.positions(self.src_emb(src) * math.sqrt(D)), self.pad_mask(src).transpose(2, 3)"),
    Plant("padding mask inverted", "padding.inverted", "(src != PAD)", "(src == PAD)"),
    Plant("padding mask shifted", "padding.misplaced", "(src != PAD)[", "(src != PAD).roll(-1, 1)["),
    Plant("rows that see nothing become NaN", "padding.empty_row", "torch.finfo(scores.dtype).min", "-torch.inf"),
    Plant("padding of the target counts", "padding.target", MASK, MASK + " & (tgt != PAD).all()"),
    Plant("start token hides itself", "padding.start", MASK, MASK + " & (tgt != PAD)[:, None, None, :]", given={"start_id": PAD}),
    Plant("mean over padding", "padding.length", "            x = layer(x, mask)\n        return x", "            x = layer(x, mask)\n        return x + x.mean(1, keepdim=True)"),
    # Rows and positions
    Plant("rows mixed by a view", "batch.rows", "(weights @ v).transpose(1, 2).reshape(", "(weights @ v).transpose(1, 2).transpose(0, 1).reshape("),
    Plant("BatchNorm", "batch.training", NORMS, NORMS.replace("nn.LayerNorm(D)", 'type("Norm", (nn.BatchNorm1d,), {"forward": lambda self, x: nn.BatchNorm1d.forward(self, x.transpose(1, 2)).transpose(1, 2)})(D)', 1)),
    Plant("no positions", "positions.none", TABLE, "return x"),
    Plant("no positions in the target", "positions.target_none", "x = self.positions(self.tgt_emb(tgt) * math.sqrt(D), past)", "x = self.tgt_emb(tgt) * math.sqrt(D)"),
    Plant("no positions in the source", "positions.none", "x, mask = self.positions(self.src_emb(src) * math.sqrt(D))", "x, mask = self.src_emb(src) * math.sqrt(D)"),
    Plant("positions count from the middle", "positions.mirror", "self.positions(self.src_emb(src) * math.sqrt(D))", "self.src_emb(src) * math.sqrt(D) + self.positions.pe[(2 * torch.arange(src.shape[1]) - (src != PAD).sum(1)[:, None] + 1).abs()]"),
    Plant("positions by batch", "positions.batch", TABLE, "return x + self.pe[: x.shape[0], None]"),
    Plant("positions clamped", "positions.silent_end", "        if past + x.shape[1] > MAX:\n            raise ValueError(f\"{past + x.shape[1]} positions, and the table has {MAX}\")\n        " + TABLE, "        return x + self.pe[(past + torch.arange(x.shape[1])).clamp(max=MAX - 1)]"),
    Plant("table too short", "limits.length", "MAX = 24, 32, 4, 2, 0, 1, 2, 64", "MAX = 24, 32, 4, 2, 0, 1, 2, 20"),
    # The source
    Plant("source ignored", "source.ignored", "x = self.norm2(x + self.drop(self.cross(x, memory, src_mask)))\n", "x = self.norm2(x)\n"),
    Plant("last word of the source cut off", "source.partial", "return self.decode(tgt, self.encode(src), self.pad_mask(src))", "return self.decode(tgt, self.encode(src[:, :-1]), self.pad_mask(src[:, :-1]))"),
    Plant("cross-attention asks with the layer's input", "source.queries", "x = self.norm1(x + self.drop(self.attention(x, x, mask, cache)))\n        x = self.norm2(x + self.drop(self.cross(x, memory, src_mask)))", "y = self.norm1(x + self.drop(self.attention(x, x, mask, cache)))\n        x = self.norm2(y + self.drop(self.cross(x, memory, src_mask)))"),
    Plant("encoder is causal", "source.causal", "            x = layer(x, mask)\n", "            x = layer(x, mask & self.causal(src.shape[1]))\n"),
    # Gradients and weights
    Plant("einsum: all heads look where the first does", "gradients.heads", "(weights @ v)", "(weights[:, :1] @ v)", EINSUM),
    Plant("memory detached", "gradients.unreached", "return self.decode(tgt, self.encode(src), self.pad_mask(src))", "return self.decode(tgt, self.encode(src).detach(), self.pad_mask(src))"),
    Plant("logits without gradient", "gradients.none", "return self.out(x)", "return self.out(x).detach()"),
    Plant("a part that is never used", "gradients.unreached", "self.drop = nn.Dropout(0.1)\n\n    def forward(self, x, mask):", "self.drop, self.extra = nn.Dropout(0.1), nn.Linear(D, D)\n\n    def forward(self, x, mask):"),
    Plant("a pooler that nobody calls", "gradients.unused", "self.out = nn.Linear(D, V, bias=False)", "self.out, self.pooler = nn.Linear(D, V, bias=False), nn.Linear(D, D)"),
    Plant("layers in a plain list", "gradients.unregistered", "self.decoder = nn.ModuleList([DecoderLayer() for _ in range(LAYERS)])", "self.decoder = [DecoderLayer() for _ in range(LAYERS)]"),
    Plant("a tied table without the vector of the start", "gradients.row", "self.tgt_emb = nn.Embedding(V, D)", "self.tgt_emb = nn.Embedding(V, D, padding_idx=START)"),
    Plant("einsum: matrices stay zero", "gradients.constant", "torch.randn(H, D, D // H)", "torch.zeros(H, D, D // H)", EINSUM),
    Plant("an encoder that stays frozen", "gradients.fixed", "        for table in (self.src_emb", "        self.encoder.requires_grad_(False)\n        for table in (self.src_emb"),
    Plant("the output gets a detached table", "gradients.row", "return self.out(x)", "return F.linear(x, self.tgt_emb.weight.detach())"),
    Plant("one number everywhere", "gradients.constant", "        self.out.weight = self.tgt_emb.weight", "        for p in self.parameters():\n            nn.init.constant_(p, 0.05)\n        self.out.weight = self.tgt_emb.weight"),
    Plant("one layer several times", "gradients.shared", "nn.ModuleList([DecoderLayer() for _ in range(LAYERS)])", "nn.ModuleList([DecoderLayer()] * LAYERS)"),
    Plant("layers start as copies", "gradients.equal_start", "nn.ModuleList([EncoderLayer() for _ in range(LAYERS)])", "nn.ModuleList([__import__('copy').deepcopy(layer) for layer in [EncoderLayer()] * LAYERS])"),
    Plant("tied by a copy", "tying.copy", TIED, "self.out.weight = nn.Parameter(self.tgt_emb.weight.clone())"),
    Plant("tied by .data", "tying.data", TIED, "self.out.weight.data = self.tgt_emb.weight.data"),
    # The loss
    Plant("embeddings too wide", "loss.echo", "std=D**-0.5", "std=1.0"),
    Plant("output too wide", "loss.start", TIED, "nn.init.normal_(self.out.weight, std=2.0)"),
    Plant("no shift", "loss.no_shift", LOSS, "logits, labels = self(src, tgt), tgt"),
    Plant("shifted twice", "loss.shifted_twice", LOSS, "logits, labels = self(src, tgt[:, :-2]), tgt[:, 2:]"),
    Plant("input and labels exchanged", "loss.backwards", LOSS, "logits, labels = self(src, tgt[:, 1:]), tgt[:, :-1]"),
    Plant("the source is cut like the target", "loss.source", "self(src, tgt[:, :-1]), tgt[:, 1:]", "self(src[:, :-1], tgt[:, :-1]), tgt[:, 1:]"),
    Plant("padding is a label", "loss.padding", ", ignore_index=PAD)", ")"),
    Plant("end token is ignored", "loss.no_end", "tgt[:, 1:]\n", "tgt[:, 1:].masked_fill(tgt[:, 1:] == EOS, PAD)\n"),
    Plant("divided by padding, too", "loss.padding", "ignore_index=PAD)", "ignore_index=PAD, reduction='sum') / labels.numel()"),
    Plant("last label cut off", "loss.no_end", LOSS, "logits, labels = self(src, tgt[:, :-2]), tgt[:, 1:-1].masked_fill(tgt[:, 1:-1] == EOS, PAD)"),
    Plant("labels flattened across", "loss.wrong_labels", "labels.flatten()", "labels.T.flatten()"),
    Plant("every second label dropped", "loss.skips", "tgt[:, 1:]\n", "tgt[:, 1:].clone(); labels[:, 1::2] = PAD\n"),
    Plant("smoothing is a sum", "loss.smoothing", "ignore_index=PAD)", "ignore_index=PAD) - 0.1 * logits.log_softmax(-1).sum(-1)[labels != PAD].mean()"),
    Plant("loss in eval mode", "loss.mode", LOSS, "self.eval()\n        " + LOSS),
    Plant("loss of the wrong shape", "loss.fails", "labels.flatten()", "labels"),
    # Learning
    Plant("sigmoid on the logits", "learning.stuck", "return self.out(x)", "return self.out(x).sigmoid()"),
    # Cache and writing
    Plant("cache is emptied", "cache.differs", "torch.cat([cache[0], k], 2)", "torch.cat([cache[0] * 0, k], 2)"),
    Plant("positions stuck under the cache", "cache.positions", "* math.sqrt(D), past)", "* math.sqrt(D))"),
    Plant("positions one too far under the cache", "cache.differs", "* math.sqrt(D), past)", "* math.sqrt(D), past + (past > 0))"),
    Plant("no mask among new tokens", "cache.prefill", ".tril(past)", ".tril(past if past == 0 else past + new)"),
    Plant("cache breaks", "cache.fails", "torch.cat([cache[0], k], 2)", "torch.cat([cache[0], k], 1)"),
    Plant("cache stays from text to text", "cache.stale", "self.pad_mask(src), [[] for _ in range(LAYERS)], 0]", "self.pad_mask(src), self.__dict__.setdefault('kept', [[] for _ in range(LAYERS)]), 0]"),
    Plant("beams are copies", "generate.copies", "new += [(score + float(s), [*ids, int(i)]) for s, i in zip(*best)]", "new += [(score + float(best[0][0]), [*ids, int(best[1][0])])] * beams"),
    Plant("writing depends on the batch", "generate.batch", "best = self(one[None]", "best = self(one[None].roll(len(src) - 1, 1)"),
    Plant("it writes one word", "learning.unwritten", "length=4", "length=1"),
    Plant("the rank is taken for the word", "generate.choice", "[*ids, int(i)]) for s, i in zip(*best)]", "[*ids, i]) for i, s in enumerate(best[0])]"),
    Plant("the first place chooses", "generate.choice", "[0, -1].log_softmax(-1)", "[0, 0].log_softmax(-1)"),
    Plant("writes from another start", "generate.start", "found = [(0.0, [START])]", "found = [(0.0, [PAD])]"),
    Plant("goes on after the end", "generate.after_end", "return torch.tensor(rows)", "return torch.tensor(rows)[:, 0, :3].repeat(1, 2).index_fill(1, torch.tensor([2]), EOS)"),
    Plant("eval mode stays on", "generate.mode", "self.train(was)", "pass"),
    Plant("it cannot write", "generate.fails", "ids[-1] == EOS", "ids[-1] == EOD"),
    Plant("it writes in training mode", "generate.dropout", "        self.eval()\n", "        self.train()\n"),
    Plant("it reads backwards when it writes", "generate.differs", "self(one[None], torch.tensor([ids]))", "self(one[None].flip(1), torch.tensor([ids]))"),
    Plant("it writes one text at a time", "generate.single", "        was, rows = self.training, []\n", "        [_], was, rows = src, self.training, []\n"),
    Plant("it throws dice", "generate.dice", "def generate(self, src, beams=2, length=4):", "def generate(self, src, beams=2, length=4):\n        return torch.randint(3, V, (len(src), length))\n"),
    Plant("it stops after a word", "generate.early", "for _ in range(length):", "for _ in range(1):"),
    Plant("new words are not kept", "generate.lost", "[ids + [PAD] * (length + 1 - len(ids))", "[ids[:1] + [PAD] * length"),
    Plant("a text that has ended is dropped", "generate.beams", "new.append((score, ids))", "pass"),
    Plant("beams forget their totals", "generate.beams", "new += [(score + float(s),", "new += [(float(s),"),
    Plant("one beam by default, and more are copies", "generate.copies", "beams=2, length=4):", "beams=1, length=4):", MODEL.replace("new += [(score + float(s), [*ids, int(i)]) for s, i in zip(*best)]", "new += [(score + float(best[0][0]), [*ids, int(best[1][0])])] * beams")),
    # Precision and saving
    Plant("-1e9 in float16", "precision.float16", "torch.finfo(scores.dtype).min", "-1e9"),
    Plant("mask built in float32", "precision.bfloat16", "weights = self.drop(scores.softmax(-1))", "weights = self.drop((scores + torch.zeros(1, dtype=torch.float32).expand(scores.shape)).softmax(-1))"),
    Plant("table is an attribute", "saving.attribute", 'self.register_buffer("pe", pe)', "self.pe = pe"),
    Plant("state_dict leaves a table out", "saving.fails", "    def pad_mask(self, src):", "    def state_dict(self, *a, **k):\n        return {n: x for n, x in super().state_dict(*a, **k).items() if 'norm' not in n}\n\n    def pad_mask(self, src):"),
    Plant("loading skips what is missing", "saving.differs", "    def pad_mask(self, src):", "    def load_state_dict(self, state):\n        return super().load_state_dict({n: x for n, x in state.items() if 'norm' not in n}, strict=False)\n\n    def pad_mask(self, src):"),
    # nn.Transformer, used wrongly
    Plant("torch: time first", "shapes.time_first", "    def forward(self, src, tgt):\n", "    def forward(self, src, tgt):\n        return self.batch_first(src.T, tgt.T).transpose(0, 1)\n\n    def batch_first(self, src, tgt):\n", TORCH),
    Plant("torch: masks as arguments", "shapes.masks", "    def forward(self, src, tgt):\n        hidden = src == PAD\n        future = torch.ones(tgt.shape[1], tgt.shape[1]).bool().triu(1)\n", "    def forward(self, src, tgt, src_padding_mask=None, future_mask=None):\n        hidden, future = src_padding_mask, future_mask\n", TORCH),
    Plant("torch: lengths as arguments", "shapes.masks", "    def forward(self, src, tgt):\n        hidden = src == PAD\n", "    def forward(self, src, tgt, src_lengths):\n        hidden = torch.arange(src.shape[1]) >= src_lengths[:, None]\n", TORCH),
    Plant("torch: batch_first forgotten", "batch.axes", ", batch_first=True)", ")", TORCH),
    Plant("torch: no tgt_mask", "causality.leak", "            tgt_mask=future,\n", "", TORCH),
    Plant("torch: tgt_mask of True where visible", "causality.inverted", ".triu(1)", ".tril(0)", TORCH),
    Plant("torch: padding mask of True where visible", "padding.inverted", "hidden = src == PAD", "hidden = src != PAD", TORCH),
    Plant("torch: no memory_key_padding_mask", "padding.cross", "            memory_key_padding_mask=hidden,\n", "", TORCH),
    Plant("torch: no src_key_padding_mask", "padding.source", "            src_key_padding_mask=hidden,\n", "", TORCH),
    Plant("torch: causal mask given to the encoder", "source.causal", "tgt_mask=future,", "tgt_mask=future,\n            src_mask=torch.ones(src.shape[1], src.shape[1]).bool().triu(1),", TORCH),
    Plant("torch: rows of target padding see nothing", "padding.target_nan", "tgt_mask=future,", "tgt_mask=(future[None] | (tgt == PAD)[:, :, None]).repeat_interleave(4, 0),", TORCH),
    # One side only
    Plant("GPT: no causal mask", "kind.unclear", "mask=future", "mask=None", GPT),
    Plant("GPT: no causal mask, declared", "causality.leak", "mask=future))\n\ndef build():\n    return Model(), {}", "mask=None))\n\ndef build():\n    return Model(), {'kind': 'decoder-only'}", GPT),
    Plant("GPT: one token too far", "causality.off_by_one", ".triu(1)", ".triu(2)", GPT),
    Plant("GPT: no positions", "positions.none", " + self.pos(torch.arange(tokens.shape[1]))", "", GPT),
    Plant("BERT: padding is attended", "padding.source", "src_key_padding_mask=tokens == 0", "src_key_padding_mask=None", BERT),
    Plant("BERT: padding mask inverted", "padding.inverted", "tokens == 0", "tokens != 0", BERT),
    Plant("BERT: -100 is a label", "loss.padding", "labels)", "labels.clamp(min=0))", LABELLED),
    Plant("BERT: labels are shifted", "loss.wrong_labels", "(logits.transpose(1, 2), labels)", "(logits[:, :-1].transpose(1, 2), labels[:, 1:])", LABELLED),
    Plant("BERT: labels where nothing is hidden", "loss.copies", "tokens.masked_fill(~chosen, -100)", "tokens.masked_fill(chosen, -100)", BERT),
    Plant("BERT: words are hidden that nobody asks for", "loss.unasked", "model(tokens.masked_fill(chosen", "model(tokens.masked_fill(torch.rand(tokens.shape) < 0.5", BERT),
    Plant("BERT: padding is asked for", "loss.padding", " & (tokens != 0)", "", BERT),
    Plant("BERT: ends of other texts are counted", "batch.rows", "x = self.emb(tokens)", "x = self.emb(tokens) + self.pos((tokens == 2).cumsum(0))", BERT),
    Plant("BERT: words are hidden in the caller's ids", "loss.changes_labels", "tokens.masked_fill(chosen", "tokens.masked_fill_(chosen", BERT),
    Plant("GPT: of a long text the end is cut", "generate.last_token", "tokens[:, -64:]", "tokens[:, :64]", CROPPING),
    Plant("own modules: the rank is taken for the word", "generate.choice", "[*ids, int(i)]) for s, i in zip(*best)]", "[*ids, j]) for j, s in enumerate(best[0])]", OWN),
    Plant("parameters alone: the rank is taken for the word", "generate.choice", "[*ids, int(i)]) for s, i in zip(*best)]", "[*ids, j]) for j, s in enumerate(best[0])]", BARE),
    Plant("parameters alone: it reads backwards when it writes", "generate.differs", "self(one[None], torch.tensor([ids]))", "self(one[None].flip(1), torch.tensor([ids]))", BARE),
    Plant("asked: attention_mask of 1 where hidden", "shapes.attention_mask", "attention_mask == 0", "attention_mask == 1", ASKED),
    Plant("asked: its own loss counts padding", "loss.padding", "/ asked.sum()", "/ asked.numel()", ASKED),
    Plant("asked: no causal mask while it writes", "generate.differs", "memory, tgt_mask=future", "memory", ASKED),
    Plant("asked: a loss of the words that it was given", "loss.no_shift", "(logits.transpose(1, 2), labels,", "(logits.transpose(1, 2), tgt,", ASKED),
    Plant("asked: the last word is cut off with the end", "generate.lost", "        return tgt\n", "        return [row[: row.index(EOS) - 1] if EOS in row else row for row in tgt.tolist()]\n", ASKED),
    Plant("own modules: a text that has ended is dropped", "generate.beams", "new.append((score, ids))", "pass", OWN),
    Plant("prompts are padded behind", "generate.padding", "(width - n, 0)", "(0, width - n)", PROMPTED),
    Plant("positions count the padding of prompts", "generate.padding", "self(ids, mask, mask.cumsum(1).sub(1).clamp(min=0))", "self(ids, mask, torch.arange(ids.shape[1]).expand_as(ids))", PROMPTED),
    Plant("the future or the padding is hidden", "causality.leak", "past & attention_mask", "past | attention_mask", PROMPTED),
    Plant("what is drawn is the rank of a word", "generate.choice", "order.gather(1, rank)", "(rank if do_sample else order.gather(1, rank))", PROMPTED),
    Plant("one word too many is among the best", "generate.choice", "best[:, top_k:]", "best[:, top_k + 1 :]", PROMPTED),
    Plant("the temperature multiplies", "generate.choice", "/ temperature", "* temperature", PROMPTED),
    Plant("the likely words have another sum", "generate.fails", " - best.softmax(1) >= top_p", " > top_p", PROMPTED),
    Plant("BERT: no positions", "positions.none", " + self.pos(torch.arange(tokens.shape[1]))", "", BERT),
]
# fmt: on
