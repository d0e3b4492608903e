"""The check-up names what was planted in seven strangers' models, and calls none of the healthy ones sick."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.checkup import sick_models
from tests.checkup.strangers import FAULTS, IDS, STYLES, TWO, stranger
from tfm_lib.checkup import checkup

SICK = [fault for fault in FAULTS if fault.code]
HEALTHY = [*map(stranger, STYLES), *(oddity for oddity in FAULTS if not oddity.code)]


@pytest.mark.parametrize(
    ("name", "head", "table"),
    [
        ("oo_cache_at_zero", "lm_head", "shared"),
        pytest.param("tv_beams_mixed", "fc_out", "trg_tok", marks=pytest.mark.slow),
    ],
)
def test_writing_is_followed_to_a_tied_head_that_is_no_module(name, head, table):
    [fault] = [fault for fault in SICK if fault.name == name]
    for one, sick in ((fault, True), (replace(fault, old="", new=""), False)):
        model, given = one.build()
        delattr(model, head)
        setattr(model, head, lambda x, model=model: torch.einsum("...d,vd->...v", x, getattr(model, table).weight))
        assert (fault.code in checkup(model, **given, parts="cache").codes) == sick


def test_a_word_that_is_copied_in_the_place_of_a_likely_one_is_not_lost(monkeypatch):
    """With these weights, a pointer is surer of a word of the source, and only from the fifth place on."""
    monkeypatch.setattr(sick_models, "SEED", 5)
    model, given = stranger("copying").build()
    assert not checkup(model, **given, parts="cache").codes


def test_what_keeps_each_probability_from_zero_adds_up_in_a_large_vocabulary():
    model, given = stranger("copying", old="VOCAB, PAD, SOS = 40", new="VOCAB, PAD, SOS = 20_000").build()
    assert not checkup(model, **given | {"vocab_size": 20_000}, parts="loss").codes


def test_nobody_waits_for_texts_that_are_written_to_their_limit():
    model, given = stranger("batch_first").build()
    write, lengths = given.pop("generate"), list[int]()

    def generate(src):
        out = write(src)
        lengths.append(out.shape[1])
        return out

    checkup(model, **given, generate=generate, parts="cache")
    assert max(lengths) == 24 and sum(n > 13 for n in lengths) <= 1, lengths


def test_padding_up_to_the_longest_text_of_a_batch_is_no_change_of_a_text():
    """Where another text had ended, the longest one was a step shorter, and this one lost its padding."""
    model, given = stranger("copying").build()
    assert not checkup(model, **given, parts="cache").codes


def test_beams_of_one_text_after_the_other_are_not_texts_of_a_batch():
    model, given = stranger("two_vocabularies").build()
    write = given.pop("generate")
    report = checkup(model, **given, generate=lambda src: [write(text)[0] for text in src.split(1)], parts="cache")
    assert "generate.batch" not in report.codes


@pytest.mark.parametrize(
    ("style", "old", "new", "code", "named"),
    [
        (
            "output_object",
            "enumerate(self.block)",
            "enumerate(self.block[: 1 if past else 2])",
            "cache",
            "decoder.block.1",
        ),
        ("batch_first", "model.encode(src)", "(model.embedded(src), src == PAD)", "differs", "encoder.0"),
    ],
)
def test_weights_that_are_never_used_while_it_writes_are_named(style, old, new, code, named):
    model, given = stranger(style, old=old, new=new).build()
    [found] = [one for one in checkup(model, **given, parts="cache").findings if one.code == f"generate.{code}"]
    assert re.search(rf"it never uses {named}\.\S+ and \d+ more, which the forward pass does", found.seen), found


def test_one_cache_of_all_layers_is_seen_whichever_axis_the_keys_have():
    [fault] = [fault for fault in SICK if fault.name == "oo_cache_shared"]
    source = fault.source.replace("scores.float().softmax(-1)", "scores.float().mT.softmax(-2).mT")
    report = replace(fault, source=source).examined(parts="cache")
    assert source != fault.source and report.cause("generate.fails") == "generate.cache"
    assert any("with 2 tokens there are 3 keys" in found.seen for found in report.findings), report


def test_a_writer_that_fails_for_texts_with_padding_alone_has_failed():
    old = "    written = torch.full("
    new = f"    assert len(src) < 2 or not src_pad.any()\n{old}"
    model, given = stranger("batch_first", old=old, new=new).build()
    assert "generate.fails" in checkup(model, **given, parts="cache").codes


def test_scores_of_the_words_of_the_source_are_none_of_the_target():
    net = stranger("time_first").build()[0].net
    width = net.generator.in_features
    net.src_embedding, net.generator = nn.Embedding(52, width), nn.Linear(width, 52)
    report = checkup(net, **IDS, src_vocab_size=52, src_pad_id=0)
    assert report.codes == ["shapes.not_vocab"]
    assert "(7, 2, 52), is 52, and vocab_size is 40; the source's vocabulary has that size" in report.findings[0].seen


def test_a_mask_that_may_be_given_is_not_mended_by_the_check_up():
    old = "    def forward(self, src, tgt):\n        memory, src_pad = self.encode(src)\n"
    new = "    def forward(self, src, tgt, memory_pad=None):\n        memory, src_pad = self.encode(src)\n"
    for own, sick in (("src == PAD", False), ("src == 7", True)):
        mine = f"        src_pad = {own} if memory_pad is None else memory_pad\n"
        model, given = stranger("batch_first", old=old, new=new + mine).build()
        assert ("padding.cross" in checkup(model, **given, parts="padding").codes) == sick


def test_sublayers_that_are_loud_do_not_hide_that_what_was_read_passes_by():
    model, given = stranger("time_first").build()
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=1)
    report = checkup(model, **given, parts=("loss", "learning"), quick=True)
    assert "residual.none" not in report.codes
    assert report.cause("learning.stuck") == "loss.start"


def test_a_mask_that_only_the_encoder_lacks_while_it_writes_shows_when_it_has_learned():
    old, new = "model.encode(src, src_mask).", "model.encode(src, src_mask | True)."
    model, given = stranger("two_vocabularies", old=old, new=new).build()
    for part in model.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.Embedding):
            torch.nn.init.normal_(part.weight, std=0.02)
    for part, sick in (("cache", False), ("learning", True)):
        assert ("generate.padding" in checkup(model, **given, parts=part).codes) == sick


def test_the_order_of_the_past_is_asked_of_a_model_that_shifts_its_target():
    shifted = "        x = self.trg_tok(F.pad(trg[:, :-1], (1, 0), value=TRG_BOS))"
    old = "        x = self.trg_tok(trg) + self.trg_pos(pos)"
    for new, sick in ((shifted, True), (f"{shifted} + self.trg_pos(pos)", False)):
        model, _ = stranger("two_vocabularies", old=old, new=new).build()
        assert ("positions.target_none" in checkup(model, **TWO, parts="positions").codes) == sick


class Shared(nn.Module):
    """One table for both sides and the scores, so that each weight has a gradient whatever happens to the source."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.table, self.mistake = nn.Embedding(40, 32), mistake

    def forward(self, src, tgt):
        read = self.table(src).mean(1, keepdim=True)
        read = read.detach() if self.mistake == "detached" else read
        tgt = torch.full_like(tgt, 3) if self.mistake == "guesses" and self.training else tgt
        return (self.table(tgt).cumsum(1) + read) @ self.table.weight.T


