"""The check-up names each planted fault, raises no false alarm, and changes nothing."""

import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkup.sick_models import (
    ASKED,
    BARE,
    BERT,
    CROPPING,
    EINSUM,
    EOS,
    GPT,
    MODEL,
    ONE_SIDED,
    OWN,
    PAD,
    PLANTS,
    PROMPTED,
    START,
    TORCH,
    VOCAB,
    built,
)
from tests.checkup.strangers import FAULTS
from tfm_lib.checkup import PARTS, Finding, Report, assert_healthy, checkup
from tfm_lib.checkup.advice import ADVICE
from tfm_lib.checkup.causes import EXPLAINS
from tfm_lib.checkup.command import examined
from tfm_lib.checkup.examine import PROBES, Part
from tfm_lib.checkup.given import MOST
from tfm_lib.checkup.heads import heads, thirds
from tfm_lib.checkup.report import SEVERITIES
from tfm_lib.checkup.subject import Subject
from tfm_lib.checkup.words import Words
from tfm_lib.commands.cli import run
from tfm_lib.lessons import LESSONS
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained.small import IDS as IDS_OF_FAMILIES
from tfm_lib.pretrained.small import small_config
from tfm_lib.writing.copying import CopyingTransformer

# Which parts find a code, or those of a family; else it is the part of that name.
PARTS_OF = {
    "kind": ["causality"], "output": ["shapes", "padding"], "dropout": ["shapes"], "padding": ["causality", "padding"],
    "batch": ["causality", "batch"], "positions": ["causality", "positions"], "limits": ["causality", "positions"],
    "tying": ["gradients"], "state": ["shapes"], "attention": ["causality"], "residual": ["learning"],
    "norm": ["learning"], "padding.hides_words": ["source"], "generate.no_end": ["learning"],
    "loss": ["causality", "loss"], "generate": ["cache"],
}  # fmt: skip


CODE = r"`[^`]+`|tgt\[[^]]+\]"  # in the advice: a line of Python, or which part of the target is taken
IDS = {"pad_id": PAD, "start_id": START, "eos_id": EOS}
SMALL = {
    "vocab_size": 40, "d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 2, "num_decoder_layers": 2,
    "max_length": 64,
}  # fmt: skip
OURS = [
    {},
    {"norm_first": True, "tied": False, "logits_bias": True},
    {"positions": "learned", "activation": "gelu", "embed_norm": True},
    {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 8, "num_heads": 2},
    {"start_id": 0},
]


def parts_of(code):
    """The parts of a check-up that find this code."""
    family = code.partition(".")[0]
    return PARTS_OF.get(code) or PARTS_OF.get(family, [family])


def troubles(report):
    return [finding for finding in report.findings if finding.severity != "note"]


# Of strangers, the first one with each code that no plant has, so that each code has a fault; and those once missed.
FIRST = {fault.code: fault for fault in reversed(FAULTS) if fault.code not in {"", *(plant.code for plant in PLANTS)}}
MISSED = (
    "bf_leaves_training bf_mask_of_target es_norm_over_batch oo_cache_none oo_needs_a_mask do_softmax_over_batch "
    "tv_beams_alike tv_beams_raw"
)
STRANGERS = [*FIRST.values(), *(fault for fault in FAULTS if fault.name in MISSED.split())]


def slow_but(chosen, plants):
    """Some are planted in every run, the others in the slow one."""
    return [pytest.param(p, marks=[] if p in chosen else pytest.mark.slow, id=p.name) for p in plants]


ONE_OF_EACH = {plant.code: plant for plant in reversed([*PLANTS, *STRANGERS])}


@pytest.mark.parametrize("plant", slow_but(ONE_OF_EACH.values(), [*PLANTS, *STRANGERS]))
def test_a_planted_fault_is_found_and_named(plant):
    report = plant.examined(parts=parts_of(plant.code), quick=True)
    assert plant.code in report.codes, report


