"""Published weights compute in our class what they compute in transformers, and ours there what they compute here."""

import json
import random
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.commands.test_train_command import write_pairs
from tests.nbclaims import cells
from tfm_lib.commands.cli import run as command
from tfm_lib.data.batches import encode_pairs, pad_rows
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.data.published import read_tokenizer
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import load_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import export, from_pretrained, newsroom_model
from tfm_lib.pretrained.names import FAMILIES, our_config, their_config
from tfm_lib.pretrained.small import small_config, small_model, small_writing, write_tokenizer
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.decoding import greedy

ROOM = make_newsroom(0, train=1)
TEXTS = [story.article for story in ROOM.dev[:400]]
ODD = [
    "", " ", "a", " a  b ", "naïve café", "Ünïcödé", "東京で火事", "😀 fire", "e\u0301 and \u00e9", "ﬁre", "x\u00a0y",
    "tab\tbed", "line\nbreak", "1,000.50 €", "don't", "\u200bzero", "ÅÄÖ ß ẞ", "Привет, мир!", "مرحبا", "a" * 300,
    "½ ² ™", "“quoted”",
]  # fmt: skip


def sentence_pieces(prefix: Path, texts: list[str], **special: int) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(prefix), vocab_size=300, minloglevel=2, **special
    )
    prefix.with_suffix(".vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory) -> dict[str, Path]:
    """Folders with a tokenizer of each family, trained here, in the files in which they are published."""
    folders = {family: tmp_path_factory.mktemp(family) for family in FAMILIES}
    write_tokenizer("bart", folders["bart"], TEXTS)

    folder = folders["marian"]
    parts = {"source": TEXTS[:200], "target": TEXTS[200:]}
    sides = [sentence_pieces(folder / side, texts) for side, texts in parts.items()]
    for side in parts:
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    pieces = {piece: None for side in sides for piece in map(side.id_to_piece, range(3, len(side)))}
    table = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(table))
    about = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de", "separate_vocabs": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))

    sentence_pieces(folders["pegasus"] / "spiece", TEXTS, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folders["pegasus"] / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PegasusTokenizer"}))
    return folders


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
    shutil.copytree(tokenizer, folder, dirs_exist_ok=True)
    return theirs


@each_family
def test_the_logits_are_theirs(family, tokenizers, tmp_path):
    theirs = publish(family, tokenizers[family], tmp_path).double()
    ours = from_pretrained(tmp_path)
    src = ours.encode(TEXTS[:5])
    tgt = torch.randint(ours.model.config.vocab_size, (5, 9))
    with torch.inference_mode():
        mine = ours.model.double()(src, tgt)
        mask = (src != ours.tokenizer.pad_id).long()
        other = theirs(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
    assert other.std() > 0.5 and mask.min() == 0, "loud logits, and padding"
    assert (mine - other).abs().max() < 1e-12 * other.abs().max()


def test_the_lessons_table_of_families_says_what_they_are():
    """Yes and no are no numbers, so that no claim holds them."""
    book = cells.read(Path(__file__).resolve().parents[2] / "notebooks/12_pretrained.ipynb")
    [table] = [cell.source for cell in book.cells if "| norm after the embedding |" in cell.source]
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    for column, family in enumerate(FAMILIES, start=2):
        assert lines[0][column].casefold() == family
        config = our_config({"model_type": family} | small_config(family))
        columns = {line[0]: line[column] for line in lines}
        first = {config.pad_id: "padding", config.eos_id: "end token"}
        learned = f"learned, row $p + {config.position_offset}$"
        for label, word in {
            "positions": "halves" if config.positions == "sinusoidal" else learned,
            "norm after the embedding": "yes" if config.embed_norm else "no",
            "norms": "before" if config.norm_first else "after",
            "embedding times": "sqrt" if config.embed_scale is None else "1",
            "activation": config.activation,
            "begins with": first[config.start_id],
        }.items():
            assert word.casefold() in columns[label].casefold(), f"{family}, {label}: {word}, and not {columns[label]}"


def test_a_small_tokenizer_asks_for_texts_enough(tmp_path):
    with pytest.raises(ValueError, match="at most 261 with these texts, got 500; give more of them"):
        write_tokenizer("bart", tmp_path, ["ab"])


def test_what_the_generation_config_leaves_out_is_left_to_the_defaults_of_transformers(tokenizers, tmp_path):
    theirs = publish("marian", tokenizers["marian"], tmp_path, seed=3)
    theirs.final_logits_bias[:, theirs.config.eos_token_id] = -1e4  # only its greatest length ends a text
    theirs.save_pretrained(tmp_path)
    ids = {name: i for name, i in theirs.config.to_dict().items() if name.endswith("_token_id")}
    (tmp_path / "generation_config.json").write_text(json.dumps(ids))
    ours = from_pretrained(tmp_path)
    src = ours.encode(TEXTS[:8])
    theirs, mask = type(theirs).from_pretrained(tmp_path), (src != ours.tokenizer.pad_id).long()
    with pytest.warns(UserWarning, match="model-agnostic default"):
        written = theirs.generate(src, attention_mask=mask)
    assert written.shape[1] == 1 + ours.generation.max_new_tokens == 21
    assert ours.generate(TEXTS[:8]) == [ours.tokenizer.decode(row) for row in written.tolist()]


def test_transformers_writes_what_ours_writes_with_the_shipped_weights(tmp_path):
    model, vocabulary = newsroom_model()
    exported = export(model, vocabulary, tmp_path / "exported")
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(exported), AutoTokenizer.from_pretrained(exported)
    assert type(theirs) is transformers.PegasusForConditionalGeneration
    texts = [story.article for story in ROOM.test[:60]]
    src = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    ours = pad_rows(vocabulary.encode_all(texts), vocabulary.pad_id)
    assert ours.equal(src["input_ids"])
    for num_beams, write in ((1, greedy), (4, partial(beam_search, num_beams=4))):
        written = theirs.generate(**src, num_beams=num_beams, max_new_tokens=16)
        mine = [vocabulary.decode(row) for row in write(model, ours, 16)]
        assert tokenizer.batch_decode(written, skip_special_tokens=True) == mine


@pytest.mark.parametrize("cut", ["words", "byte pairs"])
def test_names_of_special_tokens_in_a_text_are_text_in_an_exported_tokenizer_too(cut, tmp_path):
    texts = ["[eos]", "[pad] fire [unk] [start]", "a fire [eos] in lima"]
    vocabulary = Vocabulary.of_words(TEXTS) if cut == "words" else Vocabulary.of_byte_pairs(TEXTS, 400)
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), d_model=8, num_heads=2, d_ff=8, max_length=32))
    tokenizer = AutoTokenizer.from_pretrained(export(model, vocabulary, tmp_path / "exported"))
    assert tokenizer(texts).input_ids == vocabulary.encode_all(texts)


