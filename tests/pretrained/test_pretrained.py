"""Published weights compute in our class what they compute in transformers, and ours there what they compute here."""

import json
import random
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    GenerationConfig,
    MarianTokenizer,
    PegasusForConditionalGeneration,
    PegasusTokenizer,
)

from tests.nbclaims import cells
from tfm_lib.commands.cli import parser
from tfm_lib.data.batches import Batch, encode_pairs, pad_rows
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.data.published import read_tokenizer
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import load_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import export, from_pretrained, newsroom_model
from tfm_lib.pretrained.names import FAMILIES, halves, our_config, reordered, theirs
from tfm_lib.pretrained.small import publish_small, small_config, small_model, small_writing, write_tokenizer
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import greedy, summarize

ROOM = make_newsroom(0)
TEXTS = [story.article for story in ROOM.dev[:400]]
ODD = [
    "", " ", "a", " a  b ", "naïve café", "Ünïcödé", "東京で火事", "😀 fire", "e\u0301 and \u00e9", "ﬁre", "x\u00a0y",
    "tab\tbed", "line\nbreak", "1,000.50 €", "don't", "\u200bzero", "ÅÄÖ ß ẞ", "Привет, мир!", "مرحبا", "a" * 300,
    "½ ² ™", "“quoted”",
]  # fmt: skip
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
    write_tokenizer("bart", root / "bart", TEXTS)

    folder = root / "marian"
    folder.mkdir()
    for side, texts in (("source", TEXTS[:200]), ("target", TEXTS[200:])):
        prefix = folder / side
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_prefix=str(prefix), vocab_size=300, minloglevel=2
        )
        prefix.with_suffix(".model").rename(folder / f"{side}.spm")
        prefix.with_suffix(".vocab").unlink()
    files = [str(folder / f"{side}.spm") for side in ("source", "target")]
    sides = [sentencepiece.SentencePieceProcessor(model_file=file) for file in files]
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


each_family = pytest.mark.parametrize("family", FAMILIES)


def vocab_size(family: str, tokenizer: Path) -> int:
    """That of the models: Marian's has its table's tokens, Pegasus' 103 more than SentencePiece's."""
    if family == "marian":
        return len(json.loads((tokenizer / "vocab.json").read_text()))
    return 500 if family == "bart" else 403


def publish(family: str, tokenizer: Path, folder: Path, seed: int = 0):
    """A random model of transformers, saved as it would be published; returns it."""
    theirs = small_model(family, vocab_size(family, tokenizer), seed)
    theirs.save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return theirs


@each_family
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


def test_the_lessons_table_of_families_says_what_they_are():
    """Yes and no are no numbers, so that no claim holds them."""
    book = cells.read(Path(__file__).resolve().parents[2] / "notebooks/12_pretrained.ipynb")
    [table] = [cell.source for cell in book.cells if "| norm after the embedding |" in cell.source]
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    for column, family in enumerate(FAMILIES, start=2):
        assert lines[0][column].casefold() == family
        config = our_config({"model_type": family} | small_config(family))
        said = {line[0]: line[column] for line in lines}
        first = {config.pad_id: "padding", config.eos_id: "end sign"}
        learned = f"learned, row $p + {config.position_offset}$"
        for label, word in {
            "positions": "halves" if config.positions == "sinusoidal" else learned,
            "norm after the embedding": "yes" if config.embed_norm else "no",
            "norms": "before" if config.norm_first else "after",
            "embedding times": "sqrt" if config.embed_scale is None else "1",
            "activation": config.activation,
            "begins with": first[config.start_id],
        }.items():
            assert word.casefold() in said[label].casefold(), f"{family}, {label}: {word}, and not {said[label]}"


@each_family
@pytest.mark.parametrize("greedily", [False, True], ids=["as published", "greedy"])
def test_texts_are_theirs(family, greedily, tokenizers, tmp_path):
    ends = set()
    for seed in (0, 3, 5):  # by 3 Marian's random weights end texts at many lengths, by 5 those of Pegasus
        theirs = publish(family, tokenizers[family], tmp_path, seed)
        ours = from_pretrained(tmp_path)
        for start in range(0, 15, 5):
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


