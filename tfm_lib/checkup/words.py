"""Ordinary tokens of one side, source or target: drawn, exchanged for others, padded."""

import torch
from torch import Tensor


class NotExaminable(Exception):
    """Nothing can be said of a model; the text says why, and what to do."""


class Words:
    """The ids 0..size - 1 of one side; ordinary are those that are no special token."""

    def __init__(self, size: int, special: set[int | None], pad_id: int | None) -> None:
        """Raises NotExaminable where fewer than six ids are ordinary."""
        self.size, self.pad_id = size, pad_id
        self.ordinary = torch.tensor([i for i in range(size) if i not in special])
        self.unknown = self.ordinary[:0]  # to an embedding that takes them for one word, as of a model that copies
        if len(self.ordinary) < 6:
            raise NotExaminable(
                f"{len(self.ordinary)} ordinary ids are too few; give a model with vocab_size 10 or more"
            )

    def ids(self, length: int, rows: int = 1, seed: int = 0) -> Tensor:
        """Ordinary tokens (rows, length), none beside its equal where the vocabulary allows it."""
        dice = torch.Generator().manual_seed(1000 + seed)
        drawn = [self.ordinary[torch.randperm(len(self.ordinary), generator=dice)] for _ in range(rows)]
        return torch.stack([row.repeat(length // len(row) + 1)[:length] for row in drawn])

    def other(self, ids: Tensor) -> Tensor:
        """For each of these tokens another ordinary one."""
        place = torch.searchsorted(self.ordinary, ids.clamp(max=int(self.ordinary[-1])).contiguous())
        return self.ordinary[(place + 1) % len(self.ordinary)]

    def changed(self, ids: Tensor, place: int | slice) -> Tensor:
        """These ids (B, T) with other ordinary tokens at the place."""
        ids = ids.clone()
        ids[:, place] = self.other(ids[:, place])
        return ids

    def seen(self, ids: Tensor) -> Tensor:
        """1 for each token, and 0 for padding."""
        return torch.ones_like(ids) if self.pad_id is None else (ids != self.pad_id).long()

    def padded(self, ids: Tensor, length: int) -> Tensor:
        """These ids (B, T), filled up with pad_id to (B, length)."""
        return torch.cat([ids, torch.full((len(ids), length - ids.shape[1]), self.pad_id or 0)], 1)

    def mixed(self, lengths: tuple[int, ...], seed: int = 0) -> Tensor:
        """A batch of texts of these lengths, padded to the longest (B, T)."""
        texts = self.ids(max(lengths), len(lengths), seed)
        hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
        return texts.masked_fill(hidden, self.pad_id or 0)
