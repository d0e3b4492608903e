"""Caches: the keys and values that a decoder has computed so far, so that no token is worked through twice."""

import torch
from torch import Tensor

from tfm_lib.attention import Positions
from tfm_lib.errors import CourseError


class KeyValueCache:
    """The keys and values that one attention has computed so far, in buffers that are allocated once."""

    key: Tensor  # (B, H, capacity, Dh), from the first update on
    value: Tensor

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, H, new, Dh) -> all so far (B, H, length, Dh). Raises ValueError for too many."""
        end = self.length + key.shape[2]
        if end > self.capacity:
            fix = f"build it with capacity={end}, or a DecoderCache with max_length={end}"
            raise CourseError(f"the cache has room for {self.capacity} positions, got {end}; {fix}")
        if not self.length:
            shape = (*key.shape[:2], self.capacity, key.shape[3])
            self.key, self.value = key.new_empty(shape), value.new_empty(shape)
        self.key[:, :, self.length : end] = key
        self.value[:, :, self.length : end] = value
        self.length = end
        return self.all()

    def all(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far (B, H, length, Dh)."""
        return self.key[:, :, : self.length], self.value[:, :, : self.length]

    def select(self, rows: Tensor) -> None:
        """Go on with the sequences `rows` (R,), in this order; one may be named several times."""
        key, value = self.all()
        self.length = 0  # the next update makes buffers of as many rows
        self.update(key[rows], value[rows])


class DecoderCache:
    """For each decoder layer the caches of its self-attention, which grows, and its cross-attention, filled once."""

    def __init__(self, num_layers: int, max_length: int, memory_length: int) -> None:
        self.layers = [(KeyValueCache(max_length), KeyValueCache(memory_length)) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions that were decoded so far."""
        return self.layers[0][0].length

    def positions(self, new: int, device: torch.device) -> Positions:
        """The positions of `new` more tokens, one after the other, and of all keys with them."""
        return Positions.counted(new, self.length + new, self.length, device)

    def select(self, rows: Tensor) -> None:
        """Go on with the sequences `rows` (R,), in this order; one may be named several times."""
        for pair in self.layers:
            for cache in pair:
                cache.select(rows)


class BeamCache(DecoderCache):
    """A cache in which the beams of a source are tokens of one row, side by side at one position."""

    def __init__(self, num_layers: int, max_length: int, memory_length: int, device: torch.device) -> None:
        super().__init__(num_layers, max_length, memory_length)
        self.steps = 0
        self.key_positions = torch.empty(0, dtype=torch.int64, device=device)  # (keys,)

    def begin_step(self, beams: int) -> None:
        """Give the next position to the tokens that come next, so many in each row."""
        self.key_positions = torch.cat([self.key_positions, self.key_positions.new_full((beams,), self.steps)])
        self.steps += 1

    @property
    def length(self) -> int:
        """Target positions that were decoded so far; a step that has begun is not among them."""
        return self.steps - (self.layers[0][0].length < len(self.key_positions))

    def positions(self, new: int, device: torch.device) -> Positions:
        """The one position of all tokens of this step, and those of all keys with them."""
        return Positions(self.key_positions[-1:], self.key_positions)
