"""A Transformer that shares no code with ours is healthy and is the paper's; each of eight faults in it is named."""

import pytest
import torch

from tests.checkup.test_checkup import parts_of
from tfm_lib.ask.exercises import your_own
from tfm_lib.ask.own_model import score
from tfm_lib.ask.progress import progress
from tfm_lib.ask.verdict import judge
from tfm_lib.checkup import PARTS, checkup
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.practice.own_transformer import OwnTransformer, given, to_tfm_lib
from tfm_lib.practice.patients import FAULTS, changed, patient, sick
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import greedy

# What each patient suffers from, in the order of `FAULTS`.
CODES = (
    "causality.off_by_one", "padding.inverted", "output.probabilities", "dropout.eval", "positions.none",
    "source.ignored", "gradients.shared", "loss.no_shift",
)  # fmt: skip


@pytest.mark.slow
def test_the_own_model_is_healthy_in_the_size_of_the_paper_too():
    torch.manual_seed(0)
    model = OwnTransformer(37_000, 0, 1, 2, d=512, heads=8, d_ff=2048, layers=6)
    report = checkup(model, **given(model), time_limit=10_000)
    assert not report.codes and report.tried == list(PARTS) and not report.not_tried, report


def test_writing_is_examined_in_seconds_with_a_large_vocabulary_as_well():
    """Scores were put for each pair of words once: of 37,000, that took six minutes."""
    model = OwnTransformer(20_000, 0, 1, 2, d=16, heads=2, d_ff=16, layers=1)
    report = checkup(model, **given(model), parts="cache", time_limit=60)
    assert not report.codes and report.tried == ["cache"], report


@pytest.mark.parametrize(("number", "code"), [*enumerate(CODES, start=1)])
def test_the_report_names_what_a_patient_suffers_from(number, code):
    model = patient(number)
    assert code in checkup(model, **given(model), parts=parts_of(code), quick=True).codes


def test_a_patient_that_nobody_has_is_refused_and_the_dice_stay():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    patient(1)
    assert torch.equal(before, torch.random.get_rng_state())
    for ask, unknown, message in ((patient, 9, "called 1 to 8, and none 9"), (sick, "fever", "the faults are future")):
        with pytest.raises(ValueError, match=message):
            ask(unknown)


def test_its_weights_in_our_model_give_the_same_logits():
    model = OwnTransformer(24, 0, 1, 2, d=32).eval()
    ours = to_tfm_lib(model, max_length=64).eval()
    assert ours.config.norm_first is False and ours.config.dropout == 0.1
    src = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0]])
    tgt = torch.tensor([[1, 4, 3], [1, 9, 9]])
    torch.testing.assert_close(ours(src, tgt), model(src, tgt), atol=1e-5, rtol=1e-5)
    assert torch.equal(greedy(ours, src, 6), model.generate(src, 6))


