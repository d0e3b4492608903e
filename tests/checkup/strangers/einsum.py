"""An annotated Transformer with einsum: pre-norm, and masks in which 1 means that a key may be read."""

import copy

import torch
import torch.nn as nn
from torch import einsum

N_VOCAB, BLANK, START, END = 40, 0, 1, 2


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class Sublayer(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, fn):
        return x + self.dropout(fn(self.norm(x)))


class Attention(nn.Module):
    def __init__(self, h, d_model, dropout):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.w_q, self.w_k, self.w_v, self.w_o = clones(nn.Linear(d_model, d_model), 4)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask):
        b, d = query.size(0), query.size(2)
        q = self.w_q(query).view(b, -1, self.h, self.d_k)
        k = self.w_k(key).view(b, -1, self.h, self.d_k)
        v = self.w_v(value).view(b, -1, self.h, self.d_k)
        scores = einsum("bqhd,bkhd->bhqk", q, k) / self.d_k**0.5
        scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = self.dropout(scores.softmax(dim=-1))
        x = einsum("bhqk,bkhd->bqhd", p_attn, v)
        return self.w_o(x.reshape(b, -1, d))


class Layer(nn.Module):
    """Of the encoder, or with `cross` of the decoder."""

    def __init__(self, d_model, h, d_ff, dropout, cross):
        super().__init__()
        self.self_attn = Attention(h, d_model, dropout)
        self.src_attn = Attention(h, d_model, dropout) if cross else None
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.sublayer = clones(Sublayer(d_model, dropout), 3 if cross else 2)

    def forward(self, x, mask, memory=None, src_mask=None):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        if self.src_attn is not None:
            x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        return self.sublayer[-1](x, self.ff)


class Stack(nn.Module):
    def __init__(self, layer, n, size):
        super().__init__()
        self.layers = clones(layer, n)
        self.norm = LayerNorm(size)

    def forward(self, x, *args):
        for layer in self.layers:
            x = layer(x, *args)
        return self.norm(x)


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab, dropout, max_len=256):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.dropout = nn.Dropout(dropout)
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def forward(self, ids):
        return self.dropout(self.lut(ids) * self.lut.embedding_dim**0.5 + self.pe[: ids.size(1)])


class EncoderDecoder(nn.Module):
    def __init__(self, vocab=N_VOCAB, n=2, d_model=32, d_ff=64, h=4, dropout=0.1):
        super().__init__()
        self.encoder = Stack(Layer(d_model, h, d_ff, dropout, False), n, d_model)
        self.decoder = Stack(Layer(d_model, h, d_ff, dropout, True), n, d_model)
        self.src_embed = Embeddings(d_model, vocab, dropout)
        self.tgt_embed = Embeddings(d_model, vocab, dropout)
        self.proj = nn.Linear(d_model, vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def encode(self, src):
        src_mask = (src != BLANK)[:, None, None, :]
        return self.encoder(self.src_embed(src), src_mask), src_mask

    def decode(self, memory, src_mask, tgt):
        n = tgt.size(1)
        subsequent = torch.ones(n, n, device=tgt.device).tril().bool()
        tgt_mask = (tgt != BLANK)[:, None, None, :] & subsequent
        return self.decoder(self.tgt_embed(tgt), tgt_mask, memory, src_mask)

    def forward(self, src, tgt):
        memory, src_mask = self.encode(src)
        return self.proj(self.decode(memory, src_mask, tgt))


loss_function = nn.CrossEntropyLoss(ignore_index=BLANK, label_smoothing=0.0)


def loss(x, y):
    return loss_function(x.contiguous().view(-1, N_VOCAB), y.contiguous().view(-1))


@torch.no_grad()
def greedy_decode(model, src, max_len=24):
    model.eval()
    memory, src_mask = model.encode(src)
    ys = torch.full((len(src), 1), START).type_as(src)
    for _ in range(max_len):
        prob = model.proj(model.decode(memory, src_mask, ys)[:, -1])
        next_word = prob.argmax(dim=1, keepdim=True)
        over = (ys == END).any(1, keepdim=True)
        ys = torch.cat([ys, next_word.masked_fill(over, BLANK)], dim=1)
    return ys[:, 1:]


def build():
    model = EncoderDecoder()
    return model, {"loss": loss, "generate": lambda src: greedy_decode(model, src)}
