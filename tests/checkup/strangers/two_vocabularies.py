"""German to English: each language has its own vocabulary and padding id. Attention by hand, beam search."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SRC_WORDS, SRC_PAD = 30, 0
TRG_WORDS, TRG_UNK, TRG_PAD, TRG_BOS, TRG_EOS = 40, 0, 1, 2, 3


class MultiHead(nn.Module):
    def __init__(self, hid_dim, n_heads, p):
        super().__init__()
        self.n_heads, self.head_dim, self.p = n_heads, hid_dim // n_heads, p
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)

    def split(self, x):
        bsz, length, _ = x.shape
        x = x.view(bsz, length, self.n_heads, self.head_dim).transpose(1, 2)
        return x.reshape(bsz * self.n_heads, length, self.head_dim)

    def forward(self, query, context, mask):
        bsz, length, hid_dim = query.shape
        q, k, v = self.split(self.fc_q(query)), self.split(self.fc_k(context)), self.split(self.fc_v(context))
        energy = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)
        mask = mask.expand(bsz, length, -1).repeat_interleave(self.n_heads, dim=0)
        energy = energy.masked_fill(~mask, -1e10)
        attention = F.dropout(torch.softmax(energy, dim=-1), self.p, self.training)
        x = torch.bmm(attention, v).view(bsz, self.n_heads, length, self.head_dim)
        x = x.transpose(1, 2).contiguous().view(bsz, length, hid_dim)
        return self.fc_o(x)


class Block(nn.Module):
    def __init__(self, hid_dim, n_heads, pf_dim, p, decodes=False):
        super().__init__()
        self.p = p
        self.self_attention = MultiHead(hid_dim, n_heads, p)
        self.self_norm = nn.LayerNorm(hid_dim)
        if decodes:
            self.encoder_attention = MultiHead(hid_dim, n_heads, p)
            self.encoder_norm = nn.LayerNorm(hid_dim)
        self.fc_1, self.fc_2 = nn.Linear(hid_dim, pf_dim), nn.Linear(pf_dim, hid_dim)
        self.ff_norm = nn.LayerNorm(hid_dim)

    def forward(self, x, mask, enc_src=None, src_mask=None):
        x = self.self_norm(x + F.dropout(self.self_attention(x, x, mask), self.p, self.training))
        if enc_src is not None:
            read = self.encoder_attention(x, enc_src, src_mask)
            x = self.encoder_norm(x + F.dropout(read, self.p, self.training))
        inner = self.fc_2(F.gelu(self.fc_1(x)))
        return self.ff_norm(x + F.dropout(inner, self.p, self.training))


class Seq2Seq(nn.Module):
    def __init__(self, hid_dim=32, n_layers=2, n_heads=4, pf_dim=64, p=0.1, max_length=100):
        super().__init__()
        self.src_tok = nn.Embedding(SRC_WORDS, hid_dim, padding_idx=SRC_PAD)
        self.trg_tok = nn.Embedding(TRG_WORDS, hid_dim, padding_idx=TRG_PAD)
        self.src_pos = nn.Embedding(max_length, hid_dim)
        self.trg_pos = nn.Embedding(max_length, hid_dim)
        self.enc = nn.ModuleList([Block(hid_dim, n_heads, pf_dim, p) for _ in range(n_layers)])
        self.dec = nn.ModuleList([Block(hid_dim, n_heads, pf_dim, p, decodes=True) for _ in range(n_layers)])
        self.fc_out = nn.Linear(hid_dim, TRG_WORDS)

    def make_src_mask(self, src):
        return (src != SRC_PAD).unsqueeze(1)

    def make_trg_mask(self, trg):
        steps = torch.arange(trg.size(1), device=trg.device)
        return (trg != TRG_PAD).unsqueeze(1) & (steps[None, :] <= steps[:, None])

    def encode(self, src, src_mask):
        pos = torch.arange(src.size(1), device=src.device).unsqueeze(0)
        x = self.src_tok(src) + self.src_pos(pos)
        for block in self.enc:
            x = block(x, src_mask)
        return x

    def decode(self, trg, enc_src, trg_mask, src_mask):
        pos = torch.arange(trg.size(1), device=trg.device).unsqueeze(0)
        x = self.trg_tok(trg) + self.trg_pos(pos)
        for block in self.dec:
            x = block(x, trg_mask, enc_src, src_mask)
        return self.fc_out(x)

    def forward(self, src, trg, src_mask=None, trg_mask=None):
        src_mask = self.make_src_mask(src) if src_mask is None else src_mask
        trg_mask = self.make_trg_mask(trg) if trg_mask is None else trg_mask
        enc_src = self.encode(src, src_mask)
        return self.decode(trg, enc_src, trg_mask, src_mask)


class TokenLoss:
    """The sum over all words of the target, and how many there are."""

    def __call__(self, logits, labels):
        logits, labels = logits.reshape(-1, logits.size(-1)), labels.reshape(-1)
        total = F.cross_entropy(logits, labels, ignore_index=TRG_PAD, reduction="sum")
        return total, (labels != TRG_PAD).sum()


@torch.no_grad()
def beam_search(model, src, beams=3, max_len=24):
    model.eval()
    bsz = src.size(0)
    src_mask = model.make_src_mask(src)
    enc_src = model.encode(src, src_mask).repeat_interleave(beams, dim=0)
    src_mask = src_mask.repeat_interleave(beams, dim=0)
    trg = torch.full((bsz * beams, 1), TRG_BOS, device=src.device)
    score = torch.zeros(bsz, beams, device=src.device)
    score[:, 1:] = -1e9  # all beams begin equal, hence only the first counts
    first = torch.arange(bsz, device=src.device).unsqueeze(1) * beams
    for _ in range(max_len):
        logp = model.decode(trg, enc_src, model.make_trg_mask(trg), src_mask)[:, -1].log_softmax(-1)
        logp[:, [TRG_PAD, TRG_BOS]] = float("-inf")
        over = (trg == TRG_EOS).any(1)
        logp[over] = float("-inf")
        logp[over, TRG_PAD] = 0
        score, best = (score.unsqueeze(2) + logp.view(bsz, beams, -1)).flatten(1).topk(beams, dim=1)
        rows, words = (first + best // TRG_WORDS).view(-1), (best % TRG_WORDS).view(-1, 1)
        trg = torch.cat([trg[rows], words], dim=1)
        if (trg == TRG_EOS).any(1).all():
            break
    return trg.view(bsz, beams, -1)[:, 0, 1:]


def build():
    model = Seq2Seq()
    return model, {"loss": TokenLoss(), "generate": lambda src: beam_search(model, src)}
