"""A decoder's self-attention that is recurrent: its weights come from gates, so that a step needs no queries."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.attention import Cache, Positions
from tfm_lib.masks import explicit_mask


class SSRU(nn.Module):
    """A simpler simple recurrent unit, with the signature of `MultiHeadAttention.forward`, in whose place it stands.

    With a forget gate f_t = sigmoid(W_f x_t + b_f), the state c_t = f_t * c_(t-1) + (1 - f_t) * W x_t and the output
    relu(c_t). Written out, c_t is attention without a query: step j has the weight (1 - f_j) * f_(j+1) * ... * f_t,
    a number per entry of the state. So gates and candidates W x are what a cache keeps of a step, in place of its key
    and value, and a step that the mask hides from a query neither forgets nor adds: its f is 1.
    key (B, S, D), of which query (B, T, D) counts the rows only, mask broadcastable to (B, 1, T, S) -> (B, T, D).
    Source: Kim et al. 2019, "From Research to Production and Back".
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.forget_proj = nn.Linear(d_model, d_model)
        self.candidate_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        positions: Positions | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        forget = self.forget_proj(key).sigmoid()[:, None]  # (B, 1, S, D): one head
        candidate = self.candidate_proj(key)[:, None]
        if cache is not None:
            forget, candidate = cache.update(forget, candidate)
        mask = explicit_mask(query[:, None], forget, mask, causal)
        forget, candidate = forget[:, :, None], candidate[:, :, None]  # (B, 1, 1, S, D): the same for all queries
        if mask is not None:
            forget = torch.where(mask[..., None], forget, 1.0)  # (B, 1, T, S, D)
        after = F.pad(forget, (0, 0, 0, 1), value=1.0)[..., 1:, :]  # the gates of the steps after j
        weights = (1 - forget) * after.flip(-2).cumprod(-2).flip(-2)
        return (weights * candidate).sum(-2)[:, 0].relu()  # (B, T, D)