def settings(folder: Path, file: str, **changes: object) -> None:
    """Change what a JSON file of a folder says; None takes a setting out."""
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({name: value for name, value in (content | changes).items() if value is not None}))


BIAS = "model.encoder.layers.0.fc1.bias"


def says(**values):
    return lambda folder: settings(folder, "config.json", **values)


def without(name):
    return lambda folder: (folder / name).unlink()


def rewritten(name, text):
    return lambda folder: (folder / name).write_text(text)


def weighs(drop="nothing", **add):
    def change(folder: Path) -> None:
        weights = {n: w for n, w in load_file(folder / "model.safetensors").items() if not n.endswith(drop)}
        save_file(weights | {name.replace("__", "."): w for name, w in add.items()}, folder / "model.safetensors")

    return change


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


BROKEN = [
    (without("config.json"), "has no config.json, so it holds no published model"),
    (rewritten("config.json", "[]"), "is no JSON object"),
    (says(model_type="bert"), "model_type must be one of bart, marian, pegasus, got 'bert'"),
    (says(model_type="led"), "a LEDForConditionalGeneration, a BART whose encoder looks through a window: lesson 15"),
    (says(activation_function="tanh"), "activation_function must be one of relu, gelu, silu, swish, got 'tanh'"),
    (says(d_model=None), "the config has no d_model"),
    (says(decoder_attention_heads=2), "encoder and decoder must agree"),
    (
        says(encoder_attention_heads=3, decoder_attention_heads=3),
        "config.json: num_heads must divide d_model, got d_model=16 and num_heads=3",
    ),
    (says(tie_word_embeddings=False), "tie_word_embeddings must be True"),
    (without("tokenizer.json"), "has no tokenizer; it needs tokenizer.json"),
    (lambda folder: (folder / "tokenizer.json").rename(folder / "vocab.txt"), ").save_pretrained("),
    (rewritten("tokenizer.json", "{"), "can't be read as a tokenizer"),
    (without("model.safetensors"), "has no weights; it needs model.safetensors"),
    (cut_short, "are cut short or altered"),
    (rewritten("model.safetensors.index.json", '{"weight_map": {'), "index.json is cut short or altered (Expecting"),
    (rewritten("model.safetensors.index.json", "{}"), "index.json is cut short or altered ('weight_map'); fetch it"),
    (weighs(drop="fc1.bias"), "only the model has model.decoder.layers.0.fc1.bias"),
    (weighs(model__more=torch.zeros(3)), "only the file has model.more"),
    (weighs(**{BIAS: torch.zeros(3)}), f"of another shape are {BIAS}"),
    (weighs(**{BIAS: torch.full((32,), torch.nan)}), f"are not finite: {BIAS}"),
    (weighs(lm_head__weight=torch.zeros(500, 16)), "is another table than the one before it"),
]


