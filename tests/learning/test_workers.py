"""How a batch is shared out among workers, and which of their failures is told; without any worker."""

import json
import logging
import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from tests.learning.test_training import EXAMPLES
from tfm_lib.data.batches import Batch
from tfm_lib.learning import launching, workers

# Summaries of many lengths, so that rows and labels are shared out differently.
BATCH = Batch.of(EXAMPLES.articles[:5], [ids * (n % 3 + 1) for n, ids in enumerate(EXAMPLES.summaries[:5])])


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7])
def test_every_row_falls_to_one_worker(number):
    shares = [workers.worker_share(BATCH, rank, number) for rank in range(number)]
    rows = [row for share, part in shares if part for row in share.src.tolist()]
    assert sorted(rows) == sorted(BATCH.src.tolist())
    assert sum(part for _, part in shares) == pytest.approx(1)
    assert all(len(share.src) == len(share.decoder_input) == len(share.labels) > 0 for share, _ in shares)
    assert [part for _, part in shares[5:]] == [0.0] * (number - 5), "nothing is left, so nothing counts"


def test_which_device_a_worker_takes(monkeypatch):
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


def test_who_is_a_worker_and_who_is_the_first(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert workers.is_first()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert workers.is_first() == (rank == "0")


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (ValueError("lower it"), 1), (None, None)])
def test_a_command_ends_deaf_with_its_status_and_its_error_on_record(error, status, tmp_path, monkeypatch):
    def command() -> None:
        if error:
            raise error

    changed, dump, path = {}, json.dump, tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    monkeypatch.setattr(launching.signal, "signal", changed.__setitem__)
    # Torchrun ends a worker while it writes, and once read half of a record.
    monkeypatch.setattr(json, "dump", lambda *arguments: dump(*arguments) if changed else pytest.fail("not deaf yet"))
    with nullcontext() if status is None else pytest.raises(SystemExit) as ended:
        launching.run(command)
    assert status is None or ended.value.code == status
    assert changed == {signal.SIGTERM: signal.SIG_IGN, signal.SIGINT: signal.SIG_IGN}
    assert path.exists() == (status == 1)
    assert status != 1 or json.loads(path.read_text())["message"]["message"] == "ValueError: lower it"


# --- what is launched, and which failure is told


LOST = "RuntimeError: Connection closed by peer"
REPORTED = "CourseError: the loss of step 3 is nan; lower peak_rate"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are put back at the end."""
    for name in ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("OMP_NUM_THREADS")


@pytest.mark.parametrize(("cores", "number", "threads"), [(8, 2, "4"), (7, 3, "2"), (1, 3, "1"), (None, 1, "1")])
def test_workers_share_the_cores_and_talk_over_the_loopback(cores, number, threads, environment, monkeypatch):
    seen = []

    def note(command: list[str]) -> None:
        assert "--local-addr=127.0.0.1" in command and f"--nproc-per-node={number}" in command
        assert not logging.getLogger().isEnabledFor(logging.CRITICAL), "torchrun's reports are silent"
        seen.append((os.environ["OMP_NUM_THREADS"], os.environ["GLOO_SOCKET_IFNAME"]))

    monkeypatch.setattr(launching.torchrun, "main", note)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(launching.socket, "if_nameindex", lambda: [(0, "lo0"), *enumerate(map(str, range(40)))])
    launching.launch(number, ["train"])
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    launching.launch(number, ["train"])
    assert seen == [(threads, "lo0"), ("5", "lo0")], "a number that was given stays"
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)


def failures(tmp_path: Path, *ends: int | str) -> launching.ChildFailedError:
    """What torchrun raises where worker 0, 1, ... exited so, or with that error on record."""
    found = {}
    for rank, end in enumerate(ends):
        record = tmp_path / f"{rank}.json"
        if isinstance(end, str):
            record.write_text(json.dumps({"message": {"message": end, "extraInfo": {"timestamp": "1"}}}))
        found[rank] = launching.ProcessFailure(rank, 7, end if isinstance(end, int) else 1, str(record))
    return launching.ChildFailedError("train", found)


@pytest.mark.parametrize(
    ("ends", "kind", "message"),
    [
        ([LOST, -9], ChildProcessError, r"worker 1 of 2 \(counted from 0\) was ended by SIGKILL"),
        ([-9, -15], ChildProcessError, "worker 0 of 2 .*SIGKILL"),
        ([-15, 130], KeyboardInterrupt, None),
        ([130, -11], ChildProcessError, "worker 1 of 2 .*SIGSEGV"),
        ([LOST, REPORTED], ValueError, "^the loss of step 3 is nan; lower peak_rate$"),
        ([-15, REPORTED], ValueError, "^the loss of step 3"),
        ([REPORTED, 130], KeyboardInterrupt, None),
        (["CourseError: can't write it: free 1 MiB", LOST], ValueError, "^can't write it: free 1 MiB$"),
        ([LOST, -15], launching.ChildFailedError, None),
        (["IndexError: 7", LOST], launching.ChildFailedError, None),
        (["ValueError: too many values to unpack", LOST], launching.ChildFailedError, None),
        ([3, -15], launching.ChildFailedError, None),
    ],
)
def test_the_cause_is_told_and_not_what_followed_from_it(
    ends, kind, message, tmp_path, environment, monkeypatch, capsys
):
    def fail(command: list[str]) -> None:
        assert command[-4:] == ["-m", "tfm_lib", "train", "--x"] and "--nproc-per-node=2" in command
        raise failures(tmp_path, *ends)

    monkeypatch.setattr(launching.torchrun, "main", fail)
    with pytest.raises(kind, match=message):
        launching.launch(2, ["train", "--x"])
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)
    bar_was_killed = kind is ChildProcessError and ends[0] == -9
    assert capsys.readouterr().err == "\n" * bar_was_killed, "the line of worker 0's progress bar is ended"
