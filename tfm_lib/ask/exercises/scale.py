"""The exercises of lesson 10."""

from collections.abc import Iterator

from tfm_lib.ask.exercise import Draw, Inputs, exercise

# ----------------------------------------------------------------------------------------------------
# 1: the ring


def places_in_the_ring(draw: Draw) -> Iterator[Inputs]:
    for workers in (3, 2, 5):
        for step in range(2 * (workers - 1)):
            for worker in range(workers):
                yield {"worker": worker, "step": step, "workers": workers}


@exercise(
    difficulty=4,
    minutes=20,
    trains="the ring of all-reduce, from a worker's place",
    right="No worker needs a plan of the whole: from its number and the step it knows what to send and what will come.",
    cases=places_in_the_ring,
)
def ring(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    return (worker - step) % workers, (worker - step - 1) % workers, step < workers - 1


@ring.mistake
def other_way_round(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """Your ring turns the other way: pieces go to the next higher worker, so that what you send has come from the next
    lower one."""
    return (worker + step) % workers, (worker + step + 1) % workers, step < workers - 1


@ring.mistake
def own_piece_always(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """You send your own piece again and again; send on what you received in the step before."""
    return worker, (worker - 1) % workers, step < workers - 1


@ring.mistake
def receives_what_it_sends(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """You receive the piece that you send; your lower neighbor sends you another one. Which does it send?"""
    return (worker - step) % workers, (worker - step) % workers, step < workers - 1


@ring.mistake
def not_round(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """Your pieces have negative numbers: behind piece 0 comes the last one. `%` closes the ring."""
    return worker - step, worker - step - 1, step < workers - 1


@ring.mistake
def one_sum_too_many(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """You add once too often: after workers - 1 sendings a piece is complete, and the next one is a copy."""
    return *ring.reference(worker, step, workers)[:2], step < workers


@ring.mistake
def always_added(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """You add in the second round too; there the pieces are complete, and the received one takes the old one's
    place."""
    return *ring.reference(worker, step, workers)[:2], True


@ring.mistake
def begins_late(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """You are one step ahead: in step 0 a worker sends the piece of its own number."""
    return (worker - step - 1) % workers, (worker - step - 2) % workers, step < workers - 1


@ring.mistake
def from_above(worker: int, step: int, workers: int) -> tuple[int, int, bool]:
    """What you send is right. What you receive comes from the next lower worker, and you took the next higher one."""
    return (worker - step) % workers, (worker - step + 1) % workers, step < workers - 1
