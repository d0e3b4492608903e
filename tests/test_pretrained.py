"""Published weights compute in our class what they compute in transformers, and ours there what they compute here."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from tfm_lib.newsroom import make_newsroom
from tfm_lib.pretrained import from_pretrained
from tfm_lib.pretrained.names import NAMES, halves, reordered, theirs

TEXTS = [story.article for story in make_newsroom(0).dev[:400]]
ODD = [
    "", " ", "a", " a  b ", "naïve café", "Ünïcödé", "東京で火事", "😀 fire", "e\u0301 and \u00e9", "ﬁre", "x\u00a0y", "tab\tbed",
    "line\nbreak", "1,000.50 €", "don't", "\u200bzero", "ÅÄÖ ß ẞ", "Привет, мир!", "مرحبا", "a" * 300, "½ ² ™", "“quoted”",
]  # fmt: skip
SIZES = dict(d_model=16, max_position_embeddings=64, encoder_layers=2, decoder_layers=1, dropout=0.0) | dict(
    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32
)
# As the three were published: what their generation_config.json says, shortened to our lengths.
GENERATION = {
    "bart": dict(
        max_length=24, min_length=6, num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3, early_stopping=True,
        forced_bos_token_id=0, forced_eos_token_id=2,
    ),
    "marian": dict(max_length=24, num_beams=6, forced_eos_token_id=0, renormalize_logits=True),
    "pegasus": dict(max_length=24, num_beams=8, length_penalty=0.8, forced_eos_token_id=1),
}  # fmt: skip
GREEDY = dict(num_beams=1, length_penalty=1.0, early_stopping=False)


def odd_texts() -> list[str]:
    """A hundred and more texts: odd ones, and news with odd signs among its words."""
    rng = random.Random(0)
    mixed = [" ".join(rng.choice([*text.split(), rng.choice(ODD)]) for _ in range(12)) for text in TEXTS[:100]]
    return ODD + mixed


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory) -> dict[str, Path]:
    """Folders with a tokenizer of each family, trained here, in the files in which they are published."""
    root = tmp_path_factory.mktemp("tokenizers")
    bytes_ = Tokenizer(models.BPE())
    bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bytes_.train_from_iterator(TEXTS, trainer)
    bytes_.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    folder = root / "bart"
    folder.mkdir()
    bytes_.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "BartTokenizer", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about | {"unk_token": "<unk>"}))

    folder = root / "marian"
    folder.mkdir()
    for side, texts in (("source", TEXTS[:200]), ("target", TEXTS[200:])):
        prefix = folder / side
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_prefix=str(prefix), vocab_size=300, minloglevel=2
        )
        prefix.with_suffix(".model").rename(folder / f"{side}.spm")
        prefix.with_suffix(".vocab").unlink()
    sides = [sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")]
    pieces = {piece: None for side in sides for piece in map(side.id_to_piece, range(3, len(side)))}
    table = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(table))
    about = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de", "separate_vocabs": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))

    folder = root / "pegasus"
    folder.mkdir()
    special = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_prefix=str(folder / "spiece"), vocab_size=300, minloglevel=2, **special
    )
    (folder / "spiece.vocab").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PegasusTokenizer"}))
    return {family: root / family for family in ("bart", "marian", "pegasus")}


MODELS = {
    "bart": (BartConfig, BartForConditionalGeneration),
    "marian": (MarianConfig, MarianMTModel),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration),
}
FAMILIES = pytest.mark.parametrize("family", MODELS)


def settings(family: str, tokenizer: Path) -> tuple[dict, dict]:
    """Config and generation settings, with the ids and options with which each family was published."""
    if family == "bart":
        ids, vocab_size = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2), 500
        options = dict(activation_function="gelu", scale_embedding=False)
        banned = {}
    elif family == "marian":
        table = json.loads((tokenizer / "vocab.json").read_text())
        pad, vocab_size = table["<pad>"], len(table)
        ids = dict(pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, bos_token_id=0)
        options, banned = dict(activation_function="swish", scale_embedding=True), dict(bad_words_ids=[[pad]])
    else:
        ids, vocab_size = dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, bos_token_id=0), 403
        options, banned = dict(activation_function="relu", scale_embedding=True), {}
    return dict(**SIZES, **ids, **options, vocab_size=vocab_size), ids | GENERATION[family] | banned


def publish(family: str, tokenizer: Path, folder: Path, seed: int = 0):
    """A random model of transformers, saved as it would be published; returns it."""
    config, generation = settings(family, tokenizer)
    torch.manual_seed(seed)
    kind, model = MODELS[family]
    theirs = model(kind(**config)).eval()
    with torch.no_grad():
        for name, p in theirs.named_parameters():  # loud, so that texts differ and end at many lengths
            if p.requires_grad:
                std = 0.4 if "shared" in name else 3.0 if "positions" in name else 1.0
                p.normal_(mean=float(name.endswith("norm.weight")), std=std)
        theirs.final_logits_bias.normal_(std=0.3)
        theirs.model.shared.weight[config["eos_token_id"]] *= 3.0  # likely here, unlikely there
        theirs.final_logits_bias[0, config["eos_token_id"]] += seed
    theirs.generation_config = GenerationConfig(**generation)
    theirs.save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return theirs


@FAMILIES
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_logits_are_theirs(family, dtype, tolerance, tokenizers, tmp_path):
    theirs = publish(family, tokenizers[family], tmp_path).to(dtype)
    ours = from_pretrained(tmp_path)
    src = ours.encode(TEXTS[:5])
    tgt = torch.randint(ours.model.config.vocab_size, (5, 9))
    with torch.inference_mode():
        mine = ours.model.to(dtype)(src, tgt)
        mask = (src != ours.tokenizer.pad_id).long()
        other = theirs(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
    assert other.std() > 0.5 and mask.min() == 0, "loud logits, and padding"
    assert (mine - other).abs().max() < tolerance * other.abs().max()


@FAMILIES
@pytest.mark.parametrize("greedily", [False, True], ids=["as published", "greedy"])
def test_texts_are_theirs(family, greedily, tokenizers, tmp_path):
    ends = set()
    for seed in range(6):
        theirs = publish(family, tokenizers[family], tmp_path, seed)
        ours = from_pretrained(tmp_path)
        for start in range(0, 25, 5):
            texts = TEXTS[start : start + 5]
            src = ours.encode(texts)
            changes = GREEDY if greedily else {}
            tokens = theirs.generate(src, attention_mask=(src != ours.tokenizer.pad_id).long(), **changes)[:, 1:]
            mine = tokens_of(ours, src, greedily)
            for row, other in zip(mine.tolist(), tokens.tolist(), strict=True):
                end = row.index(ours.tokenizer.eos_id) + 1 if ours.tokenizer.eos_id in row else len(row)
                assert row[:end] == other[:end]
                ends.add(end)
            assert ours.generate(texts, **changes) == [ours.tokenizer.decode(row) for row in tokens.tolist()]
    assert len(ends) > 2, f"texts end at many lengths, not at {ends}"


def tokens_of(ours, src, greedily):
    from tfm_lib.beam import beam_search
    from tfm_lib.decoding import greedy

    said = ours.generation
    if greedily:
        return greedy(ours.model, src, said.max_new_tokens, rules=said.rules)
    options = dict(length_penalty=said.length_penalty, early_stopping=said.early_stopping, rules=said.rules)
    return beam_search(ours.model, src, said.max_new_tokens, num_beams=said.num_beams, **options)
