"""Small models with random weights in folders as published ones have: something to compare with, without a network."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer, processors

from tfm_lib.errors import CourseError

SIZES = {"d_model": 16, "max_position_embeddings": 64, "dropout": 0.0, "encoder_layers": 2, "decoder_layers": 1}
SIZES |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
SIZES |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 32)
# As the three families were published: the ids of padding, end and start (-1: the last of the vocabulary), ...
IDS = {"bart": (1, 2, 2), "marian": (-1, 0, -1), "pegasus": (0, 1, 0)}
OPTIONS = {
    "bart": {"activation_function": "gelu", "scale_embedding": False},
    "marian": {"activation_function": "swish", "scale_embedding": True},
    "pegasus": {"activation_function": "relu", "scale_embedding": True},
}
# ... and how they write, besides its length, which is shortened to ours.
BART: dict[str, Any] = {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "early_stopping": True}
WRITING: dict[str, dict[str, Any]] = {
    "bart": BART | {"min_length": 6, "forced_bos_token_id": 0},
    "marian": {"num_beams": 6, "renormalize_logits": True},
    "pegasus": {"num_beams": 8, "length_penalty": 0.8},
}
SPECIAL = {
    "bart": ["<s>", "<pad>", "</s>", "<unk>"],
    "marian": ["</s>", "<unk>"],
    "pegasus": ["<pad>", "</s>", "<unk>"],
}


def small_config(family: str, vocab_size: int = 500) -> dict[str, Any]:
    """What the config.json says: small sizes, and the ids and options with which the family was published."""
    pad, eos, start = (i % vocab_size for i in IDS[family])
    ids = {"pad_token_id": pad, "bos_token_id": 0, "eos_token_id": eos, "decoder_start_token_id": start}
    return SIZES | OPTIONS[family] | ids | {"vocab_size": vocab_size}


def small_writing(family: str, vocab_size: int = 500) -> dict[str, Any]:
    """What the generation_config.json says. Marian bans padding."""
    ids = {name: i for name, i in small_config(family, vocab_size).items() if name.endswith("_token_id")}
    banned = {"bad_words_ids": [[ids["pad_token_id"]]]} if family == "marian" else {}
    return ids | {"max_length": 24, "forced_eos_token_id": ids["eos_token_id"]} | WRITING[family] | banned


def small_model(family: str, vocab_size: int = 500, seed: int = 0) -> Any:
    """A model of transformers, bart, marian or pegasus, with large random weights in every part.

    So loud, no part of it can be computed otherwise unnoticed, and its texts differ and end at many lengths.
    """
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig

    settings = small_config(family, vocab_size)
    config = AutoConfig.for_model(family, **settings)
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        model = AutoModelForSeq2SeqLM.from_config(config).eval()
        for name, weight in model.named_parameters():
            if weight.requires_grad:  # not the sinusoids
                std = 0.4 if "shared" in name else 3.0 if "positions" in name else 1.0
                weight.normal_(mean=float(name.endswith("norm.weight")), std=std)
        model.final_logits_bias.normal_(std=0.3)
        model.model.shared.weight[settings["eos_token_id"]] *= 3.0  # likely here, unlikely there
        model.final_logits_bias[0, settings["eos_token_id"]] += seed
    model.generation_config = GenerationConfig(**small_writing(family, vocab_size))
    return model


def write_tokenizer(family: str, folder: Path, texts: Iterable[str], vocab_size: int = 500) -> None:
    """Train one whose pieces are built from bytes, as BART's are, with the family's special tokens, and save it.

    Raises ValueError where the texts have too few pieces.
    """
    special, tokenizer = SPECIAL[family], ByteLevelBPETokenizer()
    size = vocab_size - ("<pad>" not in special)
    tokenizer.train_from_iterator(texts, size, min_frequency=0, show_progress=False, special_tokens=special)
    tokenizer.add_special_tokens(["<pad>"])  # Marian's is its last
    if (size := tokenizer.get_vocab_size()) != vocab_size:
        raise CourseError(f"vocab_size must be at most {size} with these texts, got {vocab_size}; give more of them")
    around = [(token, tokenizer.token_to_id(token)) for token in special if token in ("<s>", "</s>")]
    framed = "<s> $A </s>" if "<s>" in special else "$A </s>"
    tokenizer.post_processor = processors.TemplateProcessing(single=framed, special_tokens=around)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    settings = {
        # Marian's and Pegasus' own classes want other files.
        "tokenizer_class": "BartTokenizer" if family == "bart" else "PreTrainedTokenizerFast",
        "model_max_length": SIZES["max_position_embeddings"],
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **{name: token for name, token in names.items() if tokenizer.token_to_id(token) is not None},
    }
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def publish_small(family: str, folder: Path, texts: Iterable[str]) -> Path:
    """Let transformers save a small model of a family as if to publish it; returns the folder.

    texts: what its tokenizer learns from, of BART's kind in all three families.
    """
    small_model(family, seed=11).save_pretrained(folder)  # with it texts differ, in all three
    write_tokenizer(family, folder, texts)
    return folder
