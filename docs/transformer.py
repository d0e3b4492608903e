"""A Transformer in one file: the model, ten pairs to learn, training, greedy decoding.

Copy it, run it, change it: it needs only torch, and it runs in a few seconds.
Axes: B batch, H heads, T target or query positions, S source or key positions,
D width of the model, Dh width of a head, V vocabulary. A mask is True where a query
may attend. Source: Vaswani et al. 2017; numbers in docstrings are the paper's sections.
"""

import math
from itertools import takewhile

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

D_MODEL, HEADS, D_FF, LAYERS, DROPOUT = 64, 4, 256, 2, 0.1
STEPS, WARMUP_STEPS, PEAK_RATE = 100, 10, 3e-3
PAD, START, EOS = range(3)
TEXTS = """
heavy rain flooded the old bridge on monday and many drivers had to turn back
flood closes old bridge
the city library will stay open until midnight in june so that students can study \
for their exams
library extends hours for students
a young painter from lisbon sold her first picture for more than a million dollars
lisbon artist makes record sale
after ten years of work engineers finished the longest tunnel under the northern \
mountains
longest mountain tunnel is complete
three bakers in the harbor district gave away bread to families who lost their homes
bakers help homeless families
scientists counted more wild bees this spring than in any year since the survey began
wild bee numbers reach new high
the national football team lost its final match in the last minute of extra time
late goal ends football dream
a power failure stopped all trains in the capital for two hours on friday morning
blackout halts trains in capital
the mayor promised to plant five thousand trees along the busy streets of the center
mayor plans greener city streets
farmers near the dry lake fear that this summer will bring the smallest harvest ever
drought threatens harvest near lake
""".strip().splitlines()
ARTICLES, SUMMARIES = TEXTS[::2], TEXTS[1::2]


def sinusoids(length):
    """A row of sines and cosines for each position: (length, D). 3.5."""
    speed = 10_000 ** (-torch.arange(0, D_MODEL, 2, dtype=torch.float64) / D_MODEL)
    angle = torch.arange(length)[:, None] * speed  # (length, D/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class MultiHeadAttention(nn.Module):
    """Query (B, T, D) attends to key and value (B, S, D) -> (B, T, D). 3.2."""

    def __init__(self):
        super().__init__()
        self.query_proj = nn.Linear(D_MODEL, D_MODEL)
        self.key_proj = nn.Linear(D_MODEL, D_MODEL)
        self.value_proj = nn.Linear(D_MODEL, D_MODEL)
        self.output_proj = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, query, key, value, mask):
        query = split(self.query_proj(query))  # (B, H, T, Dh)
        key, value = split(self.key_proj(key)), split(self.value_proj(value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)  # (B, H, T, S)
        return self.output_proj((weights @ value).transpose(1, 2).flatten(2))


def split(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, Dh)


class FeedForward(nn.Module):
    """The same two linear layers at each position: (B, T, D) -> (B, T, D). 3.3."""

    def __init__(self):
        super().__init__()
        self.expand, self.contract = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL)

    def forward(self, x):
        return self.contract(self.expand(x).relu())