@each_family
def test_a_small_published_folder_is_read_and_written_alike(family, tmp_path):
    """Those of lesson 12, whose tokenizers are of one kind."""
    folder = publish_small(family, tmp_path, TEXTS)
    ours, theirs = from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [*TEXTS[:3], "A fire.", "Rain fell on Lima."]
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    assert ours.encode(texts).equal(batch.input_ids) and not batch.attention_mask.all()
    written = theirs.generate(**batch)
    assert ours.generate(texts) == tokenizer.batch_decode(written, skip_special_tokens=True)


def test_a_small_tokenizer_asks_for_texts_enough(tmp_path):
    with pytest.raises(ValueError, match="at most 261 with these texts, got 500; give more of them"):
        write_tokenizer("bart", tmp_path, ["ab"])


def test_what_the_generation_config_leaves_out_is_left_to_the_defaults_of_transformers(tokenizers, tmp_path):
    theirs = publish("marian", tokenizers["marian"], tmp_path, seed=3)
    ids = {name: i for name, i in theirs.config.to_dict().items() if name.endswith("_token_id")}
    (tmp_path / "generation_config.json").write_text(json.dumps(ids))
    ours = from_pretrained(tmp_path)
    src = ours.encode(TEXTS[:8])
    with pytest.warns(UserWarning, match="model-agnostic default"):
        written = (
            type(theirs).from_pretrained(tmp_path).generate(src, attention_mask=(src != ours.tokenizer.pad_id).long())
        )
    assert written.shape[1] == 1 + ours.generation.max_new_tokens == 21
    assert ours.generate(TEXTS[:8]) == [ours.tokenizer.decode(row) for row in written.tolist()]


def tokens_of(ours, src, greedily):
    said = ours.generation
    if greedily:
        return greedy(ours.model, src, said.max_new_tokens, rules=said.rules)
    options = dict(length_penalty=said.length_penalty, early_stopping=said.early_stopping, rules=said.rules)
    return beam_search(ours.model, src, said.max_new_tokens, num_beams=said.num_beams, **options)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    model, vocabulary = newsroom_model()
    return export(model, vocabulary, tmp_path_factory.mktemp("exported"), card="# A newsroom")


def test_transformers_writes_what_ours_writes_with_the_shipped_weights(exported):
    model, vocabulary = newsroom_model()
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(exported), AutoTokenizer.from_pretrained(exported)
    assert type(theirs) is PegasusForConditionalGeneration
    stories = [story.article for story in ROOM.test[:200]]
    for num_beams in (1, 4):
        write = greedy if num_beams == 1 else partial(beam_search, num_beams=num_beams)
        for start in range(0, len(stories), 100):
            texts = stories[start : start + 100]
            src = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
            written = theirs.generate(**src, num_beams=num_beams, max_new_tokens=16)
            ours = pad_rows(vocabulary.encode_all(texts), vocabulary.pad_id)
            assert ours.equal(src["input_ids"])
            mine = [vocabulary.decode(row) for row in write(model, ours, 16)]
            assert tokenizer.batch_decode(written, skip_special_tokens=True) == mine


def test_exported_logits_are_ours(exported):
    model, vocabulary = newsroom_model()
    theirs = AutoModelForSeq2SeqLM.from_pretrained(exported)
    pairs = [(story.article, story.summary) for story in ROOM.test[:20]]
    batch = Batch.of(*(vocabulary.encode_all(texts) for texts in zip(*pairs, strict=True)))
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        mine = model.to(dtype)(batch.src, batch.decoder_input)
        mask = (batch.src != vocabulary.pad_id).long()
        other = theirs.to(dtype)(input_ids=batch.src, attention_mask=mask, decoder_input_ids=batch.decoder_input).logits
        assert (mine - other).abs().max() < tolerance * mine.abs().max()


def test_what_was_exported_comes_back_bit_by_bit(exported):
    model, vocabulary = newsroom_model()
    back = from_pretrained(exported)
    order = halves(model.config.d_model).argsort()
    weights = reordered(back.model.state_dict(), order)
    assert weights.pop("output.bias").eq(0).all(), "which transformers has, and ours had not"
    assert weights.keys() == model.state_dict().keys()
    assert all(weight.equal(weights[name]) for name, weight in model.state_dict().items())
    texts = [story.article for story in ROOM.test[:20]]
    assert [back.tokenizer.frame(ids, 72) for ids in back.tokenizer.encode_all(texts)] == vocabulary.encode_all(texts)
    assert back.generate(texts, max_new_tokens=16) == summarize(
        model, vocabulary, encode_pairs([Pair(text, "") for text in texts], vocabulary, 72, 16), 16
    )