@pytest.mark.parametrize(("hurt", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_broken_folder_is_refused(hurt, message, tokenizers, tmp_path):
    publish("bart", tokenizers["bart"], tmp_path)
    hurt(tmp_path)
    with pytest.raises(CourseError, match=re.escape(message)):
        from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tied": False}, "it is marian, and tied must be True, got False; train a model with tied=True"),
        ({"positions": "learned"}, "it is bart, and position_offset must be 2, got 0"),
        ({"embed_norm": True}, "it is marian, and embed_norm must be False, got True"),
        ({"embed_scale": 3.0}, "scales embeddings by 1 or by sqrt(d_model), not by 3.0"),
    ],
)
def test_a_model_that_transformers_does_not_have_is_not_exported(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        their_config(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8, **options))


def test_what_was_pickled_is_read_without_running_it(tokenizers, tmp_path):
    weights = publish("marian", tokenizers["marian"], tmp_path).state_dict()  # of old: every copy, and the sinusoids
    expected = from_pretrained(tmp_path).model.state_dict()
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    for name, weight in from_pretrained(tmp_path).model.state_dict().items():
        assert weight.equal(expected[name])
    weights["model.encoder.embed_positions.weight"] = weights["model.encoder.embed_positions.weight"].roll(1, 0)
    torch.save(weights, tmp_path / "pytorch_model.bin")
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
    theirs = getattr(transformers, f"{family.title()}Tokenizer").from_pretrained(tokenizers[family])
    config = small_config(family, vocab_size(family, tokenizers[family]))
    ids = dict(pad_id=config["pad_token_id"], start_id=config["decoder_start_token_id"], eos_id=config["eos_token_id"])
    ours = read_tokenizer(tokenizers[family], ids, 0 if family == "bart" else None)
    again = Vocabulary.from_json(ours.to_json())
    if family == "pegasus":
        named = {i: piece.replace("▁", " ").strip() for piece, i in theirs.get_vocab().items()}
        assert ours.pieces(range(len(ours))) == [named[i] for i in range(len(ours))], "also those that no text has"
    rng = random.Random(0)  # news with odd signs among its words
    mixed = [" ".join(rng.choice([*text.split(), rng.choice(ODD)]) for _ in range(12)) for text in TEXTS[:100]]
    for text in ODD + mixed:
        if family == "pegasus":  # at outer spaces transformers departs from SentencePiece
            text = text.strip()
        tokens = ours.frame(ours.encode(text), 10**6)
        assert tokens == theirs(text).input_ids == again.frame(again.encode(text), 10**6), text
        assert ours.decode(tokens).strip() == theirs.decode(tokens, skip_special_tokens=True).strip(), text
        assert ours.frame(ours.encode(text), 5)[-1] == ours.eos_id and len(ours.frame(ours.encode(text), 5)) <= 5
        if family == "marian":
            assert [*ours.encode_all([text], target=True)[0], 0] == theirs(text_target=text).input_ids