WRITERS = [
    plant
    for plant in PLANTS
    if plant.code.startswith(("cache.", "generate."))
    and plant.code != "generate.mode"
    and plant.source not in (CROPPING, PROMPTED, ASKED)  # of one stack, or with a mask that must be given
]


@pytest.mark.parametrize("plant", slow_but(WRITERS[::12], WRITERS))
def test_what_writes_is_examined_without_a_module_as_well(plant):
    """It sees no module in a list, and can set no mode."""
    model, given = plant.build()
    hidden = [model.eval()]
    report = checkup(lambda src, tgt: hidden[0](src, tgt), **given, parts="cache")
    assert plant.code in report.codes, report


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_found_by_the_whole_round(plant):
    report = plant.examined()
    [found] = [finding for finding in report.findings if finding.code == plant.code]
    assert report.cause(plant.code) is None, "nothing else explains what was planted"
    if found.severity != "note":
        alike = [finding.code for finding in report.findings if finding.severity == found.severity]
        assert alike[0] == plant.code, "the cause comes first"


def test_every_code_has_a_plant_and_leads_to_a_section_that_exists():
    assert {plant.code for plant in [*PLANTS, *STRANGERS]} == set(ADVICE)
    assert len(PLANTS) >= 60 and len({plant.name for plant in PLANTS}) == len(PLANTS)
    lessons = {lesson.number: json.loads(lesson.file.read_text(encoding="utf-8")) for lesson in LESSONS}
    for code, advice in ADVICE.items():
        assert advice.severity in SEVERITIES, code
        number, section = advice.read
        texts = ["".join(cell["source"]) for cell in lessons[number]["cells"] if cell["cell_type"] == "markdown"]
        assert re.search(rf"^#+ (\d+ )?{re.escape(section)}$", "\n".join(texts), re.MULTILINE), code


def test_the_page_explains_every_finding_as_the_report_does():
    page = (Path(__file__).resolve().parents[2] / "docs/checkup.md").read_text(encoding="utf-8")
    rows = [f"| `{code}` | {a.severity} | {a.means} | {a.likely} |" for code, a in ADVICE.items()]
    assert page.replace(r"\_", "_").endswith("\n".join([*rows, ""]))
    assert {row.count("|") for row in rows} == {5}, "a bar in a sentence would end its cell"


@pytest.mark.parametrize("code", [code for code, advice in ADVICE.items() if re.search(CODE, advice.likely)])
def test_the_likely_line_is_the_one_that_was_planted(code):
    """Opposites, as eval and training, or inputs and labels, could be exchanged; the text may name fault or fix."""
    named = re.findall(CODE, ADVICE[code].likely)
    lines = [line for plant in PLANTS if plant.code == code for line in (plant.old, plant.new)]
    in_order = ".*".join(re.escape(words.strip("`")) for words in named)
    assert any(re.search(in_order, line, re.DOTALL) for line in lines), f"{named} is in none of {lines}"


def test_a_writer_may_begin_with_several_tokens_and_an_embedding_may_read_kinds():
    several = MODEL.replace("found = [(0.0, [START])]", "found = [(0.0, [START, 4, 5])]")
    several = several.replace("[PAD] * (length + 1 -", "[PAD] * (length + 3 -")
    kinds = several.replace("self.tgt_emb(tgt) *", "(self.tgt_emb(tgt) + self.kinds(torch.full_like(tgt, START))) *")
    kinds = kinds.replace("        self.src_emb", "        self.kinds = nn.Embedding(2, D)\n        self.src_emb")
    assert several.count("START, 4, 5") == 1 and kinds.count("kinds") == 2
    model, given = built(kinds)
    report = checkup(model, **given, parts=("loss", "cache", "learning"))
    assert not troubles(report), report


