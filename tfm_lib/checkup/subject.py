"""The model under examination, as a closed box: ids in, logits out, whatever its conventions are."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.checkup.borrow import borrowed, swap
from tfm_lib.checkup.measures import gap, scores, spread
from tfm_lib.checkup.watch import AttentionWatch, Step, traced
from tfm_lib.checkup.words import Words

Call = Callable[..., Any]
Found = tuple[str, ...]  # the code of a finding, what was seen, and, where it was traced to one, the part of the model
KINDS = ("encoder-decoder", "decoder-only", "encoder-only")
WAITING = 10  # times its limit of computing may pass by the clock, on a busy machine or for a model that waits
SOURCE, TARGET = 9, 7  # lengths of the tiny inputs: sizes that cannot be confused


class OutOfTime(BaseException):
    """The time that was allowed is over. Not an Exception: no probe takes it for one of the model's."""


class Subject:
    """Runs the model on ids, (B, T) and, for an encoder-decoder, (B, S), and turns what it gives into (B, T, V)."""

    order: tuple[int, ...] = (0, 1, 2)  # of the output's axes
    shape: tuple[int, ...] = ()  # of its output, once it was called
    flat = False  # its output has one axis for texts and places, (B * T, V)
    shortened = False  # it drops the last token of the target itself
    time_first = False  # it takes ids of shape (T, B)
    swapped = False  # it takes the target first
    names: list[str] | None = None  # of its arguments for ids, where it must be called by them
    masks: Callable[[Tensor, Tensor], dict[str, Tensor]] | None = None  # made of source and target, for its arguments
    encode: Call | None = None  # what its owner gave beside it, see `checkup`
    decode: Call | None = None
    loss: Call | None = None
    generate: Call | None = None
    quick = False
    writes: tuple[Callable[[Tensor], list[Any]], bool] | None = None  # how `generate` is called, see `writer`
    changed_labels = False  # its loss has written into the labels that it was given
    remembers = False  # what a module keeps from one call is there in the next
    scale: Callable[[Tensor, int], Tensor] | None = None  # what makes its scores of logits, where they are none
    ends: Any = None  # what reads its target and gives its scores, see `ends_of`
    means_probabilities = False  # its own loss takes their logarithm, and so does what reads its scores

    def __init__(
        self, model: Call, module: nn.Module | None, words: tuple[Words, Words], kind: str | None, limit: float
    ) -> None:
        self.model, self.module = model, module
        self.src, self.tgt = words
        self.start_id: int | None = None
        self.eos_id: int | None = None
        self.limit, self.began = limit, (time.process_time(), time.monotonic())
        self.declared = kind
        self.by_name = isinstance(model, nn.Module) and hasattr(getattr(model, "config", None), "is_encoder_decoder")
        self.two, self.kind = kind in (None, "encoder-decoder"), kind or ""
        self.initial = [(vars(part), dict(vars(part))) for part in self.parts]  # their attributes at the beginning
        weights = [] if module is None else list(module.parameters())
        half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in weights)
        self.leak, self.silence = (0.1, 1e-3) if half else (1e-4, 1e-7)  # relative to how far logits spread
        self.device = weights[0].device if weights else torch.device("cpu")

    def left(self) -> float:
        """For how many seconds new questions may be asked: of computing, or what is left of the clock's many more."""
        computed, passed = time.process_time() - self.began[0], time.monotonic() - self.began[1]
        return min(self.limit - computed, WAITING * self.limit - passed)

    @property
    def vocab_size(self) -> int:
        """How many scores it gives for each position."""
        return self.tgt.size

    @property
    def pad_id(self) -> int | None:
        """What fills up the target."""
        return self.tgt.pad_id

    def texts(self, rows: int = 1, draw: int = 0) -> tuple[Tensor, Tensor]:
        """Ordinary texts to ask about: targets (rows, TARGET) and sources (rows, SOURCE), different in each draw."""
        return self.tgt.ids(TARGET, rows, draw), self.src.ids(SOURCE, rows, 3 + draw)

    @property
    def parts(self) -> list[nn.Module]:
        """The module and all that are in it; none where none was given."""
        return [] if self.module is None else list(self.module.modules())

    def module_to(self, purpose: str) -> nn.Module:
        """The module; ValueError, which says what it was wanted for, where none was given."""
        if self.module is None:
            raise ValueError(f"there is no module to {purpose}; give module=")
        return self.module

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Examine it in this mode."""
        before = [(part, part.training) for part in self.parts]
        if self.module is not None:
            self.module.train(training)
        try:
            yield
        finally:
            for part, was in before:
                part.training = was

    @contextmanager
    def exact(self) -> Iterator[None]:
        """In float64, where a model can do that: what has any influence has some there, even through a sure softmax."""
        with borrowed(self.module):
            swap(self.module, lambda x: x.double() if x.is_floating_point() else x.clone())
            try:
                self(self.tgt.ids(TARGET))
            except Exception:
                swap(self.module, lambda x: x.float() if x.is_floating_point() else x.clone())
            yield

    def forget(self) -> None:
        """Drop what modules have kept from earlier calls, unless they are to remember: each question stands alone."""
        for attributes, before in () if self.remembers else self.initial:
            for name in set(attributes) - set(before):
                del attributes[name]
            attributes.update({name: None for name, value in before.items() if value is None})

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """From a fresh beginning on, what is kept from one call is there in the next."""
        self.forget()
        self.remembers = True
        try:
            yield
        finally:
            self.remembers = False

    def raw(self, tgt: Tensor, src: Tensor | None = None, seed: int = 0, **more: Tensor) -> Any:
        """What the model returns, given `more`, too; its random numbers are the same at every call with this seed."""
        if self.left() <= 0:
            raise OutOfTime
        self.forget()
        alone = self.device.type == "cpu" and not torch.cuda.is_initialized()  # seeding other devices takes as long
        (torch.default_generator.manual_seed if alone else torch.manual_seed)(seed)
        tgt = tgt.to(self.device)
        if self.by_name and not self.two:
            hides = self.declared == "encoder-only" and self.pad_id is not None
            return self.model(tgt, **({"attention_mask": self.tgt.seen(tgt)} if hides else {}), **more)
        src = self.src.ids(SOURCE).expand(len(tgt), -1) if src is None else src
        src = src.to(self.device)
        if self.by_name:
            return self.model(input_ids=src, attention_mask=self.src.seen(src), decoder_input_ids=tgt, **more)
        masks = self.masks(src, tgt) if self.masks else {}
        ids = [(x.T if self.time_first else x).contiguous() for x in ((src, tgt) if self.two else (tgt,))]
        ids = ids[::-1] if self.swapped else ids
        if self.names:
            return self.model(**dict(zip(self.names, ids, strict=True)), **masks, **more)
        return self.model(*ids, **masks, **more)

    def __call__(self, tgt: Tensor, src: Tensor | None = None, *, grad: bool = False, seed: int = 0) -> Tensor:
        """Logits (B, T, V), in float32 or, where it calculates so, float64."""
        extra = torch.cat([tgt, self.tgt.ordinary[:1].expand(len(tgt), 1)], 1) if self.shortened else tgt
        with torch.set_grad_enabled(grad):
            out = self.laid_out(scores(self.raw(extra, src, seed), self.vocab_size), len(tgt))
        if out.shape[:2] != tgt.shape:
            raise ValueError(f"ids of shape {tuple(tgt.shape)} gave scores for {tuple(out.shape[:2])}")
        out = out if out.dtype == torch.float64 else out.float()
        return out.clamp_min(1e-12).log() if self.means_probabilities else out

    def laid_out(self, out: Tensor, rows: int) -> Tensor:
        """What it returns for so many texts, as (B, T, V)."""
        if not self.flat:
            return out.permute(self.order)
        return out.unflatten(0, (-1, rows)).transpose(0, 1) if self.time_first else out.unflatten(0, (rows, -1))

    def apart(self, a: Tensor, b: Tensor, times: float = 1.0) -> bool:
        """Whether scores (B, T, V) differ, by more than rounding leaves of their spread."""
        return bool(gap(a, b).max() > times * self.leak * spread(a))

    def trace(self, *ids: Tensor) -> tuple[list[Step], Tensor]:
        """What its parts do with these ids, and the logits."""
        with traced(self.module) as steps:
            out = self(*ids)
        return steps, out

    def attention(self, *ids: Tensor) -> AttentionWatch:
        """Every softmax of attention while it reads these ids; with a gradient, no path of torch's hides it."""
        with AttentionWatch() as watch:
            self(*ids, grad=True)
        return watch

    @cached_property
    def shifts(self) -> bool:
        """Whether it shifts the target itself: the scores at a position depend on what stands before it alone."""
        tgt = self.tgt.ids(TARGET)
        base = self(tgt)
        moved = [gap(base, self(self.tgt.changed(tgt, j)))[0] > 0 for j in range(TARGET)]
        sees = torch.stack(moved, 1)
        return self.kind != "encoder-only" and not bool(sees.triu().any()) and bool(sees.tril(-1).any())
