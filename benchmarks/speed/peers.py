"""The implementations that are measured side by side, each in its own way and behind the same few methods.

Every peer has `loss(src, tgt)`, whose tgt begins with the start token and is padded with 0, `greedy(src, length)`, and,
where its library has one, `beam(src, length)`. Decoding always writes `length` tokens: nobody may stop early.
"""

from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import sinusoidal_table
from tfm_lib.writing import beam, decoding

PAD, START, EOS = 0, 1, 2


@dataclass(frozen=True)
class Shape:
    """The size of a model, and of the batches that it sees."""

    d_model: int
    layers: int
    d_ff: int
    vocab_size: int
    batch: int
    source: int
    target: int
    heads: int = 8
    max_length: int = 512


class Ours(nn.Module):
    """tfm_lib, with three tables of embeddings, as torch's."""

    sites = "sub-layer outputs, embeddings"

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.model = Transformer(
            TransformerConfig(
                vocab_size=shape.vocab_size,
                d_model=shape.d_model,
                num_heads=shape.heads,
                d_ff=shape.d_ff,
                num_encoder_layers=shape.layers,
                num_decoder_layers=shape.layers,
                max_length=shape.max_length,
                dropout=dropout,
                tied=False,
            )
        )
        with torch.no_grad():
            self.model.output.weight[EOS] = 0  # its logit is 0, and another's is larger: decoding never ends early

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        return cross_entropy(self.model(src, tgt[:, :-1]), tgt)

    def greedy(self, src: Tensor, length: int) -> Tensor:
        return decoding.greedy(self.model, src, length)

    def beam(self, src: Tensor, length: int) -> Tensor:
        return beam.beam_search(self.model, src, length, num_beams=4)


class TorchTransformer(nn.Module):
    """nn.Transformer between embeddings and an output layer; decoding encodes once and runs the prefix again."""

    sites = "sub-layer outputs, embeddings, attention weights, inside the feed-forward network"

    def __init__(self, shape: Shape, dropout: float, norm_first: bool = False) -> None:
        super().__init__()
        self.source = nn.Embedding(shape.vocab_size, shape.d_model)
        self.target = nn.Embedding(shape.vocab_size, shape.d_model)
        self.register_buffer("positions", sinusoidal_table(shape.max_length, shape.d_model))
        self.dropout = nn.Dropout(dropout)
        sizes = (shape.d_model, shape.heads, shape.layers, shape.layers, shape.d_ff, dropout)
        self.stacks = nn.Transformer(*sizes, batch_first=True, norm_first=norm_first)
        self.output = nn.Linear(shape.d_model, shape.vocab_size, bias=False)

    def embed(self, ids: Tensor, table: nn.Embedding) -> Tensor:
        return self.dropout(table(ids) * sqrt(table.embedding_dim) + self.positions[: ids.shape[1]])

    def encode(self, src: Tensor) -> Tensor:
        return self.stacks.encoder(self.embed(src, self.source), src_key_padding_mask=src == PAD)

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        inputs = self.embed(tgt, self.target)
        return self.stacks.decoder(
            inputs, memory, tgt_mask=causal, memory_key_padding_mask=src == PAD, tgt_is_causal=True
        )

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.output(self.decode(tgt, self.encode(src), src))

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        return cross_entropy(self(src, tgt[:, :-1]), tgt)

    @torch.inference_mode()
    def greedy(self, src: Tensor, length: int) -> Tensor:
        memory = self.encode(src)
        tgt = src.new_full((len(src), 1), START)
        for _ in range(length):
            logits = self.output(self.decode(tgt, memory, src)[:, -1])
            tgt = torch.cat([tgt, logits.argmax(-1, keepdim=True)], dim=1)
        return tgt[:, 1:]


class FromTransformers(nn.Module):
    """BART or Marian of the transformers library, whose embeddings and output share one table."""

    sites = "sub-layer outputs, embeddings"

    def __init__(self, kind: str, shape: Shape, dropout: float) -> None:
        super().__init__()
        import transformers

        sizes = {
            "vocab_size": shape.vocab_size,
            "d_model": shape.d_model,
            "max_position_embeddings": shape.max_length,
            "encoder_layers": shape.layers,
            "decoder_layers": shape.layers,
            "encoder_attention_heads": shape.heads,
            "decoder_attention_heads": shape.heads,
            "encoder_ffn_dim": shape.d_ff,
            "decoder_ffn_dim": shape.d_ff,
        }
        ids = {"pad_token_id": PAD, "bos_token_id": START, "decoder_start_token_id": START, "eos_token_id": EOS}
        rest = {
            "dropout": dropout,
            "attention_dropout": 0.0,
            "activation_function": "relu",
            "forced_eos_token_id": None,
        }
        config = getattr(transformers, f"{kind}Config")(**sizes, **ids, **rest)
        head = {"Bart": "BartForConditionalGeneration", "Marian": "MarianMTModel"}[kind]
        self.model = getattr(transformers, head)(config)
        self.model.generation_config.eos_token_id = None  # nobody may stop early

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        inputs = {"input_ids": src, "attention_mask": src != PAD, "decoder_input_ids": tgt[:, :-1]}
        return cross_entropy(self.model(**inputs, use_cache=False).logits, tgt)

    def _generate(self, src: Tensor, length: int, beams: int) -> Tensor:
        options = {"max_new_tokens": length, "do_sample": False, "num_beams": beams}
        return self.model.generate(src, attention_mask=src != PAD, **options)[:, 1:]

    def greedy(self, src: Tensor, length: int) -> Tensor:
        return self._generate(src, length, 1)

    def beam(self, src: Tensor, length: int) -> Tensor:
        return self._generate(src, length, 4)


