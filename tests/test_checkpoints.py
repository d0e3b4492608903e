"""Checkpoints that are whole or refused: altered, cut short, a full disk, a folder that can't be written."""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_training import EXAMPLES, RECIPE, VOCABULARY, run_until_killed, same_weights, small_model
from tfm_lib.checkpoints import Checkpoint, load_checkpoint, save_checkpoint, write_whole
from tfm_lib.training import train


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    run_until_killed(path, 2)
    return path


def test_a_model_without_its_run_comes_back(tmp_path: Path) -> None:
    model = small_model()
    save_checkpoint(tmp_path / "a.safetensors", model.half(), VOCABULARY)
    loaded = load_checkpoint(tmp_path / "a.safetensors")
    assert isinstance(loaded, Checkpoint) and loaded.state is None
    assert loaded.model.config == model.config and same_weights(loaded.model, model.float())
    assert loaded.vocabulary.to_json() == VOCABULARY.to_json()
    assert len(list(tmp_path.iterdir())) == 1, "the temporary file is gone"


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_checkpoint_with_any_bit_flipped_is_refused(checkpoint: Path, where: float, bit: int) -> None:
    content = bytearray(checkpoint.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    altered = checkpoint.with_name("altered")
    altered.write_bytes(content)
    with pytest.raises(ValueError, match="altered"):
        load_checkpoint(altered)


@given(where=st.floats(0, 1, exclude_max=True))
def test_a_checkpoint_cut_anywhere_is_refused(checkpoint: Path, where: float) -> None:
    content = checkpoint.read_bytes()
    cut = checkpoint.with_name("cut")
    cut.write_bytes(content[: int(where * len(content))])
    with pytest.raises(ValueError, match="no whole checkpoint .*cut short or altered"):
        load_checkpoint(cut)


@given(more=st.binary(min_size=1, max_size=9))
def test_a_checkpoint_with_more_behind_it_is_refused(checkpoint: Path, more: bytes) -> None:
    longer = checkpoint.with_name("longer")
    longer.write_bytes(checkpoint.read_bytes() + more)
    with pytest.raises(ValueError, match="no whole checkpoint .*; use another copy$"):
        load_checkpoint(longer)


def test_there_is_no_such_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "a.safetensors")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, as on a disk that is nearly full."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    run_until_killed(path, 2)
    before = path.read_bytes()
    model, _, state = load_checkpoint(path)
    with (
        room_for(len(before) // 2),
        pytest.raises(OSError, match=r"can't write .*what was there is kept; free 0\.\d MiB"),
    ):
        train(
            model,
            EXAMPLES,
            RECIPE,
            start=state,
            save=lambda s: save_checkpoint(path, model, VOCABULARY, s),
            progress=False,
        )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path], "the part that was written is gone"


@pytest.mark.parametrize("moment", [(Path, "open"), (os, "fsync"), (Path, "replace")])
def test_a_write_that_fails_keeps_what_was_there(
    moment: tuple[object, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_whole(tmp_path / "a", b"first")
    monkeypatch.setattr(*moment, full)
    with pytest.raises(OSError, match=r"can't write .*a \(No space left on device\); what was there is kept; free 0.0"):
        write_whole(tmp_path / "a", b"second")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"first" and len(list(tmp_path.iterdir())) == 1


def test_a_write_that_is_stopped_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", b"first")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_found_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")
    path = tmp_path / "runs" / "a.safetensors"
    model = small_model()
    start = small_model()
    with pytest.raises(OSError, match="can't write .*a file has the name of a folder that is needed; rename"):
        train(model, EXAMPLES, RECIPE, save=lambda s: save_checkpoint(path, model, VOCABULARY, s), progress=False)
    assert same_weights(model, start)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a"
    write_whole(path, b"first")
    write_whole(path, b"2")
    assert path.read_bytes() == b"2" and list(path.parent.iterdir()) == [path]