def test_it_works_without_transformers(tokenizers, tmp_path):
    """And a vocabulary is read where nothing published was imported before."""
    publish("bart", tokenizers["bart"], tmp_path)
    ours, text = from_pretrained(tmp_path), "A storm tore the roof off a school in Lima on Monday."
    (tmp_path / "own.json").write_text(ours.tokenizer.to_json())
    code = f"""
import sys
from tfm_lib.data.vocabulary import Vocabulary
print(Vocabulary.from_json(open({str(tmp_path / "own.json")!r}).read()).encode({text!r}))
sys.modules["transformers"] = None
from tfm_lib.pretrained import export, from_pretrained, newsroom_model
print(from_pretrained({str(tmp_path)!r}).generate([{text!r}]))
export(*newsroom_model(), {str(tmp_path / "out")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(ours.tokenizer.encode(text)), str(ours.generate([text]))]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    assert "in lower case, and was trained from scratch" in card and "nothing but its training pairs" in card
    assert "2 steps" in card and "| model, 4 beams |" in card and "first" in card
    before = from_pretrained(folder)
    command("train", "--data", str(data), "--steps", "3", "--model", str(folder))
    [run] = [path for path in (elsewhere / "runs").iterdir() if "-on-" in path.name]
    loaded = load_checkpoint(run / "checkpoint.safetensors")
    assert loaded.state.recipe.peak_rate == pytest.approx(0.05 / 128) and loaded.state.finished
    assert type(loaded.vocabulary).__name__ == "TokenizerVocabulary" and len(loaded.vocabulary) == len(before.tokenizer)
    assert loaded.model.config == before.model.config
    assert any(not w.equal(before.model.state_dict()[name]) for name, w in loaded.model.state_dict().items())
    capsys.readouterr()
    text = "on day 3 the shop sold 3 lamps"
    command("write", "--model", str(run), "--text", text)
    wrote = capsys.readouterr().out.strip()
    command("export", "--model", str(run), "--out", "again")
    card = Path("again/README.md").read_text()
    assert "a published model that was fine-tuned" in card and "scratch" not in card and "nothing but" not in card
    assert from_pretrained("again").generate([text], max_new_tokens=127, rules=loaded.rules) == [wrote]
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("again"), AutoTokenizer.from_pretrained("again")
    src = tokenizer([text], return_tensors="pt")
    written = theirs.generate(src.input_ids, attention_mask=src.attention_mask)
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == [wrote]


@each_family
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_published_model_is_tuned_with_its_own_tokens(family, tokenizers, elsewhere):
    publish(family, tokenizers[family], elsewhere / "published")
    data = write_pairs(elsewhere / "shop.jsonl", 20)
    command("train", "--data", str(data), "--steps", "1", "--model", "published")
    [run] = (elsewhere / "runs").iterdir()
    kept, before = load_checkpoint(run / "checkpoint.safetensors"), from_pretrained("published")
    assert kept.model.config == before.model.config
    assert kept.vocabulary.encode_all(ODD) == before.tokenizer.encode_all(ODD)
    pairs = encode_pairs([Pair("the shop " * 99, "lamps")], kept.vocabulary, 64, 63)
    [article], [summary] = pairs.articles, pairs.summaries
    assert len(article) == 64 and article[-1] == kept.vocabulary.eos_id, "cut, and closed all the same"
    assert (summary[0] == 0) == (family == "bart"), "which begins its texts with a token of its own"
    command("export", "--model", str(run), "--out", "out")
    cut = before.tokenizer
    assert AutoTokenizer.from_pretrained("out")(TEXTS[0]).input_ids == cut.frame(cut.encode(TEXTS[0]), 10**6)


def test_a_copying_model_is_exported_without_its_head_alone(elsewhere, capsys):
    with pytest.raises(ValueError, match="one without, by --copy 0, or export this one without its head, by --head 0"):
        command("export", "--model", "newsroom-copying")
    with pytest.raises(ValueError, match="say which pairs it learned from"):
        command("export", "--model", "newsroom-copying", "--head", "0")
    with pytest.raises(ValueError, match="newsroom does not copy"):
        command("export", "--model", "newsroom", "--head", "0", "--task", "newsroom")
    with pytest.raises(ValueError, match="add --head 0, or leave them out"):
        command("export", "--data", "news.jsonl")
    rows = [{"article": story.article, "summary": story.summary} for story in ROOM.test[:99]]
    (elsewhere / "news.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command("export", "--model", "newsroom-copying", "--head", "0", "--data", "news.jsonl")
    out = capsys.readouterr().out
    without_it, with_it = map(float, re.search(r"in percent: ([\d.]+), with the head ([\d.]+)\.", out).groups())
    assert without_it < with_it and 98 < with_it <= 100
    folder = elsewhere / "exported/newsroom-copying-without-head"
    assert out.splitlines()[0] in (folder / "README.md").read_text()
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is transformers.PegasusForConditionalGeneration


MEASURE = """
import resource, sys
from tfm_lib.pretrained import from_pretrained
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = from_pretrained(sys.argv[1]).model
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak - begin, sum(p.numel() for p in model.parameters()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="counts memory as POSIX systems do")
def test_a_model_of_full_size_takes_no_more_memory_than_its_file(tokenizers, tmp_path):
    """bart-large-cnn's shape, with random weights."""
    sizes = dict(vocab_size=50264, d_model=1024, max_position_embeddings=1024, encoder_layers=12, decoder_layers=12)
    sizes |= dict(encoder_attention_heads=16, decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096)
    theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**small_config("bart") | sizes))
    theirs.generation_config = transformers.GenerationConfig(**small_writing("bart"))
    theirs.save_pretrained(tmp_path)
    del theirs
    shutil.copytree(tokenizers["bart"], tmp_path, dirs_exist_ok=True)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kilobytes, parameters = map(int, done.stdout.split())
    assert parameters == 406_290_432 + 50_264, "theirs, and the bias on the logits, which is a buffer there"
    scale = 1 if sys.platform == "darwin" else 1024
    assert kilobytes * scale < 1.15 * (tmp_path / "model.safetensors").stat().st_size


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


