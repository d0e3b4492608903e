"""The exercises of lesson 14."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tfm_lib.ask.exercise import Draw, Inputs, exercise


@exercise(
    difficulty=1,
    minutes=5,
    trains="whole strings and single digits",
    right="A score of single digits says little about whole strings, and less the longer they are.",
    tolerance=1e-3,
)
def half() -> float:
    return 0.5 ** (1 / 20)


@half.mistake
def divided() -> float:
    """You divided the mistakes among the digits; probabilities of digits in a row are multiplied."""
    return 1 - 0.5 / 20


@half.mistake
def half_of_the_digits() -> float:
    """With half of the digits right, about one string in a million is whole."""
    return 0.5


@half.mistake
def half_to_the_twentieth() -> float:
    """That is the share of whole strings when half of the digits are right; asked is the other way round."""
    return 0.5**20


def sequences(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[[1.0], [0.0], [0.0]]]), "W": torch.tensor([[1.0]]), "U": torch.tensor([[2.0]])}
    yield {"x": draw(2, 4, 3), "W": draw(5, 3), "U": draw(5, 5)}


@exercise(
    difficulty=2,
    minutes=10,
    trains="the loop that cannot be cut",
    right="Each state needs the one before: this loop is what a GPU has to wait for.",
    cases=sequences,
)
def recurrence(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    h, states = x.new_zeros(len(x), len(W)), []
    for x_t in x.unbind(1):
        h = (x_t @ W.T + h @ U.T).tanh()
        states.append(h)
    return torch.stack(states, dim=1)


@recurrence.mistake
def without_the_past(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """Your state knows its own input only; add what U makes of the state before."""
    return (x @ W.T).tanh()


@recurrence.mistake
def added_to_the_past(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """You add the old state itself as well; in the plain form only what U makes of it comes in."""
    h, states = x.new_zeros(len(x), len(W)), []
    for x_t in x.unbind(1):
        h = h + (x_t @ W.T + h @ U.T).tanh()
        states.append(h)
    return torch.stack(states, dim=1)


@recurrence.mistake
def linear(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """The tanh is missing, which keeps every number of the state between -1 and 1."""
    h, states = x.new_zeros(len(x), len(W)), []
    for x_t in x.unbind(1):
        h = x_t @ W.T + h @ U.T
        states.append(h)
    return torch.stack(states, dim=1)


@recurrence.mistake
def transposed(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """U stands on its side: a row of h times U.T is U h."""
    return recurrence.reference(x, W, U.T)


@recurrence.mistake
def only_the_last(x: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """That is the last state; asked are all of them, (B, n, H)."""
    return recurrence.reference(x, W, U)[:, -1]


@exercise(
    difficulty=1,
    minutes=5,
    trains="costs with the width in them",
    right="Up to twice the width, attention has less to compute than an LSTM.",
)
def crossing() -> int:
    return 2048


@crossing.mistake
def without_projections() -> int:
    """You left out the four projections, 8nd^2: attention has them at any length."""
    return 4096


@crossing.mistake
def of_a_gru() -> int:
    """That is where a GRU is overtaken, with its 12nd^2; an LSTM takes 16nd^2."""
    return 1024


@crossing.mistake
def of_the_square_alone() -> int:
    """You set n^2 d equal to n d^2, without the factors; the formulas have 8, 4 and 16."""
    return 16 * 1024


def stacks(draw: Draw) -> Iterator[Inputs]:
    yield {"kernel": 3, "gaps": [1]}
    yield {"kernel": 3, "gaps": [1, 3]}
    yield {"kernel": 2, "gaps": [1, 2, 4, 8]}
    yield {"kernel": 5, "gaps": [1, 1]}


@exercise(
    difficulty=2,
    minutes=8,
    trains="receptive fields",
    right="What is outside cannot be learned, whatever the data: count before you train.",
    cases=stacks,
)
def reach(kernel: int, gaps: list[int]) -> int:
    return 1 + sum((kernel - 1) * gap for gap in gaps)


@reach.mistake
def without_itself(kernel: int, gaps: list[int]) -> int:
    """That is how far back it reaches; its own position counts, too."""
    return sum((kernel - 1) * gap for gap in gaps)


@reach.mistake
def kernels_added(kernel: int, gaps: list[int]) -> int:
    """You add whole kernels; each layer shares one position with the one below."""
    return sum(kernel * gap for gap in gaps)


@reach.mistake
def widest_layer(kernel: int, gaps: list[int]) -> int:
    """That is the widest layer alone; the reaches of the layers add up."""
    return 1 + (kernel - 1) * max(gaps)


@reach.mistake
def side_by_side(kernel: int, gaps: list[int]) -> int:
    """You left out the gaps: a layer with a gap of 3 reaches three times as far."""
    return 1 + (kernel - 1) * len(gaps)


def signals(draw: Draw) -> Iterator[Inputs]:
    yield {"x": torch.tensor([[1.0, 1.0, 1.0]]), "a": 0.5}
    yield {"x": draw(2, 6), "a": 0.9}
    yield {"x": draw(3, 5), "a": -0.5}
    yield {"x": draw(1, 4), "a": 1.0}


def powers(n: int, a: float) -> Tensor:
    """(n, n): a to the power of how far column s stands before row t, and zeros behind."""
    steps = torch.arange(n)
    return (a ** (steps[:, None] - steps).clamp(min=0).float()).tril()


@exercise(
    difficulty=3,
    minutes=15,
    trains="a linear recurrence as one product",
    right="No step waits for another: a causal attention whose weights depend on the distance alone.",
    cases=signals,
    most_calls=12,
)
def at_once(x: Tensor, a: float) -> Tensor:
    return x @ powers(x.shape[1], a).T


@at_once.mistake
def plain_sum(x: Tensor, a: float) -> Tensor:
    """Everything so far counts alike in yours; what stands k positions back is multiplied by a to the k."""
    return x.cumsum(1)


@at_once.mistake
def into_the_future(x: Tensor, a: float) -> Tensor:
    """Your matrix is on its side: the first output already knows the last input."""
    return x @ powers(x.shape[1], a)


@at_once.mistake
def one_power_too_many(x: Tensor, a: float) -> Tensor:
    """You multiply the newest input by a as well; its power is 0."""
    return a * at_once.reference(x, a)


@at_once.mistake
def one_step_back(x: Tensor, a: float) -> Tensor:
    """You stop after one step back; the sum goes back to the first position."""
    return x + a * torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)


def gates(draw: Draw) -> Iterator[Inputs]:
    yield {
        "add": torch.tensor([[0.0]]),
        "keep": torch.tensor([[2.0]]),
        "proposal": torch.tensor([[1.0]]),
        "show": torch.tensor([[-1.0]]),
        "c": torch.tensor([[3.0]]),
    }
    yield {name: draw(3, 4) for name in ("add", "keep", "proposal", "show", "c")}


@exercise(
    difficulty=3,
    minutes=12,
    trains="what the gates of an LSTM do",
    right="The cell is only multiplied by a gate and added to: that is the way on which gradients survive.",
    cases=gates,
)
def lstm_step(add: Tensor, keep: Tensor, proposal: Tensor, show: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    c = keep.sigmoid() * c + add.sigmoid() * proposal.tanh()
    return show.sigmoid() * c.tanh(), c


@lstm_step.mistake
def like_a_gru(add: Tensor, keep: Tensor, proposal: Tensor, show: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """You add 1 minus the keep gate of the proposal, as a GRU does; an LSTM has a gate of its own for that."""
    c = keep.sigmoid() * c + (1 - keep.sigmoid()) * proposal.tanh()
    return show.sigmoid() * c.tanh(), c


@lstm_step.mistake
def old_cell_shown(add: Tensor, keep: Tensor, proposal: Tensor, show: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """You show the old cell; the new one is shown."""
    return show.sigmoid() * c.tanh(), lstm_step.reference(add, keep, proposal, show, c)[1]


@lstm_step.mistake
def not_squashed(add: Tensor, keep: Tensor, proposal: Tensor, show: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The cell is shown through a tanh, since it may grow beyond 1."""
    c = lstm_step.reference(add, keep, proposal, show, c)[1]
    return show.sigmoid() * c, c


@lstm_step.mistake
def exchanged(add: Tensor, keep: Tensor, proposal: Tensor, show: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """You return the cell first; the state comes first."""
    return lstm_step.reference(add, keep, proposal, show, c)[::-1]


@exercise(
    difficulty=1,
    minutes=5,
    trains="what a gate does over many steps",
    right="Over many steps a gate has to stand very close to 1 to keep anything.",
    tolerance=1e-4,
)
def keep() -> float:
    return 0.5 ** (1 / 100)


@keep.mistake
def half_at_once() -> float:
    """With 0.5 half is gone after a single step."""
    return 0.5


@keep.mistake
def lost_in_equal_parts() -> float:
    """You take away the same amount at each step; a gate multiplies what is left."""
    return 1 - 0.5 / 100


@keep.mistake
def to_the_hundredth() -> float:
    """That is what 0.5 leaves after 100 steps; asked is the gate that leaves 0.5."""
    return 0.5**100
