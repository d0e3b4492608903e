"""Files as models on the hub have them, at small sizes and with their oddities, write what transformers writes."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.pretrained.test_pretrained import TEXTS, settings, tokenizers, vocab_size  # noqa: F401 (the fixture)
from tfm_lib.commands.tasks import ten_pairs
from tfm_lib.commands.tuning import tuned
from tfm_lib.pretrained import from_pretrained
from tfm_lib.pretrained.small import small_model


def says(file: str, **values: object) -> Callable:
    return lambda folder, model: settings(folder, file, **values)


def pickled(folder: Path, model, *, before_1_6: bool = False) -> None:
    """The weights in pytorch_model.bin: a zip of pickles, or, of before torch 1.6, one pickle."""
    weights = load_file(folder / "model.safetensors")
    weights["final_logits_bias"] = weights.get("final_logits_bias", torch.zeros(1, len(weights["model.shared.weight"])))
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not before_1_6)


def files_of_bart(folder: Path, model) -> None:
    """vocab.json and merges.txt as well, and <mask>, for which the larger models have no row."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["<mask>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.model.save(str(folder))
    settings(folder, "tokenizer_config.json", mask_token="<mask>")


def without_head(folder: Path, model) -> None:
    """And so without "model." in the names."""
    (folder / "model.safetensors").unlink()
    model.model.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)


def halved_and_from_before_tokenizer_json(folder: Path, model) -> None:
    model.half().save_pretrained(folder)
    (folder / "tokenizer.json").unlink()


def in_several_files(folder: Path, model) -> None:
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").exists()


def kept_by_a_trainer(folder: Path, model) -> None:
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state.pth"):
        torch.save({"state": {}}, folder / name)
    settings(folder, "trainer_state.json", global_step=500, best_metric=1.0)


ONES: dict[str, tuple] = {
    "bart-base": ("bart", files_of_bart, without_head, says("config.json", task_specific_params={})),
    "bart-large-cnn": ("bart", files_of_bart, pickled, says("generation_config.json", eos_token_id=[2])),
    "bart-large-xsum": ("bart", files_of_bart, halved_and_from_before_tokenizer_json),
    "opus-mt-en-ROMANCE": ("marian", pickled, says("config.json", static_position_embeddings=True)),
    "pegasus-xsum": ("pegasus", partial(pickled, before_1_6=True), says("config.json", add_final_layer_norm=True)),
    "pegasus-cnn_dailymail": ("pegasus", in_several_files),
    "checkpoint-500": ("bart", files_of_bart, kept_by_a_trainer, says("generation_config.json", max_length=30)),
}


def publish(name: str, parts: dict[str, Path], folder: Path) -> Path:
    """The files of a model of the hub, small and with random weights."""
    family, *oddities = ONES[name]
    shutil.copytree(parts[family], folder)
    if name == "opus-mt-en-ROMANCE":
        table = json.loads((folder / "vocab.json").read_text())
        last = table.pop("<pad>")
        (folder / "vocab.json").write_text(json.dumps(table | {">>fr<<": last, ">>it<<": last + 1, "<pad>": last + 2}))
        settings(folder, "tokenizer_config.json", target_lang="ROMANCE")
    model = small_model(family, vocab_size(family, folder), seed=3)
    model.save_pretrained(folder)
    for oddity in oddities:
        oddity(folder, model)
    return folder


@pytest.mark.filterwarnings("ignore:Deprecated in 0.9.0:DeprecationWarning")  # of tokenizers, in transformers 5.4
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("name", ONES)
def test_a_model_of_the_hub_writes_what_transformers_writes(name, tokenizers, tmp_path):  # noqa: F811
    folder = publish(name, tokenizers, tmp_path / name)
    ours = from_pretrained(folder)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    reads = AutoTokenizer.from_pretrained(folder)
    texts = [">>fr<< " * (name == "opus-mt-en-ROMANCE") + text for text in TEXTS[:3]]
    inputs = reads(texts, return_tensors="pt", padding=True, truncation=True, max_length=64)
    assert ours.encode(texts).tolist() == inputs.input_ids.tolist()
    for changes in ({}, dict(num_beams=1, length_penalty=1.0, early_stopping=False)):  # as published, and greedily
        tokens = theirs.generate(**inputs, **changes)
        assert ours.generate(texts, **changes) == reads.batch_decode(tokens, skip_special_tokens=True)


def test_what_a_text_can_give_decides_whether_tokenizer_and_model_fit(tokenizers, tmp_path):  # noqa: F811
    folder = publish("bart-large-cnn", tokenizers, tmp_path / "cnn")
    assert from_pretrained(folder).tokenizer.highest_id == 499 and len(from_pretrained(folder).tokenizer) == 501
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["neologism"])  # of a model that was to be resized
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(ValueError, match="reads texts as ids up to 501, and its model has 500 rows"):
        from_pretrained(folder)


ODD_WAYS = {
    "repetition_penalty": 1.2, "do_sample": True, "early_stopping": "never", "encoder_no_repeat_ngram_size": 3,
    "bad_words_ids": [[4, 5], [6]],
}  # fmt: skip


def test_ways_to_write_that_are_not_built_are_a_warning_with_the_file(tokenizers, tmp_path):  # noqa: F811
    folder = publish("checkpoint-500", tokenizers, tmp_path / "odd")
    settings(folder, "generation_config.json", eos_token_id=[2, 7], **ODD_WAYS)
    with pytest.warns(UserWarning) as told:
        model = from_pretrained(folder)
    messages = [str(warning.message) for warning in told]
    assert messages[0] == f"{folder}/generation_config.json: eos_token_id=[2, 7]: texts end at the first of them alone"
    assert all(f"{name}=" in messages[1] for name in ODD_WAYS) and messages[1].endswith("not built here and left out")
    assert model.generation.rules.banned == (6,) and model.generation.early_stopping is False
    assert model.generate(TEXTS[:1])


def test_a_model_of_long_texts_is_tuned_with_room_for_one(tokenizers, tmp_path, monkeypatch):  # noqa: F811
    """An example of 4,114 tokens once met a limit of 2,048, which no option raised."""
    published = from_pretrained(publish("bart-base", tokenizers, tmp_path / "long"))
    config = replace(published.model.config, max_length=4096)
    monkeypatch.setattr(published.model, "config", config)
    monkeypatch.setattr("tfm_lib.commands.tuning.from_pretrained", lambda name: published)
    task = tuned(ten_pairs(0), "long")
    assert task.max_article == 4096 and task.recipe.max_tokens == 2 * 4096