class Residual(nn.Module):
    """The residual connection and its norm: x + change, normalized. 3.1, 5.4."""

    def __init__(self):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(D_MODEL), nn.Dropout(DROPOUT)

    def forward(self, x, change):
        return self.norm(x + self.dropout(change))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network: (B, S, D) -> (B, S, D). 3.1."""

    def __init__(self):
        super().__init__()
        self.self_attention = MultiHeadAttention()
        self.around_self_attention = Residual()
        self.feed_forward = FeedForward()
        self.around_feed_forward = Residual()

    def forward(self, x, mask):
        x = self.around_self_attention(x, self.self_attention(x, x, x, mask))
        return self.around_feed_forward(x, self.feed_forward(x))


class DecoderLayer(EncoderLayer):
    """The same, with cross-attention to the memory (B, S, D) in between. 3.1."""

    def __init__(self):
        super().__init__()
        self.cross_attention = MultiHeadAttention()
        self.around_cross_attention = Residual()

    def forward(self, x, mask, memory, memory_mask):
        x = self.around_self_attention(x, self.self_attention(x, x, x, mask))
        found = self.cross_attention(x, memory, memory, memory_mask)
        x = self.around_cross_attention(x, found)
        return self.around_feed_forward(x, self.feed_forward(x))


class Embedding(nn.Module):
    """Ids (B, T) -> vectors (B, T, D): row, times sqrt(D), plus position. 3.4."""

    def __init__(self, vocab_size):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, D_MODEL)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, ids):
        x = self.tokens(ids) * math.sqrt(D_MODEL)  # (B, T, D)
        return self.dropout(x + sinusoids(ids.shape[1]).to(x))


class Stack(nn.Module):
    """Encoder or decoder: ids (B, T), masks and memory -> (B, T, D). 3.1."""

    def __init__(self, layer, vocab_size):
        super().__init__()
        self.embedding = Embedding(vocab_size)
        self.layers = nn.ModuleList(layer() for _ in range(LAYERS))

    def forward(self, ids, *masks_and_memory):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, *masks_and_memory)
        return x


class Transformer(nn.Module):
    """Source (B, S) and target so far (B, T) -> logits of each next token (B, T, V)."""

    def __init__(self, vocab_size):
        super().__init__()
        self.encoder = Stack(EncoderLayer, vocab_size)
        self.decoder = Stack(DecoderLayer, vocab_size)
        self.output = nn.Linear(D_MODEL, vocab_size, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        table = self.encoder.embedding.tokens.weight  # one table with three uses: 3.4
        self.decoder.embedding.tokens.weight = self.output.weight = table
        nn.init.normal_(table, std=D_MODEL**-0.5)

    def encode(self, src):
        src_mask = (src != PAD)[:, None, None, :]  # (B, 1, 1, S)
        return self.encoder(src, src_mask), src_mask

    def decode(self, tgt, memory, src_mask):
        future = torch.ones(tgt.shape[1], tgt.shape[1], device=tgt.device).triu(1)
        return self.output(self.decoder(tgt, future == 0, memory, src_mask))

    def forward(self, src, tgt):
        return self.decode(tgt, *self.encode(src))


def train(model, src, rows):
    """Rows (B, T + 1), start to end token; the labels are the next tokens."""
    decoder_input, labels = rows[:, :-1], rows[:, 1:]  # (B, T) each
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    model.train()
    for step in range(1, STEPS + 1):
        up, down = step / WARMUP_STEPS, (STEPS + 1 - step) / (STEPS + 1 - WARMUP_STEPS)
        optimizer.param_groups[0]["lr"] = PEAK_RATE * min(up, down)
        logits = model(src, decoder_input).flatten(0, 1)  # (B T, V)
        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}: loss {loss:.2f}")


@torch.no_grad()
def greedy(model, src, longest=8):
    """The most probable next token, again and again: (B, S) -> (B, longest)."""
    model.eval()
    memory, src_mask = model.encode(src)
    tgt = torch.full((len(src), 1), START, device=src.device)
    for _ in range(longest):
        logits = model.decode(tgt, memory, src_mask)  # (B, T, V)
        tgt = torch.cat([tgt, logits[:, -1:].argmax(-1)], dim=1)  # (B, T + 1)
    return tgt[:, 1:]


def pad(rows):
    return pad_sequence([torch.tensor(row) for row in rows], True, PAD)


def main():
    words = ["[pad]", "[start]", "[eos]", *sorted(set(" ".join(TEXTS).split()))]
    ids = {word: i for i, word in enumerate(words)}
    src = pad([[ids[word] for word in text.split()] for text in ARTICLES])  # (B, S)
    rows = [[START, *(ids[word] for word in text.split()), EOS] for text in SUMMARIES]
    torch.manual_seed(0)
    model = Transformer(len(words))
    train(model, src, pad(rows))
    written = greedy(model, src).tolist()
    for row, summary in zip(written, SUMMARIES, strict=True):
        text = " ".join(words[i] for i in takewhile(lambda i: i != EOS, row))
        print("right:" if text == summary else "WRONG:", text)


if __name__ == "__main__":
    main()
