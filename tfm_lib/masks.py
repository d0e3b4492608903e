"""What may be seen: masks, and the softmax that obeys them.

A mask is boolean, True means "may attend", and it broadcasts to the scores' shape (B, H, T, S), with all four axes:
one of (B, T, S) would pass for one of (H, T, S) where B equals H. Combine masks with `&`. Masks hide keys, never query
rows. A query that may attend to nothing gets weights of zero and a gradient of zero, in every dtype.
"""

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """True at the keys that are real tokens. ids (B, S) -> (B, 1, 1, S)."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"ids must be a tensor (batch, length), got {type(ids).__name__}; use torch.tensor(ids)")
    check_rank(ids)
    return (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def check_rank(ids: Tensor) -> None:
    """Raise ValueError unless token ids have two axes."""
    if ids.dim() != 2:
        fix = "for one sequence use ids[None]" if ids.dim() == 1 else "give each sequence a row"
        raise ValueError(f"token ids must have shape (batch, length), got {tuple(ids.shape)}; {fix}")


def causal_mask(length: int, past: int = 0, device: torch.device | str | None = None) -> Tensor:
    """True where a key is not in the query's future -> (1, 1, length, past + length).

    The queries are the last `length` of `past + length` positions, as in decoding with a cache.
    """
    if length < 0 or past < 0:
        raise ValueError(f"length and past count positions and can't be negative, got {length} and {past}")
    query = torch.arange(past, past + length, device=device)[:, None]  # (T, 1)
    key = torch.arange(past + length, device=device)  # (S,)
    return (key <= query)[None, None]  # (1, 1, T, S)


def explicit_mask(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """`mask` and, if causal, the mask of the future in one: query (..., T, Dh), key (..., S, Dh) -> (..., T, S).

    The queries are the last T of the S positions. None: nothing is hidden, as from a single query in the last position.
    Raises ValueError or TypeError where there are more queries than keys, or the mask doesn't fit the scores.
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], keys), query.device)
    if not causal or queries == 1:
        return mask
    if queries > keys:
        raise ValueError(
            f"causal attention needs a key for each query, got {queries} queries and {keys} keys; "
            "cross-attention is not causal: leave out causal=True"
        )
    future = causal_mask(queries, keys - queries, query.device)  # (1, 1, T, S)
    if query.dim() < 4:
        future = future[0, 0]  # (T, S)
    return future if mask is None else future & mask


def length_mask(lengths: Tensor, max_length: int) -> Tensor:
    """True at the first `lengths` keys: (B,) -> (B, 1, 1, S), or one length per query: (B, T) -> (B, 1, T, S).

    Raises TypeError unless the lengths are integers, ValueError for another rank or a length outside 0..S.
    """
    if not isinstance(lengths, Tensor):
        raise TypeError(f"lengths must be a tensor, got {type(lengths).__name__}; use torch.tensor(lengths)")
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {lengths.dtype}; convert them with lengths.long()")
    if lengths.dim() not in (1, 2):
        raise ValueError(f"lengths must have shape (batch,) or (batch, queries), got {tuple(lengths.shape)}")
    if lengths.numel() and (lengths.min() < 0 or lengths.max() > max_length):
        raise ValueError(
            f"lengths must lie in 0..{max_length}, the number of keys, got {lengths.min()} to {lengths.max()}; "
            "count the real keys of each row"
        )
    per_query = lengths[:, None, None, None] if lengths.dim() == 1 else lengths[:, None, :, None]
    return torch.arange(max_length, device=lengths.device) < per_query  # (B, 1, 1 or T, S)


def check_mask(mask: Tensor, shape: torch.Size | tuple[int, ...], device: torch.device) -> None:
    """Raise TypeError or ValueError unless `mask` is boolean, on `device`, and broadcasts to the scores' `shape`.

    Scores of four axes want a mask of four, since fewer would be aligned with heads where the batch is meant.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"a mask must be a boolean tensor in which True means 'may attend', got {kind}; "
            "use mask.bool() for one of ones and zeros, mask == 0 for one of 0 and -inf"
        )
    if mask.device != device:
        raise ValueError(f"the mask is on {mask.device} but the scores are on {device}; use mask.to(scores.device)")
    if mask.dim() < len(shape) == 4:
        fix = {3: "mask[:, None] for one of (batch, queries, keys)"}
        fix[2] = "mask[:, None, None] for one of (batch, keys), mask[None, None] for one of (queries, keys)"
        raise ValueError(
            f"scores of shape {tuple(shape)} need a mask of four axes, (batch, heads, queries, keys), "
            f"got {tuple(mask.shape)}; write {fix.get(mask.dim(), 'mask.view(1, 1, 1, -1)')}"
        )
    padded = (1,) * (len(shape) - mask.dim()) + tuple(mask.shape)
    if len(padded) != len(shape) or any(m not in (1, s) for m, s in zip(padded, shape, strict=True)):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to the scores' shape {tuple(shape)}; "
            "the last two axes are (queries, keys), and the axes before them must be 1 or equal"
        )


def masked_softmax(scores: Tensor, mask_or_lengths: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, the keys, in which hidden keys get exactly 0 (the input is left unchanged).

    scores: (B, T, S) or (B, H, T, S), any float dtype; with a mask or nothing, any rank.
    mask_or_lengths: nothing, a boolean mask (True = may attend), or integer lengths as d2l takes them:
        (B,) one number of valid keys per example, or (B, T) one per query.
    Returns the weights in the shape of scores. They sum to 1 over the keys, or to 0 where no key may be seen.
    Raises ValueError or TypeError for a wrong rank, length, dtype, range or device.
    Source: Vaswani et al. 2017, section 3.2.3 ("masking out").
    """
    if not isinstance(scores, Tensor) or not scores.dtype.is_floating_point:
        kind = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"scores must be a tensor of floats, got {kind}; use scores.float()")
    if scores.dim() == 0:
        raise ValueError("scores must have at least one axis, the keys, got a single number")
    if mask_or_lengths is None:
        return scores.softmax(-1)
    if not isinstance(mask_or_lengths, Tensor):
        raise TypeError(
            f"lengths or a mask must be a tensor, got {type(mask_or_lengths).__name__}; use torch.tensor(...)"
        )
    mask = mask_or_lengths
    if mask.dtype != torch.bool:
        mask = _mask_from_lengths(mask, scores)
    check_mask(mask, scores.shape, scores.device)
    nothing_seen = ~mask.any(-1, keepdim=True)
    # Over nothing but -inf, a softmax and its gradient are NaN. Such a row gets scores
    # of 0 and then, like all that is hidden, weights of 0.
    scores = scores.masked_fill(~mask, -torch.inf).masked_fill(nothing_seen, 0.0)
    return scores.softmax(-1).masked_fill(~mask, 0.0)


def _mask_from_lengths(lengths: Tensor, scores: Tensor) -> Tensor:
    if scores.dim() not in (3, 4):
        raise ValueError(
            f"with lengths, scores must have shape (batch, queries, keys) or (batch, heads, queries, keys), "
            f"got {tuple(scores.shape)}; add the missing axes, or pass a boolean mask"
        )
    wanted = (scores.shape[0],) if lengths.dim() == 1 else (scores.shape[0], scores.shape[-2])
    if tuple(lengths.shape) != wanted:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} don't fit scores of shape {tuple(scores.shape)}; give one length "
            f"per example, ({scores.shape[0]},), or one per query, ({scores.shape[0]}, {scores.shape[-2]})"
        )
    mask = length_mask(lengths, scores.shape[-1])  # (B, 1, 1 or T, S)
    return mask if scores.dim() == 4 else mask.squeeze(1)