@pytest.mark.parametrize(("mistake", "code"), [("detached", "gradients.unreached"), ("guesses", "causality.blind")])
def test_a_source_without_gradient_and_a_target_that_training_does_not_read_are_seen(mistake, code):
    for what in (mistake, ""):
        report = checkup(Shared(what), **IDS, parts=["causality", "gradients"])
        assert (code in report.codes) == bool(what), report


@pytest.mark.slow
@pytest.mark.parametrize("fault", SICK, ids=lambda fault: fault.name)
def test_the_whole_round_names_it_first(fault):
    report = fault.examined()
    assert report.findings[0].code == fault.code or report.findings[0].severity == "doubtful", report
    assert fault.code in report.codes and report.cause(fault.code) is None, report


@pytest.mark.slow
@pytest.mark.parametrize("model", HEALTHY, ids=lambda model: model.name)
def test_no_healthy_stranger_is_called_sick(model):
    report = model.examined()
    assert report.healthy and not report.not_tried, report


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tf_bare", "cache"),
        ("oo_mask_second", "causality"),
        ("oo_head_in_forward", "loss"),
        ("tf_loss_turns", "loss"),
        ("tv_named_scores", "shapes"),
        ("bf_no_ends", "learning"),
        ("oo_mask_is_asked_for", "padding"),
        ("bf_wide", "positions"),
        ("cp_probabilities", "shapes"),
    ],
)
def test_what_was_once_called_sick_is_healthy(name, part):
    [model] = [fault for fault in FAULTS if fault.name == name]
    report = model.examined(parts=part, quick=True)
    assert report.healthy and report.tried == [part], report


def test_91_faults_and_13_oddities_of_7_strangers_are_planted_in_text_that_occurs_once():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 104 and len(SICK) == 91
    assert {fault.source.count(fault.old) for fault in FAULTS} == {1}