def test_all_files_of_a_tokenizer_are_fetched_and_a_closed_model_is_called_closed(tmp_path, monkeypatch):
    """distilbart-cnn-12-6 has vocab.json and merges.txt alone."""
    from huggingface_hub.errors import GatedRepoError

    wanted = []
    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_files", lambda self, name: ["pytorch_model.bin"])
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, allow_patterns: wanted.extend(allow_patterns))
    with pytest.raises(TypeError):  # what was not fetched is in no folder
        from_pretrained("somebody/small")
    names = "config.json", "vocab.json", "merges.txt", "vocab.txt", "source.spm", "spiece.model", "pytorch_model.bin"
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in wanted)] == []

    def closed(self, name):
        raise GatedRepoError("closed", response=SimpleNamespace(headers={}, request=None))

    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_files", closed)
    with pytest.raises(ValueError, match="somebody/small is for those who accept its terms"):
        from_pretrained("somebody/small")


@pytest.mark.network
@pytest.mark.parametrize(
    "name",
    ["sshleifer/distilbart-cnn-12-6", "facebook/bart-large-cnn", "Helsinki-NLP/opus-mt-en-de", "google/pegasus-xsum"],
)
def test_a_published_model_writes_what_it_writes_in_transformers(name):
    ours = from_pretrained(name)
    theirs, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(name).eval().float(), AutoTokenizer.from_pretrained(name)
    src = tokenizer(TEXTS[:1], return_tensors="pt")
    assert ours.encode(TEXTS[:1]).equal(src.input_ids)
    written = theirs.generate(src.input_ids, attention_mask=src.attention_mask)
    assert ours.generate(TEXTS[:1]) == [tokenizer.decode(written[0], skip_special_tokens=True).strip()]


def test_export_replaces_an_export_and_no_folder_of_others(tmp_path):
    """Once it wrote over a README.md that was somebody's."""
    model, vocabulary = newsroom_model()
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match="holds other files; give a new folder"):
        export(model, vocabulary, tmp_path, card="of the course `tfm_lib`")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    for _ in range(2):
        export(model, vocabulary, tmp_path / "new", card="of the course `tfm_lib`")
