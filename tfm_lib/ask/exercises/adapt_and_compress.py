"""The exercises of lesson 17."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: what LoRA trains


@exercise(
    difficulty=1,
    minutes=4,
    trains="counting what LoRA trains",
    right="It grows with the sides of the matrices rather than their areas, so its share shrinks as the model grows.",
)
def count() -> int:
    return 12 * 2 * 4 * (512 + 512)


@count.mistake
def half_of_it() -> int:
    """That is half of it. Each attention has two matrices that are changed, and each of them gets both A and B."""
    return 12 * 2 * 4 * 512


@count.mistake
def full_size() -> int:
    """That is what full fine-tuning trains in these matrices. A has 4 rows, B has 4 columns."""
    return 12 * 2 * 512 * 512


@count.mistake
def no_rank() -> int:
    """That is for rank 1; of rank 4, A has 4 rows, and B 4 columns."""
    return 12 * 2 * (512 + 512)


@count.mistake
def area_of_a_product() -> int:
    """A and B are stored side by side, so their numbers add up: 4 x 512 and 512 x 4."""
    return 12 * 2 * 4 * 512 * 512


# ----------------------------------------------------------------------------------------------------
# 2: merging


def changed(draw: Draw) -> Iterator[Inputs]:
    yield {
        "weight": torch.eye(2),
        "a": torch.tensor([[1.0, 2.0]]),
        "b": torch.tensor([[3.0], [4.0]]),
        "alpha": 2.0,
    }
    yield {"weight": draw(3, 3), "a": draw(2, 3), "b": draw(3, 2), "alpha": 8.0}
    yield {"weight": draw(4, 4), "a": draw(4, 4), "b": draw(4, 4), "alpha": 1.0}


@exercise(
    difficulty=2,
    minutes=6,
    trains="merging a change into its matrix",
    right="From then on the change costs nothing, and can no longer be switched off.",
    cases=changed,
)
def merge(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    return weight + alpha / len(a) * b @ a


@merge.mistake
def no_scale(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """The factor alpha / r is missing."""
    return weight + b @ a


@merge.mistake
def not_by_rank(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """You multiply by alpha, but you must also divide by the rank, the number of rows of A."""
    return weight + alpha * b @ a


@merge.mistake
def transposed(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """Your change is transposed: it takes outputs for inputs."""
    return weight + alpha / len(a) * (b @ a).T


@merge.mistake
def only_the_change(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """That is the change alone; it has to be added to the weight."""
    return alpha / len(a) * b @ a


@merge.mistake
def upside_down(weight: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """You multiply by r / alpha: a larger alpha must make the change larger."""
    return weight + len(a) / alpha * b @ a


# ----------------------------------------------------------------------------------------------------
# 3: the bytes of a file


@exercise(
    difficulty=1,
    minutes=4,
    trains="the bytes of a quantized file",
    right="Steps take memory, too: with groups of 64, four bits become four and a quarter.",
)
def file_size() -> int:
    return 1_000_000 // 2 + 2 * (1_000_000 // 64)


@file_size.mistake
def no_steps() -> int:
    """The steps are missing: one for each group, with two bytes."""
    return 1_000_000 // 2


@file_size.mistake
def a_byte_each() -> int:
    """Two numbers of 4 bits share a byte."""
    return 1_000_000 + 2 * (1_000_000 // 64)


@file_size.mistake
def bits_for_bytes() -> int:
    """That is in bits; a byte has 8 of them."""
    return 4 * 1_000_000 + 16 * (1_000_000 // 64)


@file_size.mistake
def a_byte_a_step() -> int:
    """A step has 16 bits, that is, two bytes."""
    return 1_000_000 // 2 + 1_000_000 // 64


@file_size.mistake
def a_step_for_each() -> int:
    """That is a step for each weight; 64 of them share one."""
    return 1_000_000 // 2 + 2 * 1_000_000


# ----------------------------------------------------------------------------------------------------
# 4: a grid for each row


def matrices(draw: Draw) -> Iterator[Inputs]:
    yield {"weight": torch.tensor([[0.7, -0.32, 0.04], [-7.0, 2.6, 1.0]]), "bits": 4}
    yield {"weight": draw(3, 5), "bits": 3}
    yield {"weight": draw(4, 8), "bits": 8}
    yield {"weight": torch.tensor([[0.0, 0.0], [1.0, -0.4]]), "bits": 2}


def _rounded(weight: Tensor, top: float, dim: int | None = 1) -> Tensor:
    largest = weight.abs().amax() if dim is None else weight.abs().amax(dim, keepdim=True)
    step = (largest / top).clamp(min=1e-12)
    return (weight / step).round() * step


@exercise(
    difficulty=3,
    minutes=10,
    trains="a grid for each row",
    right="A row with small weights keeps its details, even if other rows contain large ones.",
    cases=matrices,
)
def rows(weight: Tensor, bits: int) -> Tensor:
    return _rounded(weight, 2 ** (bits - 1) - 1)


@rows.mistake
def one_step_for_all(weight: Tensor, bits: int) -> Tensor:
    """Your step is that of the whole matrix; each row has its own largest weight."""
    return _rounded(weight, 2 ** (bits - 1) - 1, dim=None)


@rows.mistake
def one_too_many(weight: Tensor, bits: int) -> Tensor:
    """You divide by a power of two. Zero needs a point of the grid as well, so the largest whole number is one less:
    7 with 4 bits."""
    return _rounded(weight, 2 ** (bits - 1))


@rows.mistake
def without_a_sign(weight: Tensor, bits: int) -> Tensor:
    """You spend all bits on the size; one of them is needed for the sign."""
    return _rounded(weight, 2**bits - 1)


@rows.mistake
def by_columns(weight: Tensor, bits: int) -> Tensor:
    """Your steps are those of the columns; a row is what one output is made of."""
    return _rounded(weight, 2 ** (bits - 1) - 1, dim=0)


@rows.mistake
def cut_off(weight: Tensor, bits: int) -> Tensor:
    """You cut off towards zero; the nearest point is wanted, so round."""
    step = (weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)).clamp(min=1e-12)
    return (weight / step + 1e-6 * weight.sign()).trunc() * step


@rows.mistake
def without_the_way_back(weight: Tensor, bits: int) -> Tensor:
    """These are the whole numbers; multiply each by the step of its row to get weights again."""
    step = (weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)).clamp(min=1e-12)
    return (weight / step).round()


# ----------------------------------------------------------------------------------------------------
# 5: two in a byte


def nibbles(draw: Draw) -> Iterator[Inputs]:
    yield {"packed": torch.tensor([0x6F, 0x89], dtype=torch.uint8)}
    yield {"packed": draw.integers(0, 256, 5).to(torch.uint8)}
    yield {"packed": torch.tensor([0x11, 0xFF, 0x88], dtype=torch.uint8)}


@exercise(
    difficulty=2,
    minutes=8,
    trains="two weights in a byte",
    right="A file of 4-bit numbers needs only this step to become a model that computes with 32.",
    cases=nibbles,
)
def unpack(packed: Tensor) -> Tensor:
    return torch.stack([packed & 15, packed >> 4], dim=1).flatten().long() - 8


@unpack.mistake
def no_offset(packed: Tensor) -> Tensor:
    """Your numbers run from 0 to 15; before packing, 8 was added to each."""
    return torch.stack([packed & 15, packed >> 4], dim=1).flatten().long()


@unpack.mistake
def swapped(packed: Tensor) -> Tensor:
    """You return the upper half of each byte first, but the first number is in the lower half."""
    return torch.stack([packed >> 4, packed & 15], dim=1).flatten().long() - 8


@unpack.mistake
def not_side_by_side(packed: Tensor) -> Tensor:
    """You return all lower halves and then all upper ones; they belong side by side, byte by byte."""
    return torch.cat([packed & 15, packed >> 4]).long() - 8


@unpack.mistake
def not_moved_down(packed: Tensor) -> Tensor:
    """Your upper halves are 16 times too large: move them down by four places."""
    return torch.stack([packed & 15, packed & 240], dim=1).flatten().long() - 8


@unpack.mistake
def taken_too_early(packed: Tensor) -> Tensor:
    """You subtract 8 while the numbers are bytes, which have no sign: below zero they begin again at 255."""
    return (torch.stack([packed & 15, packed >> 4], dim=1).flatten() - 8).long()


# ----------------------------------------------------------------------------------------------------
# 6: magnitude pruning


def weights(draw: Draw) -> Iterator[Inputs]:
    yield {"weight": torch.tensor([[0.5, -3.0], [0.1, 2.0]]), "share": 0.5}
    yield {"weight": torch.tensor([[-1.0, 0.2, 4.0, -0.3], [0.6, -5.0, 0.7, 0.9]]), "share": 0.25}
    yield {"weight": torch.arange(-9.0, 11.0).mul(1.1).add(0.3).view(4, 5), "share": 0.75}


def _without(weight: Tensor, lost: Tensor) -> Tensor:
    return weight.flatten().index_fill(0, lost, 0.0).view_as(weight)


@exercise(
    difficulty=2,
    minutes=8,
    trains="magnitude pruning",
    right="The distance from zero decides, in the whole matrix.",
    cases=weights,
)
def prune(weight: Tensor, share: float) -> Tensor:
    return _without(weight, weight.abs().flatten().argsort()[: int(share * weight.numel())])


@prune.mistake
def with_sign(weight: Tensor, share: float) -> Tensor:
    """You take the smallest numbers, and those are the negative ones. Nearest to zero is meant: take absolute
    values."""
    return _without(weight, weight.flatten().argsort()[: int(share * weight.numel())])


@prune.mistake
def the_large_ones(weight: Tensor, share: float) -> Tensor:
    """You remove the largest weights; they matter most."""
    return _without(weight, weight.abs().flatten().argsort(descending=True)[: int(share * weight.numel())])


@prune.mistake
def keeps_the_share(weight: Tensor, share: float) -> Tensor:
    """You *keep* this share, but it must be removed."""
    return _without(weight, weight.abs().flatten().argsort()[: round((1 - share) * weight.numel())])


@prune.mistake
def below_a_share_of_the_largest(weight: Tensor, share: float) -> Tensor:
    """You remove the weights below a share of the largest one, so their number depends on the matrix. Remove a share of
    all weights."""
    return weight.where(weight.abs() > share * weight.abs().max(), 0.0)


@prune.mistake
def row_by_row(weight: Tensor, share: float) -> Tensor:
    """You prune each row by itself; take the smallest of the whole matrix."""
    lost = weight.abs().argsort(dim=1)[:, : int(share * weight.shape[1])]
    return weight.scatter(1, lost, 0.0)


# ----------------------------------------------------------------------------------------------------
# 7: the loss of distillation


def logits(draw: Draw) -> Iterator[Inputs]:
    yield {"student": torch.tensor([[0.0, 0.0]]), "teacher": torch.tensor([[2.0, 0.0]]), "T": 2.0}
    yield {"student": draw(3, 5), "teacher": draw(3, 5), "T": 1.0}
    yield {"student": draw(4, 6), "teacher": draw(4, 6), "T": 4.0}


@exercise(
    difficulty=3,
    minutes=10,
    trains="the loss of distillation",
    right="The factor keeps its gradients as large as those of the usual loss, at any temperature.",
    cases=logits,
)
def distill(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    return T**2 * F.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")


@distill.mistake
def no_factor(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """The factor T squared is missing, and your loss shrinks as the temperature rises."""
    return F.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")


@distill.mistake
def factor_once(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """You multiply by T; gradients shrink with its square."""
    return T * F.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")


@distill.mistake
def mean_over_words(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """You divide by the size of the vocabulary as well: `mean` is the mean over all numbers. Sum over the vocabulary,
    and take the mean over the positions."""
    return T**2 * F.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="mean")


@distill.mistake
def other_way_round(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """You have swapped the two. The weights in the sum are the teacher's probabilities."""
    return T**2 * F.kl_div((teacher / T).log_softmax(-1), (student / T).softmax(-1), reduction="batchmean")