# What goes wrong in a milestone of lesson 13, by what stands in the source instead, and what the check calls it.
WRONG = [
    (your_own.logits, your_own.probabilities, {"return self.out(x)": "return self.out(x).softmax(-1)"}),
    (your_own.logits, your_own.vectors, {"return self.out(x)": "return x"}),
    (your_own.logits, your_own.dice, FAULTS["dropout"]),
    (your_own.past, your_own.sees_itself_coming, FAULTS["future"]),
    (your_own.past, your_own.no_mask, {".tril()": ""}),
    (your_own.past, your_own.upside_down, {".tril()": ".triu()"}),
    (your_own.past, your_own.sees_one_word, {"torch.ones(length, length": "torch.eye(length"}),
    (your_own.past, your_own.heads_merged_across, {".transpose(1, 2).flatten(2))": ".reshape(x.shape))"}),
    (your_own.reads, your_own.source_ignored, FAULTS["source"]),
    (your_own.reads, your_own.padding_seen, {"(src != self.pad_id)": "(src == src)"}),
    (your_own.reads, your_own.words_hidden, FAULTS["padding"]),
    (your_own.reads, your_own.no_order, FAULTS["positions"]),
    (your_own.learns, your_own.no_shift, FAULTS["shift"]),
    (your_own.learns, your_own.padding_counts, {", ignore_index=self.pad_id": ""}),
    (your_own.learns, your_own.end_left_out, {"ignore_index=self.pad_id": "ignore_index=self.eos_id"}),
    (your_own.learns, your_own.cut_off, {"return x, seen": "return x.detach(), seen"}),
    (your_own.writes, your_own.first_place, {"[:, -1].argmax": "[:, 0].argmax"}),
    (your_own.writes, your_own.start_kept, {"return tgt[:, 1:]": "return tgt"}),
    (your_own.writes, your_own.past_the_end, {"new = new.masked_fill(done, self.pad_id)": "pass"}),
    (your_own.writes, your_own.ends_forgotten, {"not done.all()": "not done.any()"}),
    (your_own.writes, your_own.one_word_short, {"tgt.shape[1] <= length": "tgt.shape[1] < length"}),
]


@pytest.mark.parametrize(
    ("milestone", "mistake", "replaced"),
    [pytest.param(*wrong, marks=[pytest.mark.slow] * (n % 3 > 0)) for n, wrong in enumerate(WRONG)],
    ids=[wrong[1].__name__ for wrong in WRONG],
)
def test_a_milestone_says_what_is_wrong_with_a_real_model(milestone, mistake, replaced):
    found = judge(milestone, changed(tuple(replaced.items())))
    assert (found.state, found.why) == ("wrong", " ".join(mistake.__doc__.split()))


def test_every_mistake_of_a_milestone_is_one_of_a_real_model():
    milestones = (your_own.logits, your_own.past, your_own.reads, your_own.learns, your_own.writes)
    assert [mistake for one in milestones for mistake in one.mistakes] == [mistake for _, mistake, _ in WRONG]


def test_a_milestone_takes_a_model_of_another_make():
    class Ours(Transformer):
        def __init__(self, vocab_size, pad_id, start_id, eos_id):
            signs = {"pad_id": pad_id, "start_id": start_id, "eos_id": eos_id}
            sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
            super().__init__(TransformerConfig(vocab_size=vocab_size, **sizes, **signs))

        def loss(self, src, tgt):
            logits = self(src, tgt[:, :-1]).flatten(0, 1)
            return torch.nn.functional.cross_entropy(logits, tgt[:, 1:].flatten(), ignore_index=self.config.pad_id)

        def generate(self, src, length=12):
            return greedy(self, src, length)

    for milestone in (your_own.logits, your_own.past, your_own.reads, your_own.learns, your_own.writes):
        found = judge(milestone, Ours)
        assert found.state == "right", (milestone.name, found.why)


def test_a_score_is_kept_and_stands_in_the_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TFM_NO_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    shipped, vocabulary = newsroom_model()
    shipped.generate = lambda src, length: greedy(shipped, src, length)
    share = score(shipped, stories=20)
    printed = capsys.readouterr().out
    assert share > 0.9 and f"{share:.1%} of 20 headlines, 1,003,520 parameters" in printed
    score(OwnTransformer(len(vocabulary), 0, 1, 2, d=8, heads=2, d_ff=8, layers=1), stories=20)
    capsys.readouterr()
    progress()
    printed = capsys.readouterr().out
    score_line = f"{100 * share:.1f} % of 20 headlines, 1,003,520 parameters"
    assert f"your own model:  {score_line}\nthe shipped one: {score_line}\n" in printed
    with pytest.raises(TypeError, match="a Linear has no generate; add generate"):
        score(torch.nn.Linear(1, 1))
    shipped.generate = lambda src, length: src[:1]
    with pytest.raises(ValueError, match="gave 1 texts for 20; wanted a row for each"):
        score(shipped, stories=20)
