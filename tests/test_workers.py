"""How a batch is shared out among workers, and which of their failures is told; without any worker."""

import json
import logging
from pathlib import Path

import pytest
import torch

from tests.test_training import EXAMPLES, small_model
from tfm_lib import training, workers
from tfm_lib.batches import Batch
from tfm_lib.vocabulary import PAD_ID

# Summaries of many lengths, so that rows and labels are shared out differently.
BATCH = Batch.of(EXAMPLES.articles[:5], [ids * (n % 3 + 1) for n, ids in enumerate(EXAMPLES.summaries[:5])])


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7])
def test_every_row_falls_to_one_worker(number: int) -> None:
    shares = [workers.own_share(BATCH, rank, number) for rank in range(number)]
    rows = [row for own, part in shares if part for row in own.src.tolist()]
    assert sorted(rows) == sorted(BATCH.src.tolist())
    assert sum(part for _, part in shares) == pytest.approx(1)
    assert all(len(own.src) == len(own.decoder_input) == len(own.labels) > 0 for own, _ in shares)
    assert [part for _, part in shares[5:]] == [0.0] * (number - 5), "nothing is left, so nothing counts"


def test_a_part_counts_labels_not_rows() -> None:
    labels = torch.tensor([[5, 5, 5], [2, PAD_ID, PAD_ID], [5, 2, PAD_ID]])
    batch = Batch(labels, labels, labels)
    assert [workers.own_share(batch, rank, 2)[1] for rank in (0, 1)] == pytest.approx([5 / 6, 1 / 6])


def test_the_shares_gradients_add_up_to_the_whole() -> None:
    model = small_model().double().eval()

    def gradients(batch: Batch) -> list[torch.Tensor]:
        loss = training.sequence_loss(model(batch.src, batch.decoder_input), batch.labels, PAD_ID, 0.1)
        return list(torch.autograd.grad(loss, list(model.parameters())))

    shares = [workers.own_share(BATCH, rank, 7) for rank in range(7)]
    parts = [[part * gradient for gradient in gradients(own)] for own, part in shares]
    torch.testing.assert_close([sum(of_one) for of_one in zip(*parts, strict=True)], gradients(BATCH))


def test_which_device_a_worker_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers.find_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="cuda or cpu, not on mps"):
        workers.find_device("mps")
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert workers.find_device() == torch.device("cuda", 1) and taken == [1]
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match="3 workers, but GPUs: 2; start a worker for each GPU"):
        workers.find_device("cuda")


# --- which failure is told


LOST = "RuntimeError: Connection closed by peer"
TOLD = "OnPurpose: the loss of step 3 is nan; lower peak_rate"


def failures(tmp_path: Path, *ends: int | str) -> workers.ChildFailedError:
    """What torchrun raises where worker 0, 1, ... exited so, or with that error on record."""
    found = {}
    for rank, end in enumerate(ends):
        record = tmp_path / f"{rank}.json"
        if isinstance(end, str):
            record.write_text(json.dumps({"message": {"message": end, "extraInfo": {"timestamp": "1"}}}))
        found[rank] = workers.ProcessFailure(rank, 7, end if isinstance(end, int) else 1, str(record))
    return workers.ChildFailedError("train", found)


@pytest.mark.parametrize(
    ("ends", "kind", "told"),
    [
        ([LOST, -9], ChildProcessError, r"worker 1 of 2 \(counted from 0\) was ended by SIGKILL"),
        ([-9, -15], ChildProcessError, "worker 0 of 2 .*SIGKILL"),
        ([-15, 130], KeyboardInterrupt, None),
        ([130, -11], ChildProcessError, "worker 1 of 2 .*SIGSEGV"),
        ([LOST, TOLD], ValueError, "^the loss of step 3 is nan; lower peak_rate$"),
        ([-15, TOLD], ValueError, "^the loss of step 3"),
        (["OnPurpose: can't write it: free 1 MiB", LOST], ValueError, "^can't write it: free 1 MiB$"),
        ([LOST, -15], workers.ChildFailedError, None),
        (["IndexError: 7", LOST], workers.ChildFailedError, None),
        (["ValueError: too many values to unpack", LOST], workers.ChildFailedError, None),
        ([3, -15], workers.ChildFailedError, None),
    ],
)
def test_the_cause_is_told_and_not_what_followed_from_it(
    ends: list, kind: type, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str]) -> None:
        assert command[-4:] == ["-m", "tfm_lib", "train", "--x"] and "--nproc-per-node=2" in command
        raise failures(tmp_path, *ends)

    monkeypatch.setattr(workers.torchrun, "main", fail)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    with pytest.raises(kind, match=told):
        workers.launch(2, ["train", "--x"])
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)