@distill.mistake
def only_the_teacher(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """You soften the teacher alone; the student would have to learn flat distributions. Divide both logits by T."""
    return T**2 * F.kl_div(student.log_softmax(-1), (teacher / T).softmax(-1), reduction="batchmean")


@distill.mistake
def summed(student: Tensor, teacher: Tensor, T: float) -> Tensor:
    """That is the sum over all positions; take their mean."""
    return T**2 * F.kl_div((student / T).log_softmax(-1), (teacher / T).softmax(-1), reduction="sum")


# ----------------------------------------------------------------------------------------------------
# 8: the router


def routed(draw: Draw) -> Iterator[Inputs]:
    yield {"logits": torch.tensor([[2.0, 0.0, 1.0]]), "k": 2}
    yield {"logits": draw(4, 5), "k": 2}
    yield {"logits": draw(3, 4), "k": 1}
    yield {"logits": draw(2, 3), "k": 3}


@exercise(
    difficulty=3,
    minutes=10,
    trains="choosing experts",
    right="All experts but k get exactly zero, so they need not compute anything.",
    cases=routed,
)
def route(logits: Tensor, k: int) -> Tensor:
    best = logits.topk(k)
    return torch.zeros_like(logits).scatter(1, best.indices, best.values.softmax(-1))


@route.mistake
def not_scaled(logits: Tensor, k: int) -> Tensor:
    """Your weights do not sum to 1: divide by the sum of those k that are kept."""
    best = logits.softmax(-1).topk(k)
    return torch.zeros_like(logits).scatter(1, best.indices, best.values)


@route.mistake
def all_work(logits: Tensor, k: int) -> Tensor:
    """All experts get a weight here, so all must compute; keep the k largest."""
    return logits.softmax(-1)


@route.mistake
def softmax_twice(logits: Tensor, k: int) -> Tensor:
    """You take a softmax of probabilities, which flattens them; one softmax of the k chosen *logits* is enough."""
    best = logits.softmax(-1).topk(k)
    return torch.zeros_like(logits).scatter(1, best.indices, best.values.softmax(-1))


@route.mistake
def all_alike(logits: Tensor, k: int) -> Tensor:
    """You give all chosen experts the same weight; the one with the larger probability gets the larger weight."""
    return torch.zeros_like(logits).scatter(1, logits.topk(k).indices, 1 / k)


@route.mistake
def the_worst(logits: Tensor, k: int) -> Tensor:
    """You chose the experts with the smallest probabilities."""
    best = logits.topk(k, largest=False)
    return torch.zeros_like(logits).scatter(1, best.indices, best.values.softmax(-1))


# ----------------------------------------------------------------------------------------------------
# 9: balance


def chances(draw: Draw) -> Iterator[Inputs]:
    yield {"chances": torch.tensor([[0.9, 0.1], [0.7, 0.3]]), "k": 1}
    yield {"chances": draw(6, 4).softmax(-1), "k": 2}
    yield {"chances": draw(5, 3).softmax(-1), "k": 1}
    yield {"chances": draw(4, 5).softmax(-1), "k": 3}


def _shares(chances: Tensor, k: int) -> Tensor:
    return F.one_hot(chances.topk(k).indices, chances.shape[1]).sum(1).float().mean(0)


@exercise(
    difficulty=3,
    minutes=10,
    trains="the loss for balance",
    right="In balance it is k for any number of experts, because of the factor E.",
    cases=chances,
)
def balance(chances: Tensor, k: int) -> Tensor:
    return chances.shape[1] * (_shares(chances, k) * chances.mean(0)).sum()


@balance.mistake
def no_experts(chances: Tensor, k: int) -> Tensor:
    """The number of experts is missing as a factor; without it the loss in balance depends on how many there are."""
    return (_shares(chances, k) * chances.mean(0)).sum()


@balance.mistake
def divided_by_k(chances: Tensor, k: int) -> Tensor:
    """Your shares sum to 1. Each word makes k choices here, so that they sum to k."""
    return balance.reference(chances, k) / k


@balance.mistake
def chances_twice(chances: Tensor, k: int) -> Tensor:
    """You square the mean probabilities. One factor must count the words that really went to each expert."""
    return chances.shape[1] * chances.mean(0).square().sum()


@balance.mistake
def summed_over_words(chances: Tensor, k: int) -> Tensor:
    """You sum the probabilities over the words; take their mean, or longer texts get a larger loss."""
    return chances.shape[1] * (_shares(chances, k) * chances.sum(0)).sum()


@balance.mistake
def only_the_first_choice(chances: Tensor, k: int) -> Tensor:
    """You count the best expert of each word alone; all k choices count."""
    return chances.shape[1] * (_shares(chances, 1) * chances.mean(0)).sum()
