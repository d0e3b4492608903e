"""Marian's binary files, which browsers read: the tensors of a model, and the shortlist of its translations."""

import struct
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.errors import CourseError

FLOAT32, INT8, TEXT = 0x0404, 0x4101, 0x0101  # types of items; INT8 is rounded, for the kernels of intgemm
SETTINGS = "special:model.yml"
SHORTLIST = 0xF11A48D5013417F5  # with this number its file begins


def read_items(data: bytes, source: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a Marian binary by their names there, in float32, and what its model.yml says.

    source: what the file is called in errors. Matrices of int8 come back as `nn.Linear` has them, (out, in): so they
    lie in the file, although their shape there is (in, out); the embedding matrix, Wemb, is not turned.
    Raises ValueError for another format, a type that is unknown, and a file that is cut short.
    Source: Junczys-Dowmunt et al. 2018; Marian's src/common/binary.cpp.
    """
    tensors, settings = dict[str, Tensor](), ""
    try:
        for name, kind, shape, place, size in _items(data, source):
            if place + size > len(data):
                raise CourseError(f"{source} is cut short: {name} ends at byte {place + size:,} of {len(data):,}")
            if name == SETTINGS:
                settings = data[place : place + size].rstrip(b"\0").decode()
            elif not name.endswith("_QuantMultA"):  # by what an int8 engine multiplies activations
                tensors[name] = _tensor(data, place, name, kind, shape, source)
    except (struct.error, ValueError) as error:
        if isinstance(error, CourseError):
            raise
        raise CourseError(f"{source} is cut short or altered ({error}); fetch it anew") from error
    return tensors, dict(line.split(": ", 1) for line in settings.splitlines() if ": " in line)


def _items(data: bytes, source: str) -> Iterator[tuple[str, int, tuple[int, ...], int, int]]:
    """Of each item the name, the type, the shape, where it begins, and its bytes, as the head of the file says."""
    version, count = struct.unpack_from("<2Q", data)
    if version != 1 or count > len(data):
        raise CourseError(f"{source} is no Marian binary of version 1; fetch it anew")
    headers = [struct.unpack_from("<4Q", data, 16 + 32 * i) for i in range(count)]
    place, names, shapes = 16 + 32 * count, list[str](), list[tuple[int, ...]]()
    for length, *_ in headers:
        names.append(data[place : place + length - 1].decode())  # without its NUL
        place += length
    for _, _, rank, _ in headers:
        shapes.append(struct.unpack_from(f"<{rank}i", data, place))
        place += 4 * rank
    (padding,) = struct.unpack_from("<Q", data, place)
    place += 8 + padding
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        yield name, kind, shape, place, size
        place += size


def _tensor(data: bytes, place: int, name: str, kind: int, shape: Sequence[int], source: str) -> Tensor:
    size = torch.Size(shape).numel()
    if kind == FLOAT32:
        return torch.frombuffer(bytearray(data[place : place + 4 * size]), dtype=torch.float32).view(shape)
    if kind != INT8:
        raise CourseError(f"{source}: {name} is of the type {kind:#06x}; readable are float32 and the int8 of intgemm")
    (scale,) = struct.unpack_from("<f", data, place + size)
    rounded = torch.frombuffer(bytearray(data[place : place + size]), dtype=torch.int8)
    return rounded.view(shape if name == "Wemb" else shape[::-1]).float() / scale


class Shortlist:
    """Which tokens may be in a translation, by what is in the source: a few hundred in place of 32,000.

    Source: Jean et al. 2015, "On Using Very Large Target Vocabulary"; Marian's src/data/shortlist.cpp for the file.
    """

    def __init__(self, data: bytes, vocab_size: int, source: str) -> None:
        """Raises ValueError for another format, and for a file that is cut short."""
        try:
            magic, _, self.first, _, words, found = struct.unpack_from("<6Q", data)
        except struct.error:
            magic = words = found = 0
        if magic != SHORTLIST or len(data) != 48 + 8 * words + 4 * found:
            raise CourseError(f"{source} is no shortlist of Marian's, or is cut short; fetch it anew")
        self.vocab_size = vocab_size
        self.offsets = torch.frombuffer(bytearray(data[48 : 48 + 8 * words]), dtype=torch.int64)
        self.ids = torch.frombuffer(bytearray(data[48 + 8 * words :]), dtype=torch.int32).long()

    def __call__(self, source: Sequence[int]) -> Tensor:
        """The ids that may follow from those of a source, in their order: (n,), where 8 divides n."""
        allowed = torch.zeros(self.vocab_size, dtype=torch.bool)
        allowed[: self.first] = True
        for i in set(source):
            allowed[self.ids[self.offsets[i] : self.offsets[i + 1]]] = True
        missing = (~allowed).nonzero().squeeze(1)
        allowed[missing[: -int(allowed.sum()) % 8]] = True
        return allowed.nonzero().squeeze(1)


class ShortOutput(nn.Module):
    """An output projection that computes the logits of a shortlist only; all others are -inf."""

    def __init__(self, output: nn.Linear, ids: Tensor) -> None:
        super().__init__()
        self.ids, self.vocab_size = ids, output.out_features
        self.weight, self.bias = output.weight[ids], output.bias[ids]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, V)."""
        logits = x.new_full((*x.shape[:-1], self.vocab_size), -torch.inf)
        logits[..., self.ids] = F.linear(x, self.weight, self.bias)
        return logits
