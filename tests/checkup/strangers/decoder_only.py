"""A small Llama: rotary positions, fewer heads of keys, RMSNorm, a gated network, and a cache in its writer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

V, PAD, BOS, EOS = 40, 0, 1, 2


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    def __init__(self, d, heads, groups, hidden):
        super().__init__()
        self.heads, self.groups, self.hd = heads, groups, d // heads
        self.wq, self.wo = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wk, self.wv = (nn.Linear(d, groups * self.hd, bias=False) for _ in range(2))
        self.w1, self.w3 = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.w2, self.n1, self.n2 = nn.Linear(hidden, d, bias=False), RMSNorm(d), RMSNorm(d)

    def attend(self, x, cos, sin, mask, cache):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.groups, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.groups, self.hd).transpose(1, 2)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache = (k, v)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        w = (q @ k.transpose(-1, -2)) * self.hd**-0.5
        w = w.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).reshape(B, T, -1)), cache

    def forward(self, x, cos, sin, mask, cache):
        a, cache = self.attend(self.n1(x), cos, sin, mask, cache)
        h = self.n2(x + a)
        return x + a + self.w2(F.silu(self.w1(h)) * self.w3(h)), cache


class Llama(nn.Module):
    def __init__(self, d=32, layers=2, heads=4, groups=2, max_len=512):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.blocks = nn.ModuleList([Block(d, heads, groups, 2 * d) for _ in range(layers)])
        self.norm, self.head = RMSNorm(d), nn.Linear(d, V, bias=False)
        angle = torch.outer(torch.arange(max_len), 1e4 ** -(torch.arange(0, d // heads, 2) / (d // heads))).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for table in (self.tok, self.head):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, idx, past=None):
        T, start = idx.size(1), 0 if past is None else past[0][0].size(2)
        cos, sin = self.cos[start : start + T], self.sin[start : start + T]
        mask = torch.ones(T, start + T, dtype=torch.bool, device=idx.device).tril(diagonal=start)
        x, new = self.tok(idx), []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, cos, sin, mask, None if past is None else past[i])
            new.append(cache)
        return self.head(self.norm(x)), new

    @torch.inference_mode()
    def generate(self, idx, max_new_tokens=20):
        done = torch.zeros(idx.size(0), dtype=torch.bool)
        past, step = None, idx
        for _ in range(max_new_tokens):
            logits, past = self(step, past)
            step = torch.where(done, PAD, logits[:, -1].argmax(-1))[:, None]
            idx = torch.cat([idx, step], 1)
            done = done | (step[:, 0] == EOS)
            if done.all():
                break
        return idx


def build():
    model = Llama()

    def loss(tokens):
        nll = F.cross_entropy(model(tokens[:, :-1])[0].transpose(1, 2), tokens[:, 1:], reduction="none")
        keep = (tokens[:, 1:] != PAD).float()
        return (nll * keep).sum() / keep.sum()

    return model, {"loss": loss, "generate": model.generate, "decode": lambda new, state: model(new, state)}
