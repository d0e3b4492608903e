"""Four bits a weight: whole numbers from -7 to 7, two in a byte, and a step in half precision for each group.

Lesson 17 builds this; checkpoints use it. To compute, weights are unpacked: it is the file that shrinks.
"""

import torch
from torch import Tensor

from tfm_lib.errors import CourseError

GROUP = 32  # weights of a row that share a step
TOP = 7  # the largest whole number; 8 is added, so that a half of a byte has no sign
STEP = ".step"  # behind the name of a packed tensor: its steps


def can_pack(weight: Tensor) -> bool:
    """Whether it is a matrix of floating-point numbers whose rows are whole groups."""
    return weight.dim() == 2 and weight.dtype.is_floating_point and not weight.shape[1] % GROUP


def pack(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight (N, M) -> bytes (N, M / 2), each with two neighbors, the first one in its lower half; steps (N, M / 32).

    Each weight goes to the nearest multiple of its group's step. A group of zeros has the step 0.
    Raises ValueError for another shape than `can_pack` takes, and for weights that are not finite or too large.
    """
    if not can_pack(weight):
        raise CourseError(
            f"only matrices of numbers whose rows are a multiple of {GROUP} long are packed, got {weight.dtype} of "
            f"shape {tuple(weight.shape)}; keep this one in half precision"
        )
    groups = weight.detach().float().unflatten(1, (-1, GROUP))  # (N, M / 32, 32)
    steps = (groups.abs().amax(-1) / TOP).half()  # (N, M / 32)
    if not steps.isfinite().all():
        raise CourseError(
            f"weights reach {weight.abs().max():.3g}, and a step in half precision can't be as large; "
            f"look for NaN, or scale them to at most {TOP * torch.finfo(torch.float16).max:,.0f}"
        )
    divisors = steps.float().where(steps > 0, 1.0)[..., None]
    codes = (groups / divisors).round().clamp(-TOP, TOP).flatten(1)  # (N, M)
    low, high = (codes + TOP + 1).to(torch.uint8).unflatten(1, (-1, 2)).unbind(-1)  # (N, M / 2) each
    return low | high << 4, steps


def unpack(packed: Tensor, steps: Tensor) -> Tensor:
    """What `pack` gave -> weights (N, M) in single precision."""
    codes = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1).float() - (TOP + 1)  # (N, M)
    return (codes.unflatten(1, (-1, GROUP)) * steps.float()[..., None]).flatten(1)


def pack_all(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with each that can be packed as bytes and steps, all other numbers in half precision."""
    packed = {}
    for name, tensor in tensors.items():
        if can_pack(tensor):
            packed[name], packed[name + STEP] = pack(tensor)
        else:
            packed[name] = tensor.half() if tensor.dtype.is_floating_point else tensor
    return packed


def unpack_all(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `pack_all` packed, unpacked; all else as it is."""
    steps = {name for name in tensors if name.endswith(STEP) and name.removesuffix(STEP) in tensors}
    weights = {name: tensor for name, tensor in tensors.items() if name not in steps}
    for step in steps:
        name = step.removesuffix(STEP)
        weights[name] = unpack(tensors[name], tensors[step])
    return weights
