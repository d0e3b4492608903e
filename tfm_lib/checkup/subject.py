"""The model under examination, as a closed box: ids in, logits out, whatever its conventions are."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.checkup.measures import gap, scores, short, spread
from tfm_lib.checkup.watch import Step, traced

Call = Callable[..., Any]
Special = tuple[int | None, int | None, int | None]  # pad_id, start_id, eos_id
KINDS = ("encoder-decoder", "decoder-only", "encoder-only")
BATCH, SOURCE, TARGET = 2, 9, 7  # of the tiny inputs: three sizes that cannot be confused


class NotExaminable(Exception):
    """Nothing can be said of it; the text says why, and what to do."""


class OutOfTime(BaseException):
    """The time that was allowed is over. Not an Exception: no probe takes it for one of the model's."""


class Subject:
    """Runs the model on ids, (B, T) and, for an encoder-decoder, (B, S), and turns what it gives into (B, T, V)."""

    order: tuple[int, ...] = (0, 1, 2)  # of the output's axes
    shape: tuple[int, ...] = ()  # of its output, once it was called
    flat = False  # its output has one axis for texts and places, (B * T, V)
    shortened = False  # it drops the last token of the target itself
    encode: Call | None = None  # what its owner gave beside it, see `checkup`
    decode: Call | None = None
    loss: Call | None = None
    generate: Call | None = None
    quick = False

    def __init__(
        self, model: Call, module: nn.Module | None, vocab_size: int, special: Special, kind: str | None, limit: float
    ) -> None:
        self.model, self.module, self.vocab_size = model, module, vocab_size
        self.pad_id, self.start_id, self.eos_id = special
        self.deadline = time.monotonic() + limit
        self.words = torch.tensor([i for i in range(vocab_size) if i not in special])
        if len(self.words) < 6:
            raise NotExaminable(f"{len(self.words)} ordinary ids are too few; give a model with vocab_size 10 or more")
        self.declared = kind
        self.by_name = isinstance(model, nn.Module) and hasattr(getattr(model, "config", None), "is_encoder_decoder")
        self.two = self._wants_two(kind)
        self.kind = kind or "encoder-decoder" * self.two
        weights = [] if module is None else list(module.parameters())
        half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in weights)
        self.leak, self.silence = (0.1, 1e-3) if half else (1e-4, 1e-7)  # relative to how far logits spread
        self.device = weights[0].device if weights else torch.device("cpu")

    def _wants_two(self, kind: str | None) -> bool:
        if kind is not None:
            return kind == "encoder-decoder"
        if self.by_name:
            two = bool(self.model.config.is_encoder_decoder)  # type: ignore[attr-defined]
            if not two:
                self.declared = "encoder-only" if "MaskedLM" in type(self.model).__name__ else "decoder-only"
            return two
        call = self.model.forward if isinstance(self.model, nn.Module) else self.model
        try:
            arguments = inspect.signature(call).parameters.values()
        except (TypeError, ValueError):
            return True
        places = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
        needed = [a for a in places if a.default is a.empty]
        if len(needed) > 2:
            names = ", ".join(a.name for a in needed)
            fix = "a function of ids alone, such as lambda src, tgt: model(src, tgt, make_mask(src), make_mask(tgt))"
            raise NotExaminable(f"forward wants {len(needed)} arguments ({names}); give {fix}")
        if len(needed) == 2 or any(a.kind is a.VAR_POSITIONAL for a in arguments):
            return True
        second = places[1].name.lower() if len(places) > 1 else ""
        return any(word in second for word in ("tgt", "target", "trg", "dec", "summary"))

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
        self.set_mode(training)
        try:
            yield
        finally:
            for part, was in before:
                part.training = was

    def set_mode(self, training: bool) -> None:
        """From now on in this mode, where there is a module."""
        if self.module is not None:
            self.module.train(training)

    def ids(self, length: int, rows: int = 1, seed: int = 0) -> Tensor:
        """Ordinary tokens (rows, length), none beside its equal where the vocabulary allows it."""
        dice = torch.Generator().manual_seed(1000 + seed)
        drawn = [self.words[torch.randperm(len(self.words), generator=dice)] for _ in range(rows)]
        return torch.stack([row.repeat(length // len(row) + 1)[:length] for row in drawn])

    def other(self, ids: Tensor) -> Tensor:
        """For each of these tokens another ordinary one."""
        place = torch.searchsorted(self.words, ids.clamp(max=int(self.words[-1])))
        return self.words[(place + 1) % len(self.words)]

    def changed(self, ids: Tensor, place: int | slice) -> Tensor:
        """These ids (B, T) with other ordinary tokens at the place."""
        ids = ids.clone()
        ids[:, place] = self.other(ids[:, place])
        return ids

    def raw(self, tgt: Tensor, src: Tensor | None = None, seed: int = 0) -> Any:
        """What the model returns; its random numbers are the same at every call with this seed."""
        if time.monotonic() > self.deadline:
            raise OutOfTime
        torch.manual_seed(seed)
        tgt = tgt.to(self.device)
        if not self.two:
            hides = self.by_name and self.declared == "encoder-only" and self.pad_id is not None
            return self.model(tgt, **({"attention_mask": tgt.ne(self.pad_id or 0).long()} if hides else {}))
        src = self.ids(SOURCE).expand(len(tgt), -1) if src is None else src
        src = src.to(self.device)
        if self.by_name:
            seen = torch.ones_like(src) if self.pad_id is None else (src != self.pad_id).long()
            return self.model(input_ids=src, attention_mask=seen, decoder_input_ids=tgt)
        return self.model(src, tgt)

    def __call__(self, tgt: Tensor, src: Tensor | None = None, *, grad: bool = False, seed: int = 0) -> Tensor:
        """Logits (B, T, V) in float32."""
        extra = torch.cat([tgt, self.words[:1].expand(len(tgt), 1)], 1) if self.shortened else tgt
        with torch.set_grad_enabled(grad):
            out = self.unrolled(scores(self.raw(extra, src, seed), self.vocab_size), len(tgt)).permute(self.order)
        if out.shape[:2] != tgt.shape:
            raise ValueError(f"ids of shape {tuple(tgt.shape)} gave scores for {tuple(out.shape[:2])}")
        return out.float()

    def apart(self, a: Tensor, b: Tensor, times: float = 1.0) -> bool:
        """Whether scores (B, T, V) differ, by more than rounding leaves of their spread."""
        return bool(gap(a, b).max() > times * self.leak * spread(a))

    def trace(self, *ids: Tensor) -> tuple[list[Step], Tensor]:
        """What its parts do with these ids, and the logits."""
        with traced(self.module) as steps:
            out = self(*ids)
        return steps, out

    def unrolled(self, out: Tensor, rows: int) -> Tensor:
        """What it returns for so many texts, with three axes."""
        return out.reshape(rows, -1, out.shape[-1]) if self.flat else out

    def learn_conventions(self) -> None:
        """Find out by one call how its output is laid out. Raises NotExaminable where no output fits."""
        length = TARGET if self.vocab_size not in (TARGET, BATCH) else TARGET + 4
        tgt, src = self.ids(length, BATCH), self.ids(SOURCE, BATCH, seed=7)
        asked = f"ids of shape {f'{(BATCH, SOURCE)} and ' * self.two}{(BATCH, length)}"
        last = self.words[-1:]
        try:
            with torch.no_grad():
                out = scores(self.raw(tgt, src), self.vocab_size)
                self.raw(last.expand(BATCH, length), last.expand(BATCH, SOURCE))
        except Exception as error:
            fix = (
                "give a function that takes such ids and returns logits, or kind= if it takes another number of inputs"
            )
            if isinstance(error, IndexError):
                asked = f"{asked} from 0 to {self.vocab_size - 1}"
                fix = "an embedding seems to have fewer rows: correct vocab_size, or the embedding"
            raise NotExaminable(f"given {asked}, it raised {short(error)}; {fix}") from None
        self.shape = shape = tuple(out.shape)
        for t in (length, length - 1):
            wanted, flat = (BATCH, t, self.vocab_size), shape == (BATCH * t, self.vocab_size)
            orders = permutations(range(3)) if len(shape) == 3 else ()
            fits = [order for order in orders if tuple(shape[axis] for axis in order) == wanted]
            if fits or flat:
                self.order, self.flat, self.shortened = fits[0] if fits else self.order, flat, t < length
                self(tgt, src)  # of one token more where it drops one
                return
        right = f"where ({BATCH}, {length}, vocab_size={self.vocab_size}) is wanted"
        fix = "return the logits of every position, or correct vocab_size"
        raise NotExaminable(f"given {asked}, it returned shape {shape}, {right}; {fix}")