@pytest.mark.parametrize("cut", ["words", "byte pairs"])
def test_names_of_special_tokens_in_a_text_are_text_in_an_exported_tokenizer_too(cut, tmp_path):
    texts = ["[eos]", "[pad] fire [unk] [start]", "a fire [eos] in lima"]
    vocabulary = Vocabulary.of_words(TEXTS) if cut == "words" else Vocabulary.of_byte_pairs(TEXTS, 400)
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), d_model=8, num_heads=2, d_ff=8, max_length=32))
    tokenizer = AutoTokenizer.from_pretrained(export(model, vocabulary, tmp_path / "exported"))
    assert tokenizer(texts).input_ids == vocabulary.encode_all(texts)


def test_a_wrong_order_is_loaded_without_a_word_and_is_wrong(exported, tmp_path):
    """Why a permutation is needed: the names fit all the same."""
    model, _ = newsroom_model()
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    ours = {theirs(name): weight.contiguous() for name, weight in model.state_dict().items()}
    save_file(weights | {name: ours[name] for name in weights.keys() & ours.keys()}, tmp_path / "model.safetensors")
    assert from_pretrained(tmp_path).generate(TEXTS[:1]) != from_pretrained(exported).generate(TEXTS[:1])


BROKEN = {
    "no config": (
        lambda folder: (folder / "config.json").unlink(),
        "has no config.json, so it holds no published model",
    ),
    "no object": (lambda folder: (folder / "config.json").write_text("[]"), "is no JSON object"),
    "another family": (
        lambda folder: changed(folder, model_type="t5"),
        "model_type must be one of bart, marian, pegasus, got 't5'",
    ),
    "another activation": (
        lambda folder: changed(folder, activation_function="tanh"),
        "activation_function must be one of relu, gelu, silu, swish, got 'tanh'",
    ),
    "no width": (lambda folder: changed(folder, d_model=None), "the config has no d_model"),
    "heads that differ": (lambda folder: changed(folder, decoder_attention_heads=2), "encoder and decoder must agree"),
    "heads that do not divide the width": (
        lambda folder: changed(folder, encoder_attention_heads=3, decoder_attention_heads=3),
        "config.json: num_heads must divide d_model, got d_model=16 and num_heads=3",
    ),
    "untied": (lambda folder: changed(folder, tie_word_embeddings=False), "tie_word_embeddings must be True"),
    "groups of beams": (
        lambda folder: changed(folder, "generation_config.json", num_beam_groups=2),
        "num_beam_groups=2 is a way to write that is not built here",
    ),
    "long banned words": (
        lambda folder: changed(folder, "generation_config.json", bad_words_ids=[[3, 4]]),
        "bad_words_ids can ban single tokens only",
    ),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer; it needs tokenizer.json"),
    "a broken tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        "can't be read as a tokenizer",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "has no weights; it needs model.safetensors",
    ),
    "cut short": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
        "are cut short or altered",
    ),
    "one too few": (lambda folder: weights(folder, drop="fc1.bias"), "they lack model.decoder.layers.0.fc1.bias"),
    "one too many": (
        lambda folder: weights(folder, add={"model.encoder.layers.9.fc1.bias": torch.zeros(3)}),
        "they have too many model.encoder.layers.9.fc1.bias",
    ),
    "another shape": (
        lambda folder: weights(folder, add={"model.encoder.layers.0.fc1.bias": torch.zeros(3)}),
        "they have in another shape model.encoder.layers.0.fc1.bias",
    ),
    "not finite": (
        lambda folder: weights(folder, add={"model.encoder.layers.0.fc1.bias": torch.full((32,), torch.nan)}),
        "they have with numbers that are not finite model.encoder.layers.0.fc1.bias",
    ),
    "two tables": (
        lambda folder: weights(folder, add={"lm_head.weight": torch.zeros(500, 16)}),
        "is another table than the one before it",
    ),
}


def changed(folder: Path, name: str = "config.json", **values: object) -> None:
    content = json.loads((folder / name).read_text()) | values
    (folder / name).write_text(json.dumps(content))


def weights(folder: Path, drop: str = "", add: dict | None = None) -> None:
    kept = {n: w for n, w in load_file(folder / "model.safetensors").items() if not (drop and n.endswith(drop))}
    save_file(kept | (add or {}), folder / "model.safetensors")


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_refused(what, tokenizers, tmp_path):
    publish("bart", tokenizers["bart"], tmp_path)
    hurt, message = BROKEN[what]
    hurt(tmp_path)
    with pytest.raises(CourseError, match=re.escape(message)):
        from_pretrained(tmp_path)


