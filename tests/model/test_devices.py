"""On a GPU the model computes what it computes on the CPU; the arithmetic of benchmarks/speed/gpu.py holds without one.

TFM_GPU=1 runs what needs a GPU, on each kind that is here.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed import gpu
from benchmarks.speed.peers import Ours, Shape
from tfm_lib.learning.training import make_optimizer
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import greedy

TINY = Shape(d_model=32, layers=2, d_ff=48, vocab_size=50, batch=3, source=7, target=5)
HERE: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}


@pytest.fixture
def device(request) -> str:
    """The GPU of that kind."""
    if os.environ.get("TFM_GPU") != "1":
        pytest.skip("needs a GPU: set TFM_GPU=1 where there is one")
    if not HERE[request.param]():
        pytest.skip(f"torch finds no {request.param} here")
    return request.param


each_gpu = pytest.mark.parametrize("device", HERE, indirect=True)
on_cuda = pytest.mark.parametrize("device", ["cuda"], indirect=True)


def model() -> Ours:
    torch.manual_seed(0)
    return Ours(TINY, dropout=0.0)


@each_gpu
def test_a_gpu_trains_and_writes_as_the_cpu_does(device):
    losses, logits, wrote = [], [], []
    for place in ("cpu", device):
        one, (src, tgt) = model().to(place), gpu.full_batch(TINY, place)
        src[0, 4:] = 0
        optimizer = make_optimizer(one)
        for _ in range(3):
            optimizer.zero_grad()
            loss = one.loss(src, tgt)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        one.eval()
        with torch.no_grad():
            logits.append(one.model(src, tgt[:, :-1]).cpu())
        texts = greedy(one.model, src, 6), beam_search(one.model, src, 6, num_beams=2)
        wrote.append([text.tolist() for text in texts])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4) and wrote[0] == wrote[1]
    torch.testing.assert_close(logits[1], logits[0], atol=1e-3, rtol=1e-3)


@on_cuda
def test_a_cuda_graph_writes_the_same(device):
    one = model().model.to(device).eval()
    src = gpu.full_batch(TINY, device)[0]
    replay = gpu.captured(partial(gpu.write_all, one, src, 8))
    assert replay().equal(greedy(one, src, 8)) and replay().equal(replay())


@on_cuda
def test_rows_are_measured(device, monkeypatch):
    monkeypatch.setattr(gpu, "SHAPES", {32: TINY})
    assert all(0 < gpu.training(peer, 32, 1e15, 1, compiling=False)["share of peak"] < 1 for peer in gpu.PEERS)
    assert [one["way"] for one in gpu.decoding(32, 1)] == 2 * ["greedy", "write_all", "CUDA graph"]


@pytest.mark.parametrize("shape", [TINY, replace(TINY, source=4, target=9, layers=1, batch=1)])
def test_the_operations_of_a_step_are_those_that_torch_counts(shape):
    torch.manual_seed(0)
    one, batch = Ours(shape, dropout=0.0), gpu.full_batch(shape, "cpu")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        one.loss(*batch).backward()
    assert counter.get_total_flops() == gpu.training_flops(shape)


def test_a_step_in_bf16_learns_and_keeps_its_weights_in_single_precision():
    one, batch = model(), gpu.full_batch(TINY, "cpu")
    before = one.loss(*batch).item()
    optimizer = torch.optim.Adam(one.parameters(), lr=1e-2)
    for _ in range(5):
        gpu.step(one, one.loss, optimizer, *batch)
    assert one.loss(*batch).item() < before and {p.dtype for p in one.parameters()} == {torch.float32}


def test_what_a_graph_holds_writes_what_greedy_writes():
    one, src = model().model.eval(), gpu.full_batch(TINY, "cpu")[0]
    assert gpu.write_all(one, src, 8).equal(greedy(one, src, 8))


def test_the_peak_is_that_of_the_card():
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA L40S", "NVIDIA L4", "NVIDIA A100-SXM4-80GB")
    assert [gpu.peak_of(name) / 1e12 for name in names] == [989, 756, 362, 121, 312]
    with pytest.raises(ValueError, match="--peak 989"):
        gpu.peak_of("GeForce")


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        SystemExit, match=r"^benchmarks\.speed\.gpu needs a GPU with CUDA, and torch finds none here\.$"
    ):
        gpu.main([])