@pytest.mark.parametrize("source", [MODEL, EINSUM, OWN, BARE, TORCH, ASKED, PROMPTED, *ONE_SIDED], ids=range(11))
def test_the_models_without_a_plant_are_healthy(source):
    model, given = built(source)
    report = checkup(model, **given)
    assert report.healthy and not troubles(report), report
    one_sided = source in (PROMPTED, *ONE_SIDED)
    left_out = {*["source"] * one_sided, *["cache"] * ("def generate" not in source)}
    assert report.tried == [part for part in PARTS if part not in left_out] and not report.failed + report.not_tried


def ours(changes):
    config = TransformerConfig(**{**SMALL, **changes})
    return Transformer(config), {"pad_id": 0, "start_id": config.start_id, "eos_id": 2}


def newer(changes):
    """One of lesson 16; importing it runs the lesson's definitions, so no other worker does."""
    from benchmarks.families_and_scale import parts_replaced

    if isinstance(changes, str):
        changes = parts_replaced.CHANGES[changes]
    sizes = {"vocab_size": parts_replaced.VOCABULARY, "pad_id": 0}
    return parts_replaced.build(changes), {**sizes, "kind": "decoder-only", "quick": True}


def family(name):
    """A small model of `transformers`, with its ids."""
    import transformers as hf

    kind, ids = hf.AutoModelForSeq2SeqLM, {"pad_id": 0, "start_id": 0, "eos_id": 1}
    if name in IDS_OF_FAMILIES:
        settings = small_config(name, vocab_size=40) | {"d_model": 32, "dropout": 0.1}
        ids = dict(zip(("pad_id", "eos_id", "start_id"), (i % 40 for i in IDS_OF_FAMILIES[name]), strict=True))
    elif name == "t5":
        settings = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    elif name == "gpt2":
        kind, ids = hf.AutoModelForCausalLM, {"pad_id": 1, "start_id": 2, "eos_id": 2}
        settings = {"n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 2, "eos_token_id": 2}
    else:
        kind, ids = hf.AutoModelForMaskedLM, {"pad_id": 0}
        settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return kind.from_config(hf.AutoConfig.for_model(name, **settings | {"vocab_size": 40})), ids


def of_x_transformers(settings):
    x = pytest.importorskip("x_transformers")
    layers = x.Decoder(dim=32, depth=2, heads=4, **settings)
    model = x.TransformerWrapper(num_tokens=40, max_seq_len=64, attn_layers=layers)
    return model, {"pad_id": 0, "kind": "decoder-only"}


HEALTHY = [
    *((ours, changes) for changes in OURS[::4]),
    *(pytest.param(ours, changes, marks=pytest.mark.slow) for changes in OURS[1:4]),
    (lambda config: (CopyingTransformer(config), IDS), TransformerConfig(**SMALL)),
    *((newer, changes) for changes in ({"positions": "rotary"}, {"positions": "alibi"})),
    *((newer, changes) for changes in ({"positions": "rotary", "kv_heads": 2}, "as in Llama")),
    *((family, name) for name in ("bart", "t5", "gpt2", "bert")),
    *(pytest.param(family, name, marks=pytest.mark.slow) for name in ("marian", "pegasus")),
    *(
        pytest.param(of_x_transformers, settings, marks=pytest.mark.slow)
        for settings in ({}, {"rotary_pos_emb": True}, {"alibi_pos_bias": True})
    ),
]


@pytest.mark.parametrize(("make", "about"), HEALTHY, ids=lambda part: getattr(part, "__name__", str(part)))
def test_real_models_are_healthy(make, about):
    torch.manual_seed(0)
    model, given = make(about)
    report = checkup(model, **{"vocab_size": 40, **given})
    assert not troubles(report) and not report.not_tried, report


def test_a_table_tied_by_its_data_alone_has_all_its_gradients():
    """Half of them come to the other parameter of the same memory."""
    model, given = built(MODEL.replace("self.out.weight = self.tgt", "self.out.weight.data = self.tgt"))
    assert troubles(checkup(model, **given, parts="gradients"))[0].code == "tying.data"


def test_the_padding_of_the_source_is_a_word_of_the_target():
    model, given = built(
        MODEL.replace("self.tgt_emb = nn.Embedding(V, D)", "self.tgt_emb = nn.Embedding(V, D, padding_idx=5)")
    )
    assert "gradients.row" in checkup(model, **given, src_pad_id=5, parts="gradients").codes


def test_of_queries_keys_and_values_in_one_parameter_the_dead_one_is_named_and_called_no_head():
    rows, columns = torch.ones(12).bool(), torch.ones(4).bool()
    rows[4:8] = False
    for axes, number in (([torch.tensor([True, True, False]), columns, columns], 2), ([rows, columns], 1)):
        reached = {"attention.w": axes, "attention.q": axes}
        assert [*thirds(reached)] == [("attention.w", number), ("attention.q", number)] and not [*heads(reached)]
    assert not [*thirds({"positions": [torch.arange(12) < 2, columns]})], "a table, of which the first rows are read"


def test_a_writer_that_goes_on_with_a_prompt_until_its_end_returns_all_words():
    model, given = built(PROMPTED.replace("length=6", "length=9"))
    assert not checkup(model, **given, parts="cache").codes


def test_what_was_not_given_is_said():
    model, given = built(MODEL)
    assert checkup(model, **given, parts="shapes").not_given == []
    bare = checkup(model, vocab_size=VOCAB, parts="shapes")
    assert bare.not_given == ["pad_id", "start_id", "eos_id", "loss", "generate", "encode and decode"]
    assert "Not given, so not examined: pad_id, start_id, eos_id, loss" in " ".join(str(bare).split())
    encoder, ids = built(BERT)
    assert checkup(encoder, **ids, parts="shapes").not_given == []


def test_causes_come_first_and_what_follows_says_so():
    report = Report()
    report.add("cache.differs", "b.")
    report.add("dropout.eval", "a.")
    assert report.codes == ["dropout.eval", "cache.differs"]
    report.add("gradients.unregistered", "c.")
    report.add("limits.length", "d.")
    assert report.codes == ["gradients.unregistered", "dropout.eval", "cache.differs", "limits.length"]
    assert str(report).count("Mend gradients.unregistered first: this may only follow from it.") == 2
    assert "sick: 1 fault, 2 consequences." in report.verdict
    assert "Mend `gradients.unregistered` first" in report._repr_markdown_()
    families = {code.partition(".")[0] for code in ADVICE}
    assert set(EXPLAINS) <= set(ADVICE) and set().union(*EXPLAINS.values()) <= {*ADVICE, *families}


def test_it_changes_nothing():
    model, given = built(MODEL)
    model.train()
    model.encoder[0].eval()
    model.out.weight.grad = gradient = torch.ones_like(model.out.weight)

    def state():
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        values = {name: (id(x), x._version, x.tolist(), x.requires_grad) for name, x in tensors.items()}
        parts = [(part.training, sorted(vars(part)), len(part._forward_hooks)) for part in model.modules()]
        dice = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        return values, parts, dice

    before = state()
    checkup(model, **given)
    assert state() == before
    assert model.out.weight is model.tgt_emb.weight and model.out.weight.grad is gradient
    assert torch.equal(gradient, torch.ones_like(gradient)) and model.src_emb.weight.grad is None


@pytest.mark.parametrize(
    "thing",
    [
        None, 3, print, lambda: 1, lambda src, tgt: None, lambda src, tgt: 1 / 0, lambda src, tgt: "text", nn.Module(),
        lambda src, tgt: torch.zeros(0), lambda src, tgt: torch.randn(2, 3), lambda tokens: tokens, nn.Linear(2, 2),
        lambda src, tgt: torch.full((*tgt.shape, VOCAB), torch.nan), lambda *ids: {}, lambda a, b, c: a, torch.randn,
        lambda src, tgt: torch.zeros(*tgt.shape, VOCAB), lambda src, tgt: torch.randn(*tgt.shape, VOCAB),
    ],
)  # fmt: skip
def test_it_never_raises_and_nothing_strange_is_healthy(thing):
    report = checkup(thing, vocab_size=VOCAB, **IDS, quick=True)
    assert not report.healthy and str(report) and report.exit_code in (1, 2)


@pytest.mark.parametrize(("computed", "passed", "tried"), [(59, 599, True), (61, 61, False), (1, 601, False)])
def test_its_time_is_that_of_computing_and_waiting_ends_as_well(computed, passed, tried, monkeypatch):
    model, _ = built(GPT)
    subject = Subject(model, model, (Words(VOCAB, {PAD}, PAD),) * 2, "decoder-only", 60.0)
    began = subject.began
    monkeypatch.setattr("time.process_time", lambda: began[0] + computed)
    monkeypatch.setattr("time.monotonic", lambda: began[1] + passed)
    assert (subject.left() > 0) == tried


def test_a_probe_that_raises_is_not_counted_as_tried(monkeypatch):
    monkeypatch.setitem(PROBES, "source", Part([lambda subject: 1 / 0]))
    model, given = built(MODEL)
    report = checkup(model, **given, parts=["shapes", "source", "saving"])
    assert report.tried == ["shapes", "saving"]
    assert report.not_tried == ["source (ZeroDivisionError: division by zero)"]
    assert report.exit_code == 3 and "healthy as far as it was tried" in report.verdict
    assert "2 parts passed, 0 failed, 1 not tried: source (ZeroDivisionError" in report.verdict


def test_a_test_of_ones_own_fails_with_the_report():
    with pytest.raises(AssertionError, match=r"causality.off_by_one\n  Seen"):
        assert_healthy(lambda: built(GPT.replace(".triu(1)", ".triu(2)")), parts="causality")
    with pytest.raises(AssertionError, match="give --vocab-size"):
        assert_healthy(nn.Linear(2, 2))
    assert_healthy(built(GPT), parts="causality")


def test_a_writer_that_must_be_told_how_many_tokens_is_told():
    model, given = built(MODEL)
    write, asked = given.pop("generate"), []
    report = checkup(model, **given, generate=lambda src, max_len: asked.append(max_len) or write(src), parts="cache")
    assert report.healthy and report.tried == ["cache"] and {*asked} == {MOST}


def test_options_of_a_writer_of_few_words_are_no_fault():
    """Too few words are left to put scores for: that is no error of the writer."""
    model, given = built(PROMPTED.replace("V, D, PAD, EOS = 24,", "V, D, PAD, EOS = 9,"))
    report = checkup(model, **{**given, "vocab_size": 9}, parts="cache")
    assert report.tried == ["cache"] and not report.codes, report


def test_an_option_that_a_writer_refuses_is_no_fault():
    refusal = 'if {}:\n            raise NotImplementedError("later")\n        was'
    for source, line in ((PROMPTED, "do_sample or top_k"), (MODEL.replace("beams=2", "beams=1"), "beams > 1")):
        model, given = built(source.replace("was", refusal.format(line), 1))
        report = checkup(model, **given, parts="cache")
        assert report.healthy and not report.codes, report


def test_what_a_writer_keeps_from_call_to_call_is_told_from_sampling():
    model, given = built(MODEL)
    write, dice = given.pop("generate"), torch.Generator().manual_seed(0)

    def keeps(src, seen=[]):  # noqa: B006
        seen.append(src)
        return write(src)[..., : 2 + len(seen) % 3]

    def draws(src):
        return write(src)[..., : 2 + int(torch.randint(2, (), generator=dice))]

    for writer, code in ((keeps, "generate.stale"), (draws, "generate.dice")):
        codes = checkup(model, **given, generate=writer, parts="cache").codes
        assert {"generate.stale", "generate.dice"}.intersection(codes) == {code}


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        ({"vocab_size": 0}, "vocab_size"), ({"vocab_size": "x"}, "vocab_size"), ({"pad_id": 99}, "0..23"),
        ({"kind": "GPT"}, "decoder-only"), ({"parts": ["mask"]}, "causality"), ({"vocab_size": 7, }, "10 or more"),
        ({"time_limit": 0}, "time_limit="), ({"generate": lambda src, mask, n: n}, "lambda src: generate(src, "),
    ],
)  # fmt: skip
def test_wrong_arguments_get_a_sentence_with_the_fix(wrong, fix):
    model, given = built(MODEL)
    report = checkup(model, **{**given, **wrong})
    assert fix in report.problem and report.exit_code == 2


