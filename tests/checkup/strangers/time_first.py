"""Translation with torch.nn.Transformer in its default layout, (length, batch), and float masks that are added."""

import math

import torch
from torch import nn

V, PAD, SOS, EOS = 40, 0, 1, 2
NEG_INF = float("-inf")


def sinusoids(max_len, d_model):
    pe = torch.zeros(max_len, 1, d_model)
    position = torch.arange(max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    pe[:, 0, 0::2] = torch.sin(position * div_term)
    pe[:, 0, 1::2] = torch.cos(position * div_term)
    return pe


def additive(hidden):
    """0 where a key may be read, -inf where it may not."""
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, NEG_INF)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=200):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer("pe", sinusoids(max_len, d_model))

    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model, nhead, nlayers, d_hid, dropout=0.1):
        super().__init__()
        self.d_model, self.nhead = d_model, nhead
        vectors = torch.randn(ntoken, d_model) * d_model**-0.5  # or those of word2vec
        self.src_embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        self.tgt_embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        self.positional = PositionalEncoding(d_model, dropout)
        self.transformer = nn.Transformer(d_model, nhead, nlayers, nlayers, d_hid, dropout)
        self.generator = nn.Linear(d_model, ntoken)
        self.log_softmax = nn.LogSoftmax(dim=-1)
        self.init_weights()

    def init_weights(self):
        for p in self.transformer.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def encode(self, src):
        length = src.size(0)
        padding = additive(src == PAD).t()
        mask = padding[:, None, :].expand(-1, length, -1)
        mask = mask.repeat_interleave(self.nhead, dim=0)  # one mask per text and head
        x = self.positional(self.src_embedding(src) * math.sqrt(self.d_model))
        return self.transformer.encoder(x, mask=mask), padding

    def decode(self, tgt, memory, memory_padding):
        length = tgt.size(0)
        look_ahead = additive(torch.ones(length, length, device=tgt.device).triu(1).bool())
        y = self.positional(self.tgt_embedding(tgt) * math.sqrt(self.d_model))
        y = self.transformer.decoder(
            y,
            memory,
            tgt_mask=look_ahead,
            tgt_key_padding_mask=additive(tgt == PAD).t(),
            memory_key_padding_mask=memory_padding,
        )
        return self.log_softmax(self.generator(y))

    def forward(self, src, tgt):
        memory, padding = self.encode(src)
        return self.decode(tgt, memory, padding)


class BatchFirst(nn.Module):
    """The data loader has the batch first, the network the time."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, src, tgt):
        log_probs = self.net(src.t(), tgt.t())
        return log_probs.transpose(0, 1)

    @torch.no_grad()
    def translate(self, src, max_len=24):
        self.eval()
        src = src.t()
        memory, padding = self.net.encode(src)
        ys = torch.full((1, src.size(1)), SOS, dtype=torch.long, device=src.device)
        for _ in range(max_len):
            log_probs = self.net.decode(ys, memory, padding)
            best = log_probs[-1].argmax(dim=-1)
            ys = torch.cat([ys, best.unsqueeze(0)], dim=0)
            if (ys == EOS).any(dim=0).all():
                break
        ended = (ys == EOS).cumsum(0) - (ys == EOS).long() > 0
        return ys.masked_fill(ended, PAD)[1:].t()


criterion = nn.NLLLoss(ignore_index=PAD)


def loss_fn(log_probs, target):
    return criterion(log_probs.reshape(-1, log_probs.size(-1)), target.reshape(-1))


def build():
    model = BatchFirst(TransformerModel(V, 32, 4, 2, 64))
    return model, {"loss": loss_fn, "generate": model.translate}
