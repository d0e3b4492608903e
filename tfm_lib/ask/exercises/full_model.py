"""The exercises of lesson 06."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from math import exp, log, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.masks import padding_mask
from tfm_lib.model import Transformer, TransformerConfig


def tokens_and_tables(draw: Draw) -> Iterator[Inputs]:
    yield {
        "ids": torch.tensor([[1, 0]]),
        "table": torch.tensor([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.5, 0.0]]),
        "positions": torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]]),
        "past": 0,
    }
    positions = torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    yield {"ids": torch.tensor([[0]]), "table": torch.tensor([[0.0, 1.0, 0.0, 0.0]]), "positions": positions, "past": 1}
    for batch, length, past in ((2, 3, 0), (1, 1, 2), (2, 2, 3)):
        ids = draw.integers(0, 5, batch, length)
        yield {"ids": ids, "table": draw(5, 6), "positions": draw(6, 6), "past": past}


@exercise(
    difficulty=1,
    minutes=6,
    trains="what goes in at the bottom",
    right="Four calls are enough for any batch; with `past`, a model that generates embeds only its newest token.",
    cases=tokens_and_tables,
    most_calls=4,
)
def embed(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    return table[ids] * sqrt(table.shape[1]) + positions[past : past + ids.shape[1]]


@embed.mistake
def no_scale(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    """The embeddings are not multiplied by the square root of d_model."""
    return table[ids] + positions[past : past + ids.shape[1]]


@embed.mistake
def positions_scaled_too(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    """You multiply the sum; only the embeddings are scaled, before the positions are added."""
    return (table[ids] + positions[past : past + ids.shape[1]]) * sqrt(table.shape[1])


@embed.mistake
def scaled_by_width(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    """You multiply by d_model itself; its square root is wanted."""
    return table[ids] * table.shape[1] + positions[past : past + ids.shape[1]]


@embed.mistake
def scaled_by_vocabulary(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    """You take the square root of the number of rows, the vocabulary; d_model is the number of columns."""
    return table[ids] * sqrt(len(table)) + positions[past : past + ids.shape[1]]


@embed.mistake
def past_forgotten(ids: Tensor, table: Tensor, positions: Tensor, past: int) -> Tensor:
    """Your positions always begin with the first row; they should begin with the row `past`."""
    return table[ids] * sqrt(table.shape[1]) + positions[: ids.shape[1]]


@exercise(
    difficulty=2,
    minutes=9,
    trains="predicting a first loss",
    right="The right logit is 10 below the largest one, so being sure and wrong costs more than knowing nothing.",
    tolerance=5e-3,
)
def first_loss() -> float:
    return log(exp(10) + 999)


@first_loss.mistake
def knows_nothing() -> float:
    """That is ln V, the loss of a model that prefers nothing; this one prefers its own input."""
    return log(1000)


@first_loss.mistake
def echo_is_right() -> float:
    """That is the loss if the echo is right; here a different token is right."""
    return log(exp(10) + 999) - 10


@first_loss.mistake
def echo_is_right_rounded() -> float:
    """That would be the loss if the right token were the model's favorite; it is a different one."""
    return 0.04


@first_loss.mistake
def cosine_forgotten() -> float:
    """You multiplied the two lengths; a logit is a dot product, so the cosine is a third factor."""
    return 20.0


@first_loss.mistake
def cosine_times_width() -> float:
    """The vector has the length of the square root of d_model, and the row 1: the logit is 20 · 0.5, not 400 · 0.5."""
    return 200.0


@first_loss.mistake
def width_of_the_lesson() -> float:
    """That is half the square root of 512, the width in section 7; here d_model is 400."""
    return sqrt(512) / 2


@first_loss.mistake
def both_added() -> float:
    """You added ln V to the largest logit; compared with its term, the 999 other terms count little."""
    return 10 + log(1000)


@first_loss.mistake
def a_probability() -> float:
    """That is the probability of the echo; the loss is minus the logarithm of the right token's."""
    return exp(10) / (exp(10) + 999)


