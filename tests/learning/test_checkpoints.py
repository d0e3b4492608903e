"""Checkpoints that are whole or refused: altered, cut short, a full disk, a folder that can't be written."""

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from tests.learning.test_training import VOCABULARY, run_until_killed, same_weights, small_model
from tfm_lib.files import write_whole
from tfm_lib.learning import checkpoints
from tfm_lib.learning.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer, TransformerConfig


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    run_until_killed(path, 2)
    return path


def test_a_model_without_its_run_comes_back(tmp_path):
    model = small_model()
    save_checkpoint(tmp_path / "a.safetensors", model.half(), VOCABULARY)
    loaded = load_checkpoint(tmp_path / "a.safetensors")
    assert isinstance(loaded, Checkpoint) and loaded.state is None
    assert loaded.model.config == model.config and same_weights(loaded.model, model.float())
    assert loaded.vocabulary.to_json() == VOCABULARY.to_json()
    assert len(list(tmp_path.iterdir())) == 1, "the temporary file is gone"


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), more=st.binary(min_size=1, max_size=9))
@settings(max_examples=30, deadline=None)
def test_a_checkpoint_with_any_bit_flipped_cut_anywhere_or_with_more_behind_it_is_refused(checkpoint, where, bit, more):
    content = checkpoint.read_bytes()
    place, altered = int(where * len(content)), checkpoint.with_name("altered")
    flipped = content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
    refusal = "no whole checkpoint .*cut short or altered.*; use another copy$"
    for change, message in ((flipped, "altered"), (content[:place], refusal), (content + more, refusal)):
        altered.write_bytes(change)
        with pytest.raises(ValueError, match=message):
            load_checkpoint(altered)


def test_a_folder_and_a_file_that_is_not_there_are_no_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="is a folder, not a checkpoint; give the file in it, .*checkpoint.safetensor"):
        load_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "a.safetensors")


# --- modules that are not a plain Transformer