class XTransformers(nn.Module):
    """XTransformer of the x-transformers library (pre-norm, GELU, learned positions: its defaults)."""

    sites = "sub-layer outputs, embeddings"

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        from x_transformers import XTransformer

        sides = {
            f"{side}_{name}": value
            for side in ("enc", "dec")
            for name, value in {
                "num_tokens": shape.vocab_size,
                "max_seq_len": shape.max_length,
                "depth": shape.layers,
                "heads": shape.heads,
                "attn_dim_head": shape.d_model // shape.heads,
                "attn_flash": True,
                "attn_sublayer_dropout": dropout,
                "ff_sublayer_dropout": dropout,
                "ff_mult": shape.d_ff // shape.d_model,
                "emb_dropout": dropout,
            }.items()
        }
        self.model = XTransformer(dim=shape.d_model, ignore_index=PAD, pad_value=PAD, **sides)

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.model(src, tgt, mask=src != PAD)

    def greedy(self, src: Tensor, length: int) -> Tensor:
        start = src.new_full((len(src), 1), START)
        return self.model.generate(src, start, length, mask=src != PAD, temperature=0.0)


class D2L(nn.Module):
    """The encoder of d2l, and the decoder of its book (section 11.7), which the package lacks, built from its parts.

    Its cache keeps the inputs of each layer and projects all of them again at each step. As in the book, decoding adds
    the encoding of position 0 to every token, so it is measured for its speed and not compared for its tokens.
    """

    sites = "sub-layer outputs, embeddings, attention weights"

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        from d2l import torch as d2l

        width, self.heads = shape.d_model, shape.heads
        sizes = (shape.vocab_size, width, shape.d_ff, shape.heads, shape.layers, dropout)
        self.encoder = d2l.TransformerEncoder(*sizes, use_bias=True)
        self.embedding = nn.Embedding(shape.vocab_size, width)
        self.positions = d2l.PositionalEncoding(width, dropout)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "own": d2l.MultiHeadAttention(width, shape.heads, dropout, bias=True),
                    "cross": d2l.MultiHeadAttention(width, shape.heads, dropout, bias=True),
                    "feed_forward": d2l.PositionWiseFFN(shape.d_ff, width),
                    **{f"norm{place}": d2l.AddNorm(width, dropout) for place in range(3)},
                }
            )
            for _ in range(shape.layers)
        )
        self.output = nn.LazyLinear(shape.vocab_size)
        self.loss(torch.ones(1, 2, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))  # sizes the lazy layers

    def _decode(self, ids: Tensor, memory: Tensor, lengths: Tensor, cache: list[Tensor | None]) -> Tensor:
        x = self.positions(self.embedding(ids) * sqrt(self.embedding.embedding_dim))
        steps = torch.arange(1, ids.shape[1] + 1).expand(len(ids), -1) if ids.shape[1] > 1 else None
        for place, layer in enumerate(self.layers):
            seen = x if cache[place] is None else torch.cat([cache[place], x], dim=1)
            cache[place] = seen
            x = layer["norm0"](x, layer["own"](x, seen, seen, steps))
            x = layer["norm1"](x, layer["cross"](x, memory, memory, lengths))
            x = layer["norm2"](x, layer["feed_forward"](x))
        return self.output(x)

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        lengths = (src != PAD).sum(1)
        cache: list[Tensor | None] = [None] * len(self.layers)
        return cross_entropy(self._decode(tgt[:, :-1], self.encoder(src, lengths), lengths, cache), tgt)

    @torch.inference_mode()
    def greedy(self, src: Tensor, length: int) -> Tensor:
        lengths = (src != PAD).sum(1)
        memory = self.encoder(src, lengths)
        cache: list[Tensor | None] = [None] * len(self.layers)
        token, tokens = src.new_full((len(src), 1), START), []
        for _ in range(length):
            token = self._decode(token, memory, lengths, cache)[:, -1].argmax(-1, keepdim=True)
            tokens.append(token)
        return torch.cat(tokens, dim=1)


def cross_entropy(logits: Tensor, tgt: Tensor) -> Tensor:
    """The same loss for all: mean over the labels that are not padding."""
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)


BASELINE = "torch.nn.Transformer"
PEERS = {
    "tfm_lib": Ours,
    BASELINE: TorchTransformer,
    "transformers BART": lambda shape, dropout: FromTransformers("Bart", shape, dropout),
    "transformers Marian": lambda shape, dropout: FromTransformers("Marian", shape, dropout),
    "x-transformers": XTransformers,
    "d2l": D2L,
}
