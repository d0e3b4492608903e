"""A summarizer that copies: torch's fused attention, probabilities of writing and of copying, label smoothing."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, PAD, SOS = 40, 0, 1


class Attention(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x, mem, keep=None, causal=False):
        q, (k, v) = self.q(x), self.kv(mem).chunk(2, -1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        mask, p = None if keep is None else keep[:, None, None, :], self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, dim, heads, p, crosses):
        super().__init__()
        self.attn, self.cross = Attention(dim, heads, p), None
        if crosses:
            self.cross, self.ln2 = Attention(dim, heads, p), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim), nn.Dropout(p))
        self.ln1, self.ln3 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, keep, mem=None):
        h = self.ln1(x)
        if self.cross is None:
            x = x + self.attn(h, h, keep)
        else:
            x = x + self.attn(h, h, causal=True)
            x = x + self.cross(self.ln2(x), mem, keep)
        return x + self.mlp(self.ln3(x))


class PointerTransformer(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, p=0.1, max_len=128):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(torch.randn(max_len, dim) * 0.1)
        self.encoder = nn.ModuleList(Layer(dim, heads, p, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(dim, heads, p, True) for _ in range(layers))
        self.ln_enc, self.ln_dec, self.gate = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Linear(dim, 1)
        self.vocab_head, self.point = nn.Linear(dim, VOCAB), nn.Linear(dim, dim)

    def encode(self, src):
        keep = src != PAD
        x = self.embed(src) + self.position[: src.size(1)]
        for layer in self.encoder:
            x = layer(x, keep)
        return self.ln_enc(x), keep

    def decode(self, tgt, src, mem, keep):
        x = self.embed(tgt) + self.position[: tgt.size(1)]
        for layer in self.decoder:
            x = layer(x, keep, mem)
        x = self.ln_dec(x)
        w = (self.point(x) @ mem.mT / mem.size(-1) ** 0.5).masked_fill(~keep[:, None], -1e4).softmax(-1)
        gate = torch.sigmoid(self.gate(x))
        words = gate * self.vocab_head(x).softmax(-1)
        index = src[:, None, :].expand(-1, tgt.size(1), -1)
        probs = words.scatter_add(-1, index, (1 - gate) * w)
        return torch.log(probs + 1e-7)

    def forward(self, src, tgt):
        return self.decode(tgt, src, *self.encode(src))


def smoothed_nll(logp, gold, eps=0.1):
    keep = gold != PAD
    nll, smooth = -logp.gather(-1, gold[..., None]).squeeze(-1), -logp.mean(-1)
    return ((1 - eps) * nll + eps * smooth)[keep].mean()


@torch.no_grad()
def summarize(model, src, limit=12):
    mode = model.training
    model.eval()
    mem, keep = model.encode(src)
    out = torch.full((len(src), 1), SOS)
    ended = torch.zeros(len(src), dtype=torch.bool)
    while out.size(1) < limit and not ended.all():
        best = model.decode(out, src, mem, keep)[:, -1].argmax(-1)
        best[ended] = PAD
        out = torch.cat((out, best[:, None]), 1)
        ended |= best == 2
    model.train(mode)
    return out[:, 1:]


def build():
    model = PointerTransformer()
    loss = lambda src, tgt: smoothed_nll(model(src, tgt[:, :-1]), tgt[:, 1:])  # noqa: E731
    return model, {"loss": loss, "generate": lambda src: summarize(model, src)}
