"""Positions: attention does not see order, so each token's vector is told where it stands."""

from typing import Any

import torch
from torch import Tensor, nn


def check_sinusoids(d_model: int, endpoint: bool, step: int = 1) -> None:
    """Raise ValueError unless sinusoids can fill d_model. `step` is by how much it may grow: the number of heads."""
    if d_model < 2 or d_model % 2:
        raise ValueError(
            f"sinusoids come in pairs of a sine and a cosine, so d_model must be even, got {d_model}; "
            f"use {d_model + step}, or learned positions"
        )
    if endpoint and d_model == 2:
        raise ValueError("endpoint=True needs a first and a last pair, got d_model 2; use 4, or endpoint=False")


def sinusoidal_table(num_positions: int, d_model: int, interleaved: bool = True, endpoint: bool = False) -> Tensor:
    """Sines and cosines of d_model / 2 frequencies -> (num_positions, d_model), float32.

    Pair i turns by 10000^(-2i / d_model) radians a position: the first pair is the fastest, the last the slowest.
    interleaved: sine and cosine alternate (the paper); otherwise all sines stand before all cosines (Marian).
    endpoint: the last pair turns by exactly 1 / 10000 (Marian's own files): i is divided by d_model / 2 - 1.
    Raises ValueError for an odd d_model, and for 2 with endpoint. Source: Vaswani et al. 2017, section 3.5.
    """
    check_sinusoids(d_model, endpoint)
    position = torch.arange(num_positions)[:, None]  # (P, 1)
    pair = torch.arange(d_model // 2, dtype=torch.float64)  # (D/2,)
    # In float64, since float32 rounds the angle of a far position by more than 1e-4.
    angle = position * 10000 ** (-pair / (d_model // 2 - endpoint))  # (P, D/2)
    if interleaved:
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (P, D/2, 2) -> (P, D)
    else:
        table = torch.cat([angle.sin(), angle.cos()], dim=1)  # (P, D)
    return table.float()


class _Positions(nn.Module):
    """Adds row `offset + position` of a table to each token's vector."""

    table: Tensor

    def __init__(self, max_length: int, offset: int) -> None:
        super().__init__()
        self.max_length, self.offset = max_length, offset

    def forward(self, x: Tensor, past: int = 0) -> Tensor:
        """x (B, T, D), whose first token stands at position `past` -> (B, T, D).

        Raises ValueError for a sequence longer than the table.
        """
        end = past + x.shape[1]
        if end > self.max_length:
            raise ValueError(
                f"the sequence has {end} positions but the table only {self.max_length}; "
                f"shorten it, or build the model with max_length={end}"
            )
        return x + self.table[self.offset + past : self.offset + end]  # (B, T, D) + (T, D)


class SinusoidalPositions(_Positions):
    """The fixed table of sines and cosines. It is no parameter and not saved, since it can be recomputed."""

    def __init__(
        self, d_model: int, max_length: int = 512, offset: int = 0, interleaved: bool = True, endpoint: bool = False
    ) -> None:
        super().__init__(max_length, offset)
        self.sizes = (max_length + offset, d_model, interleaved, endpoint)
        self.register_buffer("table", sinusoidal_table(*self.sizes), persistent=False)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        if self.table.is_meta:  # built there, it holds nothing, and no checkpoint has it
            self.table = sinusoidal_table(*self.sizes)


class LearnedPositions(_Positions):
    """A table that is trained like any other weight. Source: Gehring et al. 2017, section 3.1."""

    def __init__(self, d_model: int, max_length: int = 512, offset: int = 0) -> None:
        super().__init__(max_length, offset)
        self.table = nn.Parameter(torch.randn(max_length + offset, d_model) * d_model**-0.5)
