"""The model under examination, as a closed box: ids in, logits out, whatever its conventions are."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

KINDS = ("encoder-decoder", "decoder-only", "encoder-only")
BATCH, SOURCE, TARGET = 2, 9, 7  # of the tiny inputs: three sizes that cannot be confused


class NotExaminable(Exception):
    """Nothing can be said of it; the text says why, and what to do."""


class OutOfTime(Exception):
    """The time that was allowed is over."""


class Subject:
    """Runs the model on ids, (B, T) and, for an encoder-decoder, (B, S), and turns what it gives into (B, T, V)."""

    order: tuple[int, int, int] = (0, 1, 2)  # of the output's axes
    flat = False  # its output has one axis for texts and places, (B * T, V)
    shortened = False  # it drops the last token of the target itself
    encode: Callable[..., Any] | None = None  # what its owner gave beside it, see `checkup`
    decode: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None
    generate: Callable[..., Any] | None = None
    quick = False

    def __init__(
        self,
        model: Callable[..., Any],
        module: nn.Module | None,
        vocab_size: int,
        special: tuple[int | None, int | None, int | None],
        kind: str | None,
        time_limit: float,
    ) -> None:
        self.model, self.module, self.vocab_size = model, module, vocab_size
        self.pad_id, self.start_id, self.eos_id = special
        self.deadline = time.monotonic() + time_limit
        self.words = torch.tensor([i for i in range(vocab_size) if i not in special])
        if len(self.words) < 6:
            raise NotExaminable(f"{len(self.words)} ordinary ids are too few; give a model with vocab_size 10 or more")
        self.declared = kind
        self.by_name = isinstance(model, nn.Module) and hasattr(getattr(model, "config", None), "is_encoder_decoder")
        self.two = self._wants_two(kind)
        self.kind = kind or ("encoder-decoder" if self.two else "")
        dtypes = [p.dtype for p in module.parameters()] if module is not None else []
        half = any(dtype in (torch.float16, torch.bfloat16) for dtype in dtypes)
        self.leak, self.silence = (0.1, 1e-3) if half else (1e-4, 1e-7)  # relative to how far logits spread
        parameters = module.parameters() if module is not None else iter(())
        self.device = next((p.device for p in parameters), torch.device("cpu"))

    def _wants_two(self, kind: str | None) -> bool:
        if kind is not None:
            return kind == "encoder-decoder"
        if self.by_name:
            config, name = self.model.config, type(self.model).__name__  # type: ignore[attr-defined]
            if not config.is_encoder_decoder:
                self.declared = "encoder-only" if "MaskedLM" in name else "decoder-only"
            return bool(config.is_encoder_decoder)
        call = self.model.forward if isinstance(self.model, nn.Module) else self.model
        try:
            arguments = inspect.signature(call).parameters.values()
        except (TypeError, ValueError):
            return True
        places = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
        needed = [a for a in places if a.default is a.empty]
        if len(needed) > 2:
            names = ", ".join(a.name for a in needed)
            raise NotExaminable(
                f"forward wants {len(needed)} arguments ({names}); give a function of ids alone, such as "
                "lambda src, tgt: model(src, tgt, make_mask(src), make_mask(tgt))"
            )
        if len(needed) == 2 or any(a.kind is a.VAR_POSITIONAL for a in arguments):
            return True
        second = places[1].name.lower() if len(places) > 1 else ""
        return any(word in second for word in ("tgt", "target", "trg", "dec", "summary"))

    @property
    def training(self) -> bool:
        """Whether there is a module whose mode can be set."""
        return self.module is not None

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Examine it in this mode."""
        before = [(m, m.training) for m in self.module.modules()] if self.module is not None else []
        if self.module is not None:
            self.module.train(training)
        try:
            yield
        finally:
            for part, was in before:
                part.training = was

    def ids(self, length: int, rows: int = 1, seed: int = 0) -> Tensor:
        """Ordinary tokens (rows, length), none beside its equal where the vocabulary allows it."""
        dice = torch.Generator().manual_seed(1000 + seed)
        drawn = [self.words[torch.randperm(len(self.words), generator=dice)] for _ in range(rows)]
        return torch.stack([row.repeat(length // len(row) + 1)[:length] for row in drawn])

    def other(self, ids: Tensor, seed: int = 0) -> Tensor:
        """For each of these tokens another ordinary one."""
        place = torch.searchsorted(self.words, ids.clamp(max=int(self.words[-1])))
        return self.words[(place + 1 + seed) % len(self.words)]

    def raw(self, tgt: Tensor, src: Tensor | None = None) -> Any:
        """What the model returns; the dice fall the same way at every call."""
        if time.monotonic() > self.deadline:
            raise OutOfTime
        torch.manual_seed(0)
        tgt = tgt.to(self.device)
        if not self.two:
            if self.by_name:
                hides = self.declared == "encoder-only" and self.pad_id is not None
                return self.model(tgt, **({"attention_mask": tgt.ne(self.pad_id or 0).long()} if hides else {}))
            return self.model(tgt)
        src = self.ids(SOURCE).expand(len(tgt), -1) if src is None else src
        src = src.to(self.device)
        if self.by_name:
            seen = torch.ones_like(src) if self.pad_id is None else (src != self.pad_id).long()
            return self.model(input_ids=src, attention_mask=seen, decoder_input_ids=tgt)
        return self.model(src, tgt)

    def __call__(self, tgt: Tensor, src: Tensor | None = None, grad: bool = False) -> Tensor:
        """Logits (B, T, V) in float32."""
        extra = torch.cat([tgt, self.words[:1].expand(len(tgt), 1)], 1) if self.shortened else tgt
        with torch.set_grad_enabled(grad):
            out = self.unrolled(scores(self.raw(extra, src), self.vocab_size), len(tgt)).permute(self.order)
        if out.shape[:2] != tgt.shape:
            raise ValueError(f"ids of shape {tuple(tgt.shape)} gave scores for {tuple(out.shape[:2])}")
        return out.float()

    def unrolled(self, out: Tensor, rows: int) -> Tensor:
        """What it returns for so many texts, with three axes."""
        return out.reshape(rows, -1, out.shape[-1]) if self.flat else out

    def learn_conventions(self) -> Tensor:
        """Find out by one call how its output is laid out; gives that call's logits (B, T, V).

        Raises NotExaminable where no output fits.
        """
        length = TARGET if self.vocab_size not in (TARGET, BATCH) else TARGET + 4
        tgt = self.ids(length, BATCH)
        src = self.ids(SOURCE, BATCH, seed=7)
        asked = (
            f"ids of shape {(BATCH, SOURCE)} and {(BATCH, length)}" if self.two else f"ids of shape {(BATCH, length)}"
        )
        try:
            with torch.no_grad():
                out = scores(self.raw(tgt, src), self.vocab_size)
            with torch.no_grad():
                last = self.words[-1:]
                self.raw(last.expand(BATCH, length), last.expand(BATCH, SOURCE))
        except OutOfTime:
            raise
        except IndexError as error:
            raise NotExaminable(
                f"given {asked} from 0 to {self.vocab_size - 1}, it raised {short(error)}; an embedding seems to have "
                "fewer rows: correct vocab_size, or the embedding"
            ) from None
        except Exception as error:
            raise NotExaminable(
                f"given {asked}, it raised {short(error)}; give a function that takes such ids and returns logits, "
                "or kind= if it takes another number of inputs"
            ) from None
        shape = tuple(out.shape)
        for t, shortened in ((length, False), (length - 1, True)):
            for order in permutations(range(3)):
                if len(shape) == 3 and tuple(shape[i] for i in order) == (BATCH, t, self.vocab_size):
                    self.order, self.shortened = (order[0], order[1], order[2]), shortened
                    return self(tgt, src)
            if shape == (BATCH * t, self.vocab_size):
                self.flat, self.shortened = True, shortened
                return self(tgt, src)
        self.shape = shape
        raise NotExaminable(
            f"given {asked}, it returned shape {shape}, where ({BATCH}, {length}, vocab_size={self.vocab_size}) is "
            "wanted; return the logits of every position, or correct vocab_size"
        )


def scores(out: Any, vocab_size: int) -> Tensor:
    """The logits in what a model returns: a tensor, the first one with an axis of vocab_size, or `.logits`."""
    if isinstance(out, Tensor):
        return out
    out = getattr(out, "logits", out)
    if isinstance(out, Tensor):
        return out
    parts = list(out.values()) if isinstance(out, dict) else list(out) if isinstance(out, tuple | list) else []
    tensors = [part for part in parts if isinstance(part, Tensor) and part.dim() > 1]
    for part in tensors:
        if vocab_size in part.shape:
            return part
    if not tensors:
        raise TypeError(f"no tensor in what it returned, a {type(out).__name__}")
    return tensors[0]


def short(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:140]}{'…' * (len(text) > 140)}" if text else type(error).__name__


def spread(logits: Tensor) -> float:
    """How far the scores lie apart: what a difference is measured against."""
    finite = logits[torch.isfinite(logits)]
    return max(float(finite.std()), 1e-12) if finite.numel() > 1 else 1.0


def gap(a: Tensor, b: Tensor) -> Tensor:
    """For each position the largest difference of its scores, (B, T, V) -> (B, T); NaN beside NaN is none."""
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=torch.inf)).amax(-1)