def test_what_was_pickled_is_read_without_running_it(tokenizers, tmp_path):
    theirs = publish("marian", tokenizers["marian"], tmp_path)
    expected = from_pretrained(tmp_path).model.state_dict()
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")  # as of old: every copy, and the sinusoids
    for name, weight in from_pretrained(tmp_path).model.state_dict().items():
        assert weight.equal(expected[name])
    moved = theirs.state_dict()
    moved["model.encoder.embed_positions.weight"] = moved["model.encoder.embed_positions.weight"].roll(1, 0)
    torch.save(moved, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="holds other positions than sines and cosines"):
        from_pretrained(tmp_path)
    torch.save({"weight": Trap()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="holds more than tensors"):
        from_pretrained(tmp_path)
    assert not Trap.sprung


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


@each_family
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_tokens_and_texts_are_theirs(family, tokenizers, tmp_path):
    kind = {"bart": BartTokenizer, "marian": MarianTokenizer, "pegasus": PegasusTokenizer}[family]
    theirs = kind.from_pretrained(tokenizers[family])
    said = small_config(family, vocab_size(family, tokenizers[family]))
    ids = dict(pad_id=said["pad_token_id"], start_id=said["decoder_start_token_id"], eos_id=said["eos_token_id"])
    ours = read_tokenizer(tokenizers[family], ids, 0 if family == "bart" else None)
    again = Vocabulary.from_json(ours.to_json())
    if family == "pegasus":
        named = {i: piece.replace("▁", " ").strip() for piece, i in theirs.get_vocab().items()}
        assert ours.pieces(range(len(ours))) == [named[i] for i in range(len(ours))], "also those that no text has"
    texts = odd_texts()
    assert len(texts) > 100
    for text in texts:
        if family == "pegasus":  # at outer spaces transformers departs from SentencePiece
            text = text.strip()
        tokens = ours.frame(ours.encode(text), 10**6)
        assert tokens == theirs(text).input_ids == again.frame(again.encode(text), 10**6), text
        assert ours.decode(tokens).strip() == theirs.decode(tokens, skip_special_tokens=True).strip(), text
        assert ours.frame(ours.encode(text), 5)[-1] == ours.eos_id and len(ours.frame(ours.encode(text), 5)) <= 5
        if family == "marian":
            assert [*ours.encode_all([text], written=True)[0], 0] == theirs(text_target=text).input_ids


def test_a_published_vocabulary_is_read_where_nothing_published_was_imported(tokenizers, tmp_path):
    publish("bart", tokenizers["bart"], tmp_path)
    own = from_pretrained(tmp_path).tokenizer
    (tmp_path / "own.json").write_text(own.to_json())
    code = "import sys; from tfm_lib.data.vocabulary import Vocabulary as Any\n"
    code += "print(*Any.from_json(open(sys.argv[1]).read()).encode('fire'))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "own.json")], capture_output=True, text=True)
    assert done.stdout.split() == [str(i) for i in own.encode("fire")], done.stderr


def test_it_works_without_transformers(tokenizers, tmp_path):
    publish("bart", tokenizers["bart"], tmp_path)
    text = "A storm tore the roof off a school in Lima on Monday."
    code = f"""
import sys
sys.modules["transformers"] = None
from tfm_lib.pretrained import export, from_pretrained, newsroom_model
ours = from_pretrained({str(tmp_path)!r})
print(ours.generate([{text!r}]))
export(*newsroom_model(), {str(tmp_path / "out")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(from_pretrained(tmp_path).generate([text]))


def command(*arguments: str) -> None:
    args = parser().parse_args(arguments)
    args.run(args)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_pairs(path: Path, number: int) -> Path:
    pairs = [(f"on day {i} the shop sold {i % 7} lamps", f"{i % 7} lamps sold") for i in range(number)]
    path.write_text("\n".join(json.dumps(dict(zip(Pair._fields, pair, strict=True))) for pair in pairs))
    return path


def test_the_shipped_model_is_exported_with_a_card_whose_code_runs(elsewhere, capsys):
    command("export", "--model", "newsroom")
    assert "exported/newsroom opens in transformers" in capsys.readouterr().out
    card = (elsewhere / "exported/newsroom/README.md").read_text()
    assert "| model | 9" in card and "## The names that were never seen" in card
    [code] = re.findall(r"```python\n(.+?)```", card, re.DOTALL)
    exec(code.replace("A text to summarize.", TEXTS[0]), {})
    model, vocabulary = newsroom_model()
    written = greedy(model, pad_rows(vocabulary.encode_all(TEXTS[:1])), 71)
    assert capsys.readouterr().out.strip() == str([vocabulary.decode(written[0])])


def test_a_run_is_exported_tuned_and_exported_again(elsewhere, capsys):
    data = write_pairs(elsewhere / "shop.jsonl", 60)
    command("train", "--data", str(data), "--steps", "2", "--copy", "0")
    command("export")
    [folder] = (elsewhere / "exported").iterdir()
    card = (folder / "README.md").read_text()
    assert "2 steps" in card and "| model, 4 beams |" in card and "first" in card
    before = from_pretrained(folder)
    command("train", "--data", str(data), "--steps", "3", "--model", str(folder))
    [run] = [path for path in (elsewhere / "runs").iterdir() if "-on-" in path.name]
    kept = load_checkpoint(run / "checkpoint.safetensors")
    assert kept.state.recipe.peak_rate == pytest.approx(0.05 / 128) and kept.state.finished
    assert type(kept.vocabulary).__name__ == "TokenizerVocabulary" and len(kept.vocabulary) == len(before.tokenizer)
    moved = [name for name, w in kept.model.state_dict().items() if not w.equal(before.model.state_dict()[name])]
    assert moved and kept.model.config == before.model.config
    capsys.readouterr()
    command("write", "--model", str(run), "--text", "on day 3 the shop sold 3 lamps")
    wrote = capsys.readouterr().out.strip()
    command("export", "--model", str(run), "--out", "again")
    settings = dict(max_new_tokens=127, rules=kept.rules)
    assert from_pretrained("again").generate(["on day 3 the shop sold 3 lamps"], **settings) == [wrote]
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("again"), AutoTokenizer.from_pretrained("again")
    src = tokenizer(["on day 3 the shop sold 3 lamps"], return_tensors="pt")
    written = theirs.generate(src.input_ids, attention_mask=src.attention_mask)
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == [wrote]


@each_family
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_published_model_is_tuned_with_its_own_tokens(family, tokenizers, elsewhere):
    publish(family, tokenizers[family], elsewhere / "published")
    data = write_pairs(elsewhere / "shop.jsonl", 40)
    command("train", "--data", str(data), "--steps", "2", "--model", "published")
    [run] = (elsewhere / "runs").iterdir()
    kept, before = load_checkpoint(run / "checkpoint.safetensors"), from_pretrained("published")
    assert kept.model.config == before.model.config
    texts = odd_texts()
    assert kept.vocabulary.encode_all(texts) == before.tokenizer.encode_all(texts)
    pairs = encode_pairs([Pair("the shop " * 99, "lamps")], kept.vocabulary, 64, 63)
    [article], [summary] = pairs.articles, pairs.summaries
    assert len(article) == 64 and article[-1] == kept.vocabulary.eos_id, "cut, and closed all the same"
    assert (summary[0] == 0) == (family == "bart"), "which begins its texts with a token of its own"
    command("export", "--model", str(run), "--out", "out")
    assert AutoTokenizer.from_pretrained("out")(TEXTS[0]).input_ids == article_of(before, TEXTS[0])


def article_of(published, text: str) -> list[int]:
    return published.tokenizer.frame(published.tokenizer.encode(text), 10**6)


def test_a_copying_model_is_exported_without_its_head_alone(elsewhere, capsys):
    with pytest.raises(ValueError, match="one without, by --copy 0, or export this one without its head, by --head 0"):
        command("export", "--model", "newsroom-copying")
    with pytest.raises(ValueError, match="say which pairs it learned from"):
        command("export", "--model", "newsroom-copying", "--head", "0")
    with pytest.raises(ValueError, match="newsroom does not copy"):
        command("export", "--model", "newsroom", "--head", "0", "--task", "newsroom")
    command("export", "--model", "newsroom-copying", "--head", "0", "--task", "newsroom")
    out = capsys.readouterr().out
    left, whole = map(float, re.search(r"in percent: ([\d.]+), with the head ([\d.]+)\.", out).groups())
    assert left < whole and 98 < whole <= 100
    folder = elsewhere / "exported/newsroom-copying-without-head"
    assert out.splitlines()[0] in (folder / "README.md").read_text()
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is PegasusForConditionalGeneration


MEASURE = """
import json, resource, sys
import torch
from tfm_lib.pretrained import from_pretrained
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ours = from_pretrained(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
src, tgt = torch.arange(3, 43)[None] * 1000 % 50000, torch.arange(3, 13)[None] * 1000
with torch.inference_mode():
    torch.save(ours.model(src, tgt), sys.argv[2])
print(json.dumps({"kilobytes": peak - begin, "parameters": sum(p.numel() for p in ours.model.parameters())}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="counts memory as POSIX systems do")
def test_a_model_of_full_size_takes_no_more_memory_than_its_file(tokenizers, tmp_path):
    """bart-large-cnn's shape, with random weights."""
    sizes = dict(vocab_size=50264, d_model=1024, max_position_embeddings=1024, encoder_layers=12, decoder_layers=12)
    sizes |= dict(encoder_attention_heads=16, decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096)
    torch.manual_seed(0)
    theirs = BartForConditionalGeneration(BartConfig(**small_config("bart") | sizes)).eval()
    theirs.generation_config = GenerationConfig(**small_writing("bart"))
    theirs.save_pretrained(tmp_path)
    for file in tokenizers["bart"].iterdir():
        shutil.copy(file, tmp_path)
    src, tgt = torch.arange(3, 43)[None] * 1000 % 50000, torch.arange(3, 13)[None] * 1000
    with torch.inference_mode():
        expected = theirs(input_ids=src, decoder_input_ids=tgt).logits
    del theirs
    out = tmp_path / "logits.pt"
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured, size = json.loads(done.stdout), (tmp_path / "model.safetensors").stat().st_size
    scale = 1 if sys.platform == "darwin" else 1024
    assert measured["parameters"] == 406_290_432 + 50_264, "theirs, and the bias on the logits, which is a buffer there"
    assert measured["kilobytes"] * scale < 1.15 * size
    assert (torch.load(out) - expected).abs().max() < 1e-5 * expected.abs().max()


def test_what_was_fetched_once_is_found_without_a_network(tokenizers, tmp_path, monkeypatch):
    """In the form in which the hub's library keeps it."""
    kept = tmp_path / "models--somebody--small"
    publish("bart", tokenizers["bart"], kept / "snapshots/0123abcd")
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text("0123abcd")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    fetched, direct = from_pretrained("somebody/small"), from_pretrained(kept / "snapshots/0123abcd")
    assert fetched.name == "somebody/small" and fetched.generate(TEXTS[:2]) == direct.generate(TEXTS[:2])
    with pytest.raises(OSError, match="somebody/large is no folder, was never fetched, and can't be now"):
        from_pretrained("somebody/large")
    with pytest.raises(ValueError, match="no such/name/at all is neither a folder nor a model on the hub"):
        from_pretrained("no such/name/at all")


PUBLISHED = {
    "sshleifer/distilbart-cnn-12-6": "PG&E scheduled the blackouts in response to forecasts for high winds amid dry "
    "conditions. The aim is to reduce the risk of wildfires. Nearly 800 thousand customers were to be affected.",
    "facebook/bart-large-cnn": "The tower is 324 metres tall, about the same height as an 81-storey building, and the "
    "tallest structure in Paris. Its base is square, measuring 125 metres on each side.",
    "Helsinki-NLP/opus-mt-en-de": "The flames reached the harbor on Monday, and nobody was hurt.",
    "google/pegasus-xsum": "The storm tore the roof off a school in Lima on Monday. Nobody was hurt, the mayor said.",
}


@pytest.mark.network
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_writes_what_it_writes_in_transformers(name):
    text = PUBLISHED[name]
    ours = from_pretrained(name)
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(name).eval().float(), AutoTokenizer.from_pretrained(name)
    src = tokenizer([text], return_tensors="pt")
    assert ours.encode([text]).equal(src.input_ids)
    written = theirs.generate(src.input_ids, attention_mask=src.attention_mask)
    assert ours.generate([text]) == [tokenizer.decode(written[0], skip_special_tokens=True).strip()]


def test_export_replaces_an_export_and_no_folder_of_others(tmp_path):
    """Once it wrote over a README.md that was somebody's."""
    model, vocabulary = newsroom_model()
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match="holds other files; give a new folder"):
        export(model, vocabulary, tmp_path, card="of the course `tfm_lib`")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    for _ in range(2):
        export(model, vocabulary, tmp_path / "new", card="of the course `tfm_lib`")