def test_a_function_around_a_model_is_seen_through():
    model, _ = built(MODEL)
    report = checkup(lambda src, tgt: model(src, tgt), vocab_size=VOCAB, **IDS)
    assert report.healthy and not report.not_tried


def test_a_report_survives_json_and_prints_in_lines():
    report = PLANTS[0].examined(parts=["shapes", "causality"])
    assert Report.from_json(report.to_json()) == report
    assert json.loads(report.to_json())["healthy"] is False
    assert "sick: 1 fault" in str(report) and max(map(len, str(report).splitlines())) <= 88
    assert "`output.probabilities`" in report._repr_markdown_()
    assert isinstance(report.findings[0], Finding) and report.tried == ["shapes", "causality"]


@pytest.mark.parametrize("rows", [9, 23])
def test_an_embedding_with_too_few_rows_is_named_and_nothing_else(rows):
    """Once ids that it did not know were taken for padding that is turned round, or for axes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(rows, 8), nn.Linear(8, 24))
    report = checkup(lambda tokens: model(tokens), vocab_size=24, pad_id=0, module=model)
    assert report.exit_code == 2 and not report.findings
    assert "from 0 to 23, it raised IndexError" in report.problem
    assert "correct vocab_size, or the embedding" in report.problem


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("sick:build --json", 1, '"code": "causality.off_by_one"'),
        ("healthy:build", 0, "is healthy"),
        ("nowhere:build", 2, "ModuleNotFoundError"),
    ],
)
def test_the_command_tells_what_it_found_and_ends_with_its_status(target, status, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "healthy.py").write_text(GPT)
    (tmp_path / "sick.py").write_text(GPT.replace(".triu(1)", ".triu(2)"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        run("checkup", *target.split(), "--vocab-size", "24", "--quick")
    printed = capsys.readouterr()
    assert (end.value.code, words in printed.out, printed.err) == (status, True, "")


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("1 / 0", "a_model:build", "ZeroDivisionError: division by zero (a_model.py, line 1)"),
        ("def build():\n    open('no file')", "a_model:build", "(a_model.py, line 2)"),
        ("", "no_model:build", "No module named 'no_model'; run it from the folder of the module"),
        ("import no_library", "a_model:build", "(a_model.py, line 1)"),
        ("def build():\n    print", "a_model:build", "gave None; is its return missing?"),
        ("build = lambda: (print, {}, 3)", "a_model:build", "gave 3 things"),
        ("raise SystemExit(3)", "a_model:build", "__main__"),
        ("", "a_model:build", "AttributeError"),
        ("", "a_model", "module:name"),
        ("build = lambda: (print, 3)", "a_model:build", "give a dict"),
        ("build = lambda: (print, {'pad': 3})", "a_model:build", "'pad'"),
        ("build = lambda: print", "a_model:build", "--vocab-size"),
    ],
)
def test_what_the_command_cannot_examine_gets_a_sentence(text, target, words, tmp_path, monkeypatch):
    (tmp_path / "a_model.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "a_model", raising=False)
    report = examined(target, {})
    assert words in report.problem and report.exit_code == 2