def padded_sentences(draw: Draw) -> Iterator[Inputs]:
    yield {"src": torch.tensor([[5, 6, 0]]), "tgt": torch.tensor([[0, 7]]), "pad_id": 0}
    yield {"src": torch.tensor([[5, 6, 7, 8], [9, 3, 3, 3]]), "tgt": torch.tensor([[3, 7, 4], [3, 8, 3]]), "pad_id": 3}


def expanded(across: Tensor, rows: int) -> Tensor:
    """A mask of keys (B, S), the same in each of so many rows: (B, rows, S)."""
    return across[:, None, :].expand(-1, rows, -1)


def triangle(tgt: Tensor) -> Tensor:
    return torch.ones(tgt.shape[1], tgt.shape[1]).tril().bool().expand(len(tgt), -1, -1)


Masks = tuple[Tensor, Tensor, Tensor]


@exercise(
    difficulty=3,
    minutes=12,
    trains="the masks of the three attentions",
    right="Marian and T5 start with such an id; hiding it removes the only key of the first position.",
    cases=padded_sentences,
)
def masks(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    real = src != pad_id
    return expanded(real, src.shape[1]), triangle(tgt), expanded(real, tgt.shape[1])


@masks.mistake
def as_they_were(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """These are the masks as they were, two of them wrong: look at the first position, and at the keys across."""
    across = (tgt != pad_id)[:, :, None].expand(-1, -1, src.shape[1])
    return start_hidden(src, tgt, pad_id)[0], start_hidden(src, tgt, pad_id)[1], across


@masks.mistake
def start_hidden(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """Your decoder's mask hides the start token, whose id is that of padding; only the future has to be hidden."""
    encoder, future, across = masks.reference(src, tgt, pad_id)
    return encoder, future & (tgt != pad_id)[:, None, :], across


@masks.mistake
def across_from_the_target(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """Your cross-attention hides rows of the target; it should hide columns, the padding of the source."""
    across = (tgt != pad_id)[:, :, None].expand(-1, -1, src.shape[1])
    return *masks.reference(src, tgt, pad_id)[:2], across


@masks.mistake
def across_open(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """Your cross-attention sees the padding of the source: it needs the mask as much as the encoder does."""
    return *masks.reference(src, tgt, pad_id)[:2], torch.ones(*tgt.shape, src.shape[1], dtype=torch.bool)


@masks.mistake
def end_hidden(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """Your decoder's mask hides padding at the end, too: that is in the future of all real words, so leave it out."""
    encoder, future, across = masks.reference(src, tgt, pad_id)
    real = torch.cat([torch.ones(len(tgt), 1).bool(), tgt[:, 1:] != pad_id], dim=1)
    return encoder, future & real[:, None, :], across


@masks.mistake
def past_hidden(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """Your decoder attends to the future instead of the past: rows are queries, columns are keys."""
    encoder, future, across = masks.reference(src, tgt, pad_id)
    return encoder, future.mT, across


@masks.mistake
def rows_hidden_too(src: Tensor, tgt: Tensor, pad_id: int) -> Masks:
    """You hide the rows of padding as well; masks hide columns, the keys. The output of a padding row is never used."""
    encoder, future, across = masks.reference(src, tgt, pad_id)
    return encoder & (src != pad_id)[:, :, None], future, across


def tables_and_ids(draw: Draw) -> Iterator[Inputs]:
    for rows, ids in ((2, [1]), (3, [2, 2]), (5, [4, 0, 4, 1])):
        yield {"table": draw(rows, 4), "ids": torch.tensor(ids), "upstream": draw(len(ids), rows)}


@exercise(
    difficulty=4,
    minutes=20,
    trains="how a tied table learns",
    right="As output every row learns at every position; as input only the rows that were read.",
    cases=tables_and_ids,
    without=("grad", "backward"),
)
def tied_gradient(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    return as_output(table, ids, upstream) + as_input(table, ids, upstream)


@tied_gradient.mistake
def as_output(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    """That is the output's part; the table was also read at the bottom, and gets a gradient from there, too."""
    return upstream.T @ (table[ids] * sqrt(table.shape[1]))


@tied_gradient.mistake
def as_input(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    """That is the embedding's part; the table was also the output layer, and gets a gradient there, too."""
    return torch.zeros_like(table).index_add(0, ids, upstream @ table * sqrt(table.shape[1]))


@tied_gradient.mistake
def last_one_wins(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    """A token that occurs twice gets one of its two gradients: `grad[ids] += ...` does not add up, `index_add` does."""
    read = torch.zeros_like(table)
    read[ids] += upstream @ table * sqrt(table.shape[1])
    return as_output(table, ids, upstream) + read


@tied_gradient.mistake
def scale_lost_below(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    """The factor is missing in the embedding's part: the backward pass multiplies by it, too."""
    return as_output(table, ids, upstream) + as_input(table, ids, upstream) / sqrt(table.shape[1])


@tied_gradient.mistake
def scale_lost_above(table: Tensor, ids: Tensor, upstream: Tensor) -> Tensor:
    """The factor is missing in the output's part: the vectors there were scaled."""
    return as_output(table, ids, upstream) / sqrt(table.shape[1]) + as_input(table, ids, upstream)


def models_and_sources(draw: Draw) -> Iterator[Inputs]:
    yield {"seed": 109, "src": torch.tensor([[3, 4, 5]]), "most": 2}
    three = torch.tensor([[3, 4, 5], [6, 3, 0], [7, 0, 0]])
    yield {"seed": 69, "src": three, "most": 5}
    yield {"seed": 49, "src": three[:2], "most": 3}


@cache
def random_model(seed: int) -> Transformer:
    """A tiny model in which no weight, bias or norm has a value that could hide a mistake."""
    sizes: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = TransformerConfig(vocab_size=8, dropout=0.0, tied=False, norm_first=True, embed_scale=2.0, **sizes)
    model = Transformer(config).eval()
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model


class Endless(Exception):
    """A loop goes on and on; an error of its own, so that no other one is taken for it."""


@torch.no_grad()
def with_model(answer: Callable, seed: int, src: Tensor, most: int) -> dict[str, Any]:
    """What a learner's loop writes with a model, and how often the encoder ran."""
    model, runs = random_model(seed), Counter[str]()

    def count(name: str) -> None:
        runs[name] += 1
        if runs["decoder"] > 10 * most:  # even a loop over the rows needs fewer
            raise Endless(f"the decoder has run {10 * most} times for {most} tokens")

    counting = [
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: count(name))
        for name in ("encoder", "decoder")
    ]
    try:
        tokens = answer(model, src, most)
    finally:
        for hook in counting:
            hook.remove()
    return {"the tokens": tokens, "runs of the encoder": runs["encoder"]}


@exercise(
    difficulty=4,
    minutes=30,
    trains="writing with a model, for a whole batch",
    right="This is greedy decoding; lesson 08 has other ways to choose, and lesson 09 makes it fast.",
    cases=models_and_sources,
    call=with_model,
)
def greedy(model: Transformer, src: Tensor, most: int) -> Tensor:
    logits = every_place(model, src)
    return write(model, src, most, lambda written: logits(written)[:, -1])


def write(
    model: Transformer, src: Tensor, most: int, next_logits: Callable, pads: bool = True, remembers: bool = True
) -> Tensor:
    """The loop around a function from what is written so far, (B, 1 + t), to the logits of the next place (B, V).

    Whether it `pads` rows that have ended, and `remembers` who has, is what learners differ in.
    """
    config = model.config
    written = torch.full((len(src), 1), config.start_id)
    ended = torch.zeros(len(src), dtype=torch.bool)
    while written.shape[1] <= most and not ended.all():
        best = next_logits(written).argmax(-1)
        if pads:
            best = best.masked_fill(ended, config.pad_id)
        ended = (best == config.eos_id) | (ended & remembers)
        written = torch.cat([written, best[:, None]], dim=1)
    return written[:, 1:]


def every_place(model: Transformer, src: Tensor) -> Callable[[Tensor], Tensor]:
    """The source encoded once: from what is written so far, (B, 1 + t), to the logits of all places."""
    mask = padding_mask(src, model.config.pad_id)
    memory = model.encode(src, mask)
    return lambda written: model.decode(written, memory, src_mask=mask)


@greedy.mistake
def encoder_each_step(model: Transformer, src: Tensor, most: int) -> Tensor:
    """The tokens are right, but the encoder ran again for each; the source stays the same, so encode it once."""
    return write(model, src, most, lambda written: model(src, written)[:, -1])


@greedy.mistake
def first_place(model: Transformer, src: Tensor, most: int) -> Tensor:
    """You choose from the logits of the first position; those of the last position predict the next token."""
    logits = every_place(model, src)
    return write(model, src, most, lambda written: logits(written)[:, 0])


@greedy.mistake
def source_padding_seen(model: Transformer, src: Tensor, most: int) -> Tensor:
    """Your decoder sees the padding of the source: `decode` needs the source's mask, as the encoder does."""
    memory, nothing_hidden = model.encode(src), torch.ones(len(src), 1, 1, src.shape[1], dtype=torch.bool)
    return write(model, src, most, lambda written: model.decode(written, memory, src_mask=nothing_hidden)[:, -1])


@greedy.mistake
def past_the_end(model: Transformer, src: Tensor, most: int) -> Tensor:
    """A row that has ended goes on; after its end token there should be padding."""
    logits = every_place(model, src)
    return write(model, src, most, lambda written: logits(written)[:, -1], pads=False)


@greedy.mistake
def ends_forgotten(model: Transformer, src: Tensor, most: int) -> Tensor:
    """You look for end tokens among the newest ones only; remember which rows have ended, since they go on."""
    logits = every_place(model, src)
    return write(model, src, most, lambda written: logits(written)[:, -1], pads=False, remembers=False)


@greedy.mistake
def never_stops(model: Transformer, src: Tensor, most: int) -> Tensor:
    """Your loop goes on when all rows have ended; it should stop, so that no column contains only padding."""
    tokens = greedy.reference(model, src, most)
    padding = torch.full((len(src), most - tokens.shape[1]), model.config.pad_id)
    return torch.cat([tokens, padding], dim=1)


@greedy.mistake
def most_ignored(model: Transformer, src: Tensor, most: int) -> Tensor:
    """Your loop goes on until all rows have ended, and some never end: stop after `most` tokens at the latest."""
    return greedy.reference(model, src, 10**6)


@greedy.mistake
def stops_with_the_first(model: Transformer, src: Tensor, most: int) -> Tensor:
    """Your loop stops when the first row ends; the others have not ended yet."""
    tokens = greedy.reference(model, src, most)
    columns = (tokens == model.config.eos_id).any(0).nonzero()
    return tokens[:, : columns[0].item() + 1] if len(columns) else tokens


@greedy.mistake
def start_kept(model: Transformer, src: Tensor, most: int) -> Tensor:
    """Your result begins with the start token; return only what the model generated."""
    tokens = greedy.reference(model, src, most)
    return torch.cat([torch.full((len(src), 1), model.config.start_id), tokens], dim=1)


@greedy.mistake
def end_sign_lost(model: Transformer, src: Tensor, most: int) -> Tensor:
    """The end tokens are missing; each row should contain its own, and padding only after it."""
    tokens = greedy.reference(model, src, most)
    return tokens.masked_fill(tokens == model.config.eos_id, model.config.pad_id)


def sizes(draw: Draw) -> Iterator[Inputs]:
    small = {"V": 10, "D": 2, "d_ff": 3, "layers": 1}
    for tied, norm_first in ((True, False), (False, False), (True, True)):
        yield {**small, "tied": tied, "norm_first": norm_first}
    yield {"V": 100, "D": 8, "d_ff": 20, "layers": 3, "tied": False, "norm_first": True}


@exercise(
    difficulty=2,
    minutes=12,
    trains="where the parameters are",
    right="The check built each model and counted; a formula gives the same, and shows where a part is missing.",
    cases=sizes,
)
def parameters(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    return counted(V, D, d_ff, layers, tied, norm_first)


@cache
def counted(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """The parameters of a real model."""
    sizes: dict[str, Any] = {"num_encoder_layers": layers, "num_decoder_layers": layers, "num_heads": 1, "d_ff": d_ff}
    model = Transformer(TransformerConfig(vocab_size=V, d_model=D, tied=tied, norm_first=norm_first, **sizes))
    return sum(parameter.numel() for parameter in model.parameters())


@parameters.mistake
def no_tables(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """The embedding matrix is missing."""
    return counted(V, D, d_ff, layers, tied, norm_first) - (V * D if tied else 3 * V * D)


@parameters.mistake
def always_tied(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """Untied, there are three matrices of V · D: the source's, the target's and the output's."""
    return counted(V, D, d_ff, layers, True, norm_first)


@parameters.mistake
def two_tables(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """Untied, the output layer is a third matrix, in addition to those of the source and the target."""
    return counted(V, D, d_ff, layers, tied, norm_first) - (0 if tied else V * D)


@parameters.mistake
def no_final_norms(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """In pre-norm each of the two stacks has one norm more, at its end."""
    return counted(V, D, d_ff, layers, tied, False)


@parameters.mistake
def one_final_norm(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """In pre-norm both stacks have a norm at their end; you count one of them."""
    return counted(V, D, d_ff, layers, tied, norm_first) - (2 * D if norm_first else 0)


@parameters.mistake
def norms_halved(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """A norm learns two vectors, a scale and a shift, so it has 2 · D parameters."""
    return counted(V, D, d_ff, layers, tied, norm_first) - (5 * layers + (2 if norm_first else 0)) * D


@parameters.mistake
def no_cross_attention(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """You count a decoder layer like an encoder layer; it has a second attention and a third norm."""
    return counted(V, D, d_ff, layers, tied, norm_first) - layers * (4 * (D**2 + D) + 2 * D)


@parameters.mistake
def two_norms(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """A decoder layer has three norms, one for each of its three sub-layers."""
    return counted(V, D, d_ff, layers, tied, norm_first) - layers * 2 * D


@parameters.mistake
def no_biases(V: int, D: int, d_ff: int, layers: int, tied: bool, norm_first: bool) -> int:
    """The biases are missing: D in each of attention's four maps, d_ff and D in the feed-forward network."""
    return counted(V, D, d_ff, layers, tied, norm_first) - layers * (3 * 4 * D + 2 * (d_ff + D))


@exercise(
    difficulty=2,
    minutes=5,
    trains="when attention's square matters",
    right="In general it is 2 · d_model + d_ff, which for d_ff = 4 · d_model is the 6 · d_model of this section.",
)
def crossing() -> int:
    return 2 * 256 + 768


@crossing.mistake
def six_widths() -> int:
    """That is 6 · d_model, which holds for d_ff = 4 · d_model; here d_ff is 3 · d_model."""
    return 6 * 256


@crossing.mistake
def no_network() -> int:
    """You set the square equal to the projections alone; the feed-forward network is part of the rest."""
    return 2 * 256


@crossing.mistake
def no_projections() -> int:
    """You set the square equal to the feed-forward network alone; the four projections are part of the rest."""
    return 768


@crossing.mistake
def scores_without_mixing() -> int:
    """You counted the scores, but not the weighted means of the values, which take as much work again."""
    return 2 * (2 * 256 + 768)
