"""Seq2seq summarizer on nn.MultiheadAttention: batch first, post-norm, one vocabulary with tied weights."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, PAD, BOS, EOS = 40, 0, 1, 2


def feed_forward(dim, hidden, dropout):
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, hidden, dropout):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ff = feed_forward(dim, hidden, dropout)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad_mask):
        attended, _ = self.attn(x, x, x, key_padding_mask=pad_mask, need_weights=False)
        x = self.norm1(x + self.drop(attended))
        return self.norm2(x + self.drop(self.ff(x)))


class DecoderBlock(nn.Module):
    def __init__(self, dim, heads, hidden, dropout):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ff = feed_forward(dim, hidden, dropout)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.norm3 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, y, memory, future, tgt_pad, src_pad):
        own, _ = self.self_attn(y, y, y, attn_mask=future, key_padding_mask=tgt_pad, need_weights=False)
        y = self.norm1(y + self.drop(own))
        read, _ = self.cross_attn(y, memory, memory, key_padding_mask=src_pad, need_weights=False)
        y = self.norm2(y + self.drop(read))
        return self.norm3(y + self.drop(self.ff(y)))


class Summarizer(nn.Module):
    def __init__(self, vocab=VOCAB, dim=32, heads=4, layers=2, hidden=64, dropout=0.1, max_len=128):
        super().__init__()
        self.scale = math.sqrt(dim)
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, dim)
        self.encoder = nn.ModuleList([EncoderBlock(dim, heads, hidden, dropout) for _ in range(layers)])
        self.decoder = nn.ModuleList([DecoderBlock(dim, heads, hidden, dropout) for _ in range(layers)])
        self.out = nn.Linear(dim, vocab, bias=False)
        self.drop = nn.Dropout(dropout)
        nn.init.normal_(self.embed.weight, std=dim**-0.5)
        self.out.weight = self.embed.weight

    def embedded(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        return self.drop(self.embed(ids) * self.scale + self.pos(places))

    def encode(self, src):
        src_pad = src == PAD
        x = self.embedded(src)
        for block in self.encoder:
            x = block(x, src_pad)
        return x, src_pad

    def decode(self, tgt, memory, src_pad):
        length = tgt.size(1)
        future = torch.ones(length, length, dtype=torch.bool, device=tgt.device).triu(1)
        y = self.embedded(tgt)
        for block in self.decoder:
            y = block(y, memory, future, tgt == PAD, src_pad)
        return self.out(y)

    def forward(self, src, tgt):
        memory, src_pad = self.encode(src)
        return self.decode(tgt, memory, src_pad)


def compute_loss(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1), ignore_index=PAD)


@torch.no_grad()
def greedy(model, src, max_len=24):
    training = model.training
    model.eval()
    memory, src_pad = model.encode(src)
    written = torch.full((src.size(0), 1), BOS, device=src.device)
    done = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
    for _ in range(max_len):
        token = model.decode(written, memory, src_pad)[:, -1].argmax(-1)
        token = token.masked_fill(done, PAD)
        written = torch.cat([written, token[:, None]], dim=1)
        done = done | (token == EOS)
        if done.all():
            break
    model.train(training)
    return written[:, 1:]


def build():
    model = Summarizer()
    return model, {"loss": compute_loss, "generate": lambda src: greedy(model, src)}
