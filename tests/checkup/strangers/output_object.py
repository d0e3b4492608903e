"""A small T5 of our own: an output object, labels of -100, relative position bias, and a cache in generate."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass
class MiniT5Config:
    vocab_size: int = 40
    pad_token_id: int = 0
    decoder_start_token_id: int = 1
    eos_token_id: int = 2
    d_model: int = 32
    d_ff: int = 64
    num_heads: int = 4
    num_layers: int = 2
    max_distance: int = 16
    dropout_rate: float = 0.1


@dataclass
class Seq2SeqOutput:
    logits: Tensor
    loss: Tensor | None = None
    past_key_values: list | None = None
    encoder_last_hidden_state: Tensor | None = None


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * x * torch.rsqrt(variance + self.eps)


class T5Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(c.d_model, c.d_model, bias=False) for _ in range(4))

    def forward(self, x, states, bias, past=None):
        q, k, v = (
            layer(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, t in ((self.q, x), (self.k, states), (self.v, states))
        )
        if past is not None:
            if "k" in past:
                k, v = torch.cat([past["k"], k], dim=2), torch.cat([past["v"], v], dim=2)
            past["k"], past["v"] = k, v
        scores = q @ k.transpose(-1, -2) + bias
        weights = scores.float().softmax(-1).type_as(scores)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class T5Block(nn.Module):
    def __init__(self, c, is_decoder):
        super().__init__()
        self.self_attention = T5Attention(c)
        self.cross_attention = T5Attention(c) if is_decoder else None
        self.wi, self.wo = nn.Linear(c.d_model, c.d_ff, bias=False), nn.Linear(c.d_ff, c.d_model, bias=False)
        self.norms = nn.ModuleList([RMSNorm(c.d_model) for _ in range(3 if is_decoder else 2)])
        self.dropout = nn.Dropout(c.dropout_rate)

    def forward(self, x, bias, states=None, states_bias=None, past=None):
        normed = self.norms[0](x)
        x = x + self.dropout(self.self_attention(normed, normed, bias, past))
        if self.cross_attention is not None:
            x = x + self.dropout(self.cross_attention(self.norms[1](x), states, states_bias))
        return x + self.dropout(self.wo(self.wi(self.norms[-1](x)).relu()))


class T5Stack(nn.Module):
    def __init__(self, c, is_decoder):
        super().__init__()
        self.is_decoder, self.limit = is_decoder, c.max_distance
        self.relative_bias = nn.Embedding(2 * c.max_distance + 1, c.num_heads)
        self.block = nn.ModuleList([T5Block(c, is_decoder) for _ in range(c.num_layers)])
        self.final_norm = RMSNorm(c.d_model)
        self.dropout = nn.Dropout(c.dropout_rate)

    def position_bias(self, begin, end, device):
        queries, keys = torch.arange(begin, end, device=device), torch.arange(end, device=device)
        distance = keys[None, :] - queries[:, None]
        bias = self.relative_bias(distance.clamp(-self.limit, self.limit) + self.limit).permute(2, 0, 1)
        return bias.masked_fill(distance > 0, -1e9) if self.is_decoder else bias

    def forward(self, x, mask=None, states=None, states_mask=None, past=None):
        begin = past[0]["k"].size(2) if past and past[0] else 0
        bias = self.position_bias(begin, begin + x.size(1), x.device)[None]
        if mask is not None:
            bias = bias + (mask[:, None, None, :] == 0) * -1e9
        states_bias = None if states is None else (states_mask[:, None, None, :] == 0) * -1e9
        x = self.dropout(x)
        for i, block in enumerate(self.block):
            x = block(x, bias, states, states_bias, past[i] if past is not None else None)
        return self.dropout(self.final_norm(x))


class MiniT5ForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder, self.decoder = T5Stack(config, False), T5Stack(config, True)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.lm_head.weight = self.shared.weight

    def shift_right(self, labels):
        shifted = nn.functional.pad(labels[:, :-1], (1, 0), value=self.config.decoder_start_token_id)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def forward(self, input_ids=None, decoder_input_ids=None, attention_mask=None, labels=None, past=None, states=None):
        if attention_mask is None:
            attention_mask = (input_ids != self.config.pad_token_id).long()
        if states is None:
            states = self.encoder(self.shared(input_ids), attention_mask)
        if decoder_input_ids is None:
            decoder_input_ids = self.shift_right(labels)
        x = self.decoder(self.shared(decoder_input_ids), None, states, attention_mask, past)
        logits = self.lm_head(x * self.config.d_model**-0.5)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        return Seq2SeqOutput(logits, loss, past, states)

    @torch.no_grad()
    def generate(self, input_ids, attention_mask=None, max_new_tokens=24):
        self.eval()
        if attention_mask is None:
            attention_mask = input_ids.ne(self.config.pad_token_id).long()
        states = self.encoder(self.shared(input_ids), attention_mask)
        past = [{} for _ in self.decoder.block]
        tokens = input_ids.new_full((len(input_ids), 1), self.config.decoder_start_token_id)
        unfinished = torch.ones_like(tokens)
        for _ in range(max_new_tokens):
            out = self(None, attention_mask=attention_mask, decoder_input_ids=tokens[:, -1:], past=past, states=states)
            token = out.logits[:, -1:].argmax(-1)
            token = token * unfinished + self.config.pad_token_id * (1 - unfinished)
            tokens = torch.cat([tokens, token], dim=1)
            unfinished = unfinished * (token != self.config.eos_token_id).long()
            if unfinished.max() == 0:
                break
        return tokens[:, 1:]


def build():
    model = MiniT5ForConditionalGeneration(MiniT5Config())
    return model, {"generate": model.generate}
