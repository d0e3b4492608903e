"""Decoding: how a trained model writes, one token at a time, without doing any work twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from tfm_lib.data.batches import Examples, pad_rows, shifted
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.masks import check_mask, padding_mask
from tfm_lib.model import SourceMask, Transformer
from tfm_lib.writing.cache import DecoderCache
from tfm_lib.writing.next_token import NO_RULES, Rules, log_softmax, next_token_probs


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model as in eval(), without dropout; afterwards each of its modules has the mode that it had."""
    in_training = [module for module in model.modules() if module.training]
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True


class Writer:
    """A model in the middle of writing: the source, which is encoded once, and a cache of the tokens so far.

    `write` and `beam.search` need only what a decoder-only model can have, too: `start` (B,), the token before a text's
    first one, `source` (rows,), which text each row goes on with, `next_logits`, `select`, and two ids.
    src (B, S), src_mask (B, 1, 1, S); without a mask, the source tokens equal to pad_id are hidden; None hides nothing.
    Raises ValueError where max_new_tokens is less than 1 or more than the model has positions for.
    """

    def __init__(self, model: Transformer, src: Tensor, max_new_tokens: int, src_mask: SourceMask = "padding") -> None:
        config = model.config
        if not 1 <= max_new_tokens <= config.max_length:
            limits = f"1..{config.max_length}, the model's max_length"
            raise CourseError(f"max_new_tokens must lie in {limits}, got {max_new_tokens}")
        if isinstance(src_mask, str) and src_mask == "padding":
            src_mask = padding_mask(src, config.pad_id)
        if src_mask is not None:
            check_mask(src_mask, (len(src), 1, 1, src.shape[1]), src.device)
            # Most single texts and whole batches of equal length have nothing to hide, and need no mask at each step.
            src_mask = None if src_mask.all() else src_mask.expand(len(src), 1, 1, -1)
        self.model, self.pad_id, self.eos_id = model, config.pad_id, config.eos_id
        self.start = src.new_full((len(src),), config.start_id)  # (B,)
        self.memory, self.src_mask = model.encode(src, src_mask), src_mask  # (B, S, D), (B, 1, 1, S)
        self.source = torch.arange(len(src), device=src.device)  # which source each row belongs to
        self.cache = DecoderCache(config.num_decoder_layers, max_new_tokens, src.shape[1])

    def next_logits(self, token: Tensor) -> Tensor:
        """Write one more token in each row, (B,) -> the logits of those that may follow, (B, V)."""
        return self.model.decode(token[:, None], self.memory, src_mask=self.src_mask, cache=self.cache)[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with the rows `rows` (R,), in this order; one may be named several times."""
        self.source, self.memory = self.source[rows], self.memory[rows]
        if self.src_mask is not None:
            self.src_mask = self.src_mask[rows]
        self.cache.select(rows)


@torch.inference_mode()
def write(writer: Writer, max_new_tokens: int, choose: Callable[[Tensor], Tensor], rules: Rules = NO_RULES) -> Tensor:
    """The loop of `greedy` and `sample`, over anything that gives logits -> new tokens (B, up to max_new_tokens).

    choose: takes logits (rows, V), returns tokens (rows,). Raises ValueError for rules that can't be obeyed.
    """
    rules.check(max_new_tokens)
    token = writer.start  # (B,)
    written = token.new_full((len(token), 1 + max_new_tokens), writer.pad_id)
    written[:, 0] = token
    for length in range(1, max_new_tokens + 1):
        logits = writer.next_logits(token)
        logits = rules.forbid(logits, written[writer.source, :length], writer.eos_id, length == max_new_tokens)
        token = written[writer.source, length] = choose(logits)
        ended = token == writer.eos_id
        if ended.any():  # rows that have ended leave the batch
            if ended.all():
                break
            token = token[~ended]
            writer.select((~ended).nonzero().squeeze(1))
    return written[:, 1 : length + 1]


@torch.inference_mode()
def greedy(
    model: Transformer, src: Tensor, max_new_tokens: int, src_mask: SourceMask = "padding", *, rules: Rules = NO_RULES
) -> Tensor:
    """Write the most likely next token, again and again: src (B, S) -> new tokens (B, up to max_new_tokens).

    The start token is not among them. A row that has ended holds eos_id and then pad_id. The model decodes as in
    eval(), whatever its mode, which it keeps. For src_mask and errors see `Writer` and `write`.
    Where many texts are written one by one, `model.decoder.compile(dynamic=True)`, once before the first, takes half
    a minute and a C++ compiler, and makes each step a little faster; the tokens stay the same.
    """
    with evaluating(model):
        writer = Writer(model, src, max_new_tokens, src_mask)
        return write(writer, max_new_tokens, lambda logits: logits.argmax(-1), rules)


@torch.inference_mode()
def sample(
    model: Transformer,
    src: Tensor,
    max_new_tokens: int,
    src_mask: SourceMask = "padding",
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rules: Rules = NO_RULES,
) -> Tensor:
    """Draw each next token from `next_token_probs`: src (B, S) -> new tokens (B, up to max_new_tokens), as in `greedy`.

    generator: the one source of chance, on the model's device; torch's global random state is left alone.
    """

    def draw(logits: Tensor) -> Tensor:
        probs = next_token_probs(logits, temperature, top_k, top_p)
        return torch.multinomial(probs, 1, generator=generator).squeeze(1)

    with evaluating(model):
        return write(Writer(model, src, max_new_tokens, src_mask), max_new_tokens, draw, rules)


def summarize(
    model: Transformer,
    vocabulary: Vocabulary,
    examples: Examples,
    max_new_tokens: int,
    batch_size: int = 64,
    *,
    write: Callable[[Transformer, Tensor, int], Tensor] = greedy,
    progress: bool = False,
) -> list[str]:
    """The model's summary of each article, in their order; articles of similar length are decoded together.

    write: the way to decode; partial(greedy, rules=...) obeys rules, and beam_search will do.
    progress: show on stderr how far it is, and the time that is left.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(examples)), key=lambda i: len(examples.articles[i]))
    texts = [""] * len(order)
    for start in tqdm(range(0, len(order), batch_size), "writing summaries", disable=not progress):
        rows = order[start : start + batch_size]
        src = pad_rows([examples.articles[i] for i in rows], examples.pad_id).to(device)  # (B, S)
        for i, ids in zip(rows, write(model, src, max_new_tokens).tolist(), strict=True):
            texts[i] = vocabulary.decode(ids, examples.words[i] if examples.words else ())
    return texts


@torch.inference_mode()
def token_log_probs(model: Transformer, src: Tensor, tokens: Tensor, src_mask: SourceMask = "padding") -> Tensor:
    """log p of each token, given the source and the tokens before it: tokens (B, T) as `greedy` returns them -> (B, T).

    One pass with teacher forcing. After a row's first eos_id it is 0, so that a row sums to the log p of its text.
    """
    config = model.config
    with evaluating(model):
        writer = Writer(model, src, tokens.shape[1], src_mask)
        logits = model.decode(shifted(tokens, config.start_id), writer.memory, src_mask=writer.src_mask)
        log_probs = log_softmax(logits)  # (B, T, V)
    log_probs = log_probs.gather(2, tokens[:, :, None]).squeeze(2)  # (B, T)
    return log_probs.masked_fill(after_the_end(tokens, config.eos_id), 0.0)


def after_the_end(tokens: Tensor, eos_id: int) -> Tensor:
    """True at what follows a text's first eos_id: (..., T) -> (..., T)."""
    ends = (tokens == eos_id).long()
    return ends.cumsum(-1) > ends