class Adapted(Transformer):
    """With a module and a buffer more, and a frozen projection with another one behind it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.adapter = nn.Linear(config.d_model, config.d_model)
        self.register_buffer("seen", torch.tensor([1.5]))
        self.register_buffer("scratch", torch.tensor([2.5]), persistent=False)
        attention = self.encoder.layers[0].self_attention
        attention.query_proj = nn.Sequential(attention.query_proj.requires_grad_(False), nn.Linear(16, 16))


def test_a_module_with_more_than_a_transformer_comes_back(tmp_path):
    path = tmp_path / "a.safetensors"
    model = Adapted(small_model().config)
    model.seen.fill_(7.0)
    save_checkpoint(path, model, VOCABULARY)
    loaded = load_checkpoint(path, build=Adapted).model
    state = model.state_dict()
    assert loaded.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[name]) for name, value in loaded.state_dict().items())
    assert loaded.output.weight is loaded.encoder.embedding.tokens.weight, "what is tied stays tied"
    assert {n for n, p in loaded.named_parameters() if not p.requires_grad} == {
        f"encoder.layers.0.self_attention.query_proj.0.{part}" for part in ("weight", "bias")
    }


def test_what_a_plain_transformer_cannot_take_is_named(tmp_path):
    plain, adapted = tmp_path / "plain.safetensors", tmp_path / "adapted.safetensors"
    model = small_model()
    save_checkpoint(plain, model, VOCABULARY)
    save_checkpoint(adapted, Adapted(model.config), VOCABULARY)
    with pytest.raises(ValueError) as error:
        load_checkpoint(adapted)
    for part in ("another model than this Transformer", "only the file has adapter.bias", "seen", "build="):
        assert part in str(error.value)
    assert "only the model has encoder.layers.0.self_attention.query_proj.bias" in str(error.value)
    with pytest.raises(ValueError, match="only the model has adapter.bias"):
        load_checkpoint(plain, build=Adapted)
    wider = replace(model.config, d_ff=32)
    with pytest.raises(ValueError, match=r"of another shape are decoder.layers.0.feed_forward"):
        load_checkpoint(plain, build=lambda _: Transformer(wider))


def test_any_other_module_comes_back_from_who_builds_it_with_tensors_that_share_memory(tmp_path):
    def build(config: object) -> nn.Module:
        module, table = nn.Sequential(nn.Embedding(5, 4), nn.BatchNorm1d(4)), torch.zeros(2, 3)
        for name, view in {"table": table, "turned": table.t(), "row": table[1]}.items():
            module.register_buffer(name, view)
        return module

    model = build(None)
    model[0].double()
    model[1].num_batches_tracked.fill_(3)
    model.table.copy_(torch.arange(6.0).view(2, 3))
    save_checkpoint(tmp_path / "a.safetensors", model, VOCABULARY)
    loaded = load_checkpoint(tmp_path / "a.safetensors", build=build).model.state_dict()
    for name, tensor in model.state_dict().items():
        assert tensor.equal(loaded[name]) and tensor.dtype == loaded[name].dtype


def test_what_is_no_tensor_is_refused(tmp_path):
    class Counting(nn.Linear):
        def get_extra_state(self) -> object:
            return {"steps": 3}

    with pytest.raises(ValueError, match="keeps tensors, but _extra_state is dict; make it a buffer"):
        save_checkpoint(tmp_path / "a.safetensors", Counting(2, 2), VOCABULARY)


# --- files of others, of later days


@pytest.mark.parametrize(("kind", "name"), [("config", "TransformerConfig"), ("recipe", "Recipe")])
def test_a_checkpoint_of_a_newer_version_says_so(kind, name, checkpoint, tmp_path):
    tensors = load_file(checkpoint)
    with safe_open(checkpoint, framework="pt") as file:
        about = json.loads(file.metadata()["checkpoint"].partition(" ")[2])
    about[kind]["rope_base"] = 10_000
    text = json.dumps(about)
    save_file(tensors, tmp_path / "newer", {"checkpoint": f"{checkpoints._checksum(tensors, text)} {text}"})
    with pytest.raises(ValueError, match=f"newer version: this {name} has no rope_base; update the course"):
        load_checkpoint(tmp_path / "newer")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_downloaded_model_is_no_checkpoint(metadata, tmp_path):
    save_file({"weight": torch.ones(3)}, tmp_path / "model.safetensors", metadata)
    with pytest.raises(ValueError, match="is no checkpoint of this course.*; give one that `train` has saved"):
        load_checkpoint(tmp_path / "model.safetensors")


# --- the writer


@pytest.mark.parametrize("moment", [(Path, "open"), (os, "fsync"), (Path, "replace")])
@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "free 1.0 MiB there, or write elsewhere"),
        (errno.EACCES, "allow yourself to write there, or write elsewhere"),
        (errno.EROFS, "that disk can only be read; write elsewhere"),
        (errno.ENAMETOOLONG, "take a shorter name"),
        (errno.EIO, "write elsewhere"),
        (None, ""),
    ],
)
def test_a_write_that_fails_or_is_stopped_keeps_what_was_there_and_says_the_fix(
    number, fix, moment, tmp_path, monkeypatch
):
    path = tmp_path / "new" / "folder" / "a"
    write_whole(path, b"first")
    error = OSError(number, os.strerror(number)) if number else KeyboardInterrupt()
    monkeypatch.setattr(*moment, Mock(side_effect=error))
    with pytest.raises((OSError, KeyboardInterrupt)) as raised:
        write_whole(path, bytes(2**20))
    if number:
        assert str(raised.value) == f"can't write {path} ({os.strerror(number)}); what was there is kept; {fix}"
    monkeypatch.undo()
    assert path.read_bytes() == b"first" and list(path.parent.iterdir()) == [path]
    write_whole(path, b"2")
    assert path.read_bytes() == b"2" and list(path.parent.iterdir()) == [path]


def test_a_file_in_the_place_of_a_folder_or_a_folder_in_that_of_the_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="can't write .*; a file has the name of a folder that is needed; rename"):
        write_whole(tmp_path / "file/a", b"first")
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match=r"can't write .*; (a folder has this name; rename|allow yourself)"):
        write_whole(tmp_path / "a", b"first")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "a"}


@pytest.mark.skipif(sys.platform == "win32", reason="there, who renames onto a file that is open is refused")
def test_two_processes_write_the_same_file_and_none_fails(tmp_path):
    program = (
        "import sys; from pathlib import Path; from tfm_lib.files import write_whole\n"
        "for n in range(200): write_whole(Path('race.bin'), sys.argv[1].encode() * 50_000)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(checkpoints.__file__).parent.parent)}
    both = [
        subprocess.Popen([sys.executable, "-c", program, letter], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
        for letter in "ab"
    ]
    assert [(one.communicate()[1], one.returncode) for one in both] == [(b"", 0)] * 2
    assert (tmp_path / "race.bin").read_bytes() in (b"a" * 50_000, b"b" * 50_000)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_may_be_read_by_others_as_any_other_file(tmp_path):
    write_whole(tmp_path / "a", b"first")
    (tmp_path / "b").write_bytes(b"first")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_what_a_killed_process_left_is_cleared_an_hour_later(tmp_path):
    for age, name in ((7200, ".a.0.part"), (60, ".a.1.part"), (7200, ".b.0.part")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    write_whole(tmp_path / "a", b"first")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a.1.part", ".b.0.part"}
