"""Training: rates and loss by hand, and resuming to the very weights."""

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.test_batches import bart_like
from tfm_lib.data.batches import Batch, Examples, encode_pairs, plan_batches
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning import training
from tfm_lib.learning.checkpoints import History, State, load_checkpoint, save_checkpoint
from tfm_lib.learning.progress import Progress
from tfm_lib.learning.recipes import Recipe, linear_rate, paper_rate
from tfm_lib.learning.training import find_device, make_optimizer, sequence_loss, set_seed, train, train_step
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.writing.decoding import summarize
from tfm_lib.writing.tracing import record_attention

PAIRS = [Pair(f"word{n} " * (n % 5 + 1) + "came home", f"word{n} home") for n in range(12)]
VOCABULARY = Vocabulary.of_words(text for pair in PAIRS for text in pair)
EXAMPLES = encode_pairs(PAIRS, VOCABULARY, 16, 8)
NO_EXAMPLES = encode_pairs([], VOCABULARY, 16, 8)
RECIPE = Recipe(steps=7, peak_rate=3e-3, warmup_steps=2, max_tokens=40)
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1, "num_decoder_layers": 1}


def small_model() -> Transformer:
    """With dropout, so that random states matter; `d_ff` differs from `d_model`."""
    set_seed(0)
    return Transformer(TransformerConfig(vocab_size=len(VOCABULARY), max_length=16, dropout=0.2, **SIZES))


def same_weights(first: Transformer, second: Transformer) -> bool:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


# --- rates and loss, by hand


def test_the_paper_schedule_by_hand():
    # d_model 4: 4^-0.5 = 1/2. Step 4 of 16 warm-up steps: 4 * 16^-1.5 = 4/64. Step 64: 64^-0.5 = 1/8.
    assert paper_rate(4, d_model=4, warmup_steps=16) == pytest.approx(1 / 2 * 4 / 64)
    assert paper_rate(16, d_model=4, warmup_steps=16) == pytest.approx(1 / 2 * 1 / 4)
    assert paper_rate(64, d_model=4, warmup_steps=16, factor=3) == pytest.approx(3 * 1 / 2 * 1 / 8)
    rates = [paper_rate(step, 512) for step in range(1, 10_000)]
    assert rates.index(max(rates)) == 3999


@pytest.mark.parametrize(
    ("warmup_steps", "steps", "rates"),
    [
        (4, 7, [0.2, 0.4, 0.6, 0.8, 0.6, 0.4, 0.2, 0.0]),
        (4, 4, [0.2, 0.4, 0.6, 0.8]),
        (8, 5, [0.1, 0.2, 0.3, 0.4, 0.5]),  # a warm-up beyond the run rises to its end
    ],
)
def test_the_linear_schedule_by_hand(warmup_steps, steps, rates):
    assert [linear_rate(step, 0.8, warmup_steps, steps) for step in range(1, len(rates) + 1)] == pytest.approx(rates)
    assert linear_rate(20, 0.8, warmup_steps, steps) == 0, "never negative"


def test_steps_count_from_one():
    for rate in (lambda: paper_rate(0, 512), lambda: linear_rate(0, 1e-3, 10, 100)):
        with pytest.raises(ValueError, match="steps count from 1, got 0; .* as LambdaLR's, give step \\+ 1"):
            rate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be positive, got 0"),
        ({"steps": 9, "peak_rate": -1.0}, "peak_rate must be positive, got -1"),
        ({"steps": 9, "fall": "cosine"}, "'paper' or 'linear', got 'cosine'"),
        ({"steps": 9, "fall": "linear"}, "warm-up of 100 steps doesn't fit a run of 9"),
        ({"steps": 9, "label_smoothing": 1.0}, "label_smoothing must lie in"),
        ({"steps": 9, "label_smoothing": -0.1}, "label_smoothing must lie in"),
        ({"steps": 9, "label_smoothing": math.nan}, "label_smoothing must lie in"),
        ({"steps": 9, "peak_rate": math.nan}, "peak_rate must be positive, got nan"),
        ({"steps": 9, "peak_rate": math.inf}, "peak_rate must be positive, got inf"),
        ({"steps": 2.5}, "steps must be a whole number, got 2.5; round it"),
        ({"steps": 9, "risk_steps": 2.5}, "risk_steps must be a whole number, got 2.5"),
        ({"steps": 8, "risk_steps": 9}, r"risk_steps must lie in 0\.\.8, steps, got 9"),
        ({"steps": 9, "max_tokens": 1e3}, "max_tokens must be a whole number, got 1000.0"),
        ({"steps": 9, "seed": 1.5}, "seed must be a whole number, got 1.5"),
    ],
)
def test_a_recipe_refuses_what_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options)
    Recipe(steps=1, warmup_steps=1, max_tokens=1, label_smoothing=0.0, risk_steps=1, fall="linear")  # the least


def test_the_loss_by_hand():
    # Probabilities 1/2, 1/4, 1/8, 1/8. Labels 1 and 2 cost 2 and 3 bits, the padded third place nothing.
    logits = torch.tensor([0.5, 0.25, 0.125, 0.125]).log().expand(1, 3, 4)
    labels = torch.tensor([[1, 2, 0]])
    bit = math.log(2)
    assert sequence_loss(logits, labels, pad_id=0).item() == pytest.approx(2.5 * bit)
    # Smoothing by 0.2 gives each of the four tokens 0.05 more: they cost 1, 2, 3 and 3 bits, 9 in all.
    smooth = sequence_loss(logits, labels, pad_id=0, label_smoothing=0.2)
    assert smooth.item() == pytest.approx(0.8 * 2.5 * bit + 0.05 * 9 * bit)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 4\) and \(2, 3, 5\)"):
        sequence_loss(torch.zeros(2, 3, 5), torch.ones(2, 4, dtype=torch.long), 0)


def test_seed_repeats_every_generator():
    def draw() -> tuple[float, float, float]:
        set_seed(5)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert draw() == draw()


@pytest.mark.parametrize("found", [["cuda", "xpu", "mps"], ["cuda"], ["xpu", "mps"], ["xpu"], ["mps"], []], ids=str)
def test_the_fastest_device_is_taken_or_the_one_of_that_name(found, monkeypatch):
    for name, backend in {"cuda": torch.cuda, "xpu": torch.xpu, "mps": torch.backends.mps}.items():
        monkeypatch.setattr(backend, "is_available", lambda name=name: name in found)
    assert find_device() == torch.device([*found, "cpu"][0]) and find_device("cpu") == torch.device("cpu")
    if "cuda" in found:
        assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match=f"'tpu' is not here; choose from {', '.join([*found, 'cpu'])}"):
        find_device("tpu")


# --- the loop


def test_the_optimizer_is_fused():
    assert make_optimizer(small_model()).defaults["fused"]


def test_training_lowers_the_loss_and_records_and_shows_it(tmp_path, capsys):
    recipe = replace(RECIPE, steps=40)
    history = train(small_model(), EXAMPLES, recipe)
    assert history.step == list(range(1, 41))
    assert history.loss[-1] < 0.75 * history.loss[0]
    assert history.rate == [recipe.rate(step) for step in history.step]
    an_epoch = sum(len(ids) + 1 for ids in EXAMPLES.summaries) + sum(map(len, EXAMPLES.articles))
    assert an_epoch in [sum(history.tokens[:n]) for n in range(1, 40)]
    shown = capsys.readouterr().err
    assert re.search(r"40/40 steps, loss \d\.\d{3}, [\d,]+ tokens/s, 00:00 left", shown)
    history.save(tmp_path / "history.json")
    assert History.load(tmp_path / "history.json") == history


def test_the_bar_of_a_run_is_drawn_a_few_times_a_second_and_not_at_every_step(monkeypatch):
    bar, drawn = Progress(1000, 0, shown=True, now=0.0), []
    monkeypatch.setattr(bar, "refresh", lambda *_, **__: drawn.append(1))
    monkeypatch.setattr(bar, "mininterval", 60.0)
    for step in range(100):
        bar.add(1.0, 10, float(step))
    bar.close()
    assert not drawn


@pytest.mark.parametrize("fall", ["paper", "linear"])
def test_training_is_adam_over_the_planned_batches(fall):
    """Weight by weight, in double precision, where a gradient of rounding errors is far below Adam's eps."""
    recipe = Recipe(steps=11, peak_rate=3e-3, warmup_steps=4, fall=fall, max_tokens=40, label_smoothing=0.2, seed=3)
    model = small_model().double()
    history = train(model, EXAMPLES, recipe, progress=False)
    reference = small_model().double().train()  # the same seed, so the same dropout
    adam = torch.optim.Adam(reference.parameters(), betas=(0.9, 0.98), eps=1e-9)
    plan = [indices for epoch in range(11) for indices in plan_batches(EXAMPLES, 40, seed=3, epoch=epoch)]
    assert len(plan_batches(EXAMPLES, 40)) < 6, "the run has more than one epoch"
    losses = []
    for step, indices in enumerate(plan[:11], start=1):
        after = math.sqrt(4 / step) if fall == "paper" else (12 - step) / 8
        adam.param_groups[0]["lr"] = 3e-3 * min(step / 4, after)
        batch = Batch.of([EXAMPLES.articles[i] for i in indices], [EXAMPLES.summaries[i] for i in indices])
        logits = reference(batch.src, batch.decoder_input).transpose(1, 2)
        loss = torch.nn.functional.cross_entropy(logits, batch.labels, ignore_index=0, label_smoothing=0.2)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert history.loss == pytest.approx(losses, rel=1e-9)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def no_step(*arguments: object) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("steps", "options", "saved"),
    [
        (7, {"save_every": 3}, [0, 3, 6, 7]),
        (7, {"save_every": 7}, [0, 7]),
        (201, {}, [0, 200, 201]),
        (2, {"minutes": 1e-9}, [0, 1]),
        (7, {"minutes": 0.75}, [0, 3]),  # the clock is read before the first step, and after each
    ],
)
def test_a_run_is_saved_before_during_and_after_it_and_ends_with_its_minutes(steps, options, saved, monkeypatch):
    monkeypatch.setattr(training, "time", Clock(15.0))
    seen: list[int] = []
    recipe = replace(RECIPE, steps=steps)
    options |= {"save": lambda state: seen.append(len(state.history.step)), "take_step": no_step, "progress": False}
    assert len(train(small_model(), EXAMPLES, recipe, **options).step) == saved[-1]
    assert seen == saved


class Clock:
    """Stands in for `time`: it goes on by so many seconds whenever it is read, and ticks in 1/64 s, as on Windows."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def perf_counter(self) -> float:
        self.now += self.seconds
        return math.floor(64 * self.now) / 64


def test_a_clock_that_has_not_ticked_yet_divides_nothing(monkeypatch):
    monkeypatch.setattr(training, "time", Clock(0.0001))
    assert len(train(small_model(), EXAMPLES, RECIPE, take_step=no_step).step) == RECIPE.steps
    assert training.steps_within(1.0, small_model(), EXAMPLES, RECIPE) == 60 * 20 * 1000


@pytest.mark.parametrize(("minutes", "steps"), [(1.0, 120), (1e-9, 1)])
def test_how_many_steps_fit_into_minutes(minutes, steps, monkeypatch):
    clock, first = Clock(0.0), []

    def slow(*arguments: object) -> float:  # the first step takes a minute, the others half a second
        clock.now += 0.5 if first else 60.0
        first.append(arguments)
        return 0.0

    monkeypatch.setattr(training, "time", clock)
    assert training.steps_within(minutes, small_model(), EXAMPLES, RECIPE, slow) == steps
    assert len(first) == 21


def diverged() -> Transformer:
    model = small_model()
    with torch.no_grad():
        next(model.parameters()).fill_(math.inf)
    return model


def ends_are_padding() -> dict:
    """Then an empty summary has no other label."""
    examples = replace(EXAMPLES, summaries=[[]] * len(EXAMPLES), pad_id=2)
    return {"model": Transformer(replace(small_model().config, pad_id=2)), "examples": examples}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"minutes": 0}, "minutes must be positive, got 0"),
        (lambda: {"minutes": math.nan}, "minutes must be positive, got nan"),
        (lambda: {"examples": NO_EXAMPLES}, "no examples to learn from; give one at least"),
        (lambda: {"model": diverged()}, "loss of step 1 is nan; lower peak_rate"),
        (ends_are_padding, "loss of step 1 is nan; all its labels are padding, the id 2"),
        (lambda: {"examples": replace(EXAMPLES, pad_id=9)}, "the model's pad_id is 0, .*vocabulary 9; .*pad_id=9"),
        (lambda: {"examples": replace(EXAMPLES, start_id=9)}, "the model's start_id is 1, .*vocabulary 9; build"),
        (lambda: {"examples": replace(EXAMPLES, eos_id=9)}, "the model's eos_id is 2, .*vocabulary 9; build"),
    ],
)
def test_what_cannot_be_trained_is_refused(change, message):
    given = {"model": small_model(), "examples": EXAMPLES, "recipe": RECIPE} | change()
    with pytest.raises(ValueError, match=message):
        train(**given, progress=False)
    if "loss" not in message:
        with pytest.raises(ValueError, match=message):
            training.steps_within(**({"minutes": 1.0} | given))


# --- stopping and going on


class Killed(Exception):
    pass


def run_until_killed(path: Path, step: int, frozen: bool = False) -> None:
    """Train and save after each step, and die in the one after `step`, when its weights are half changed."""
    model = small_model()
    model.encoder.requires_grad_(not frozen)

    def save(state: State) -> None:
        save_checkpoint(path, model, VOCABULARY, state)
        if len(state.history.step) == step:
            torch.rand(3)  # whatever happens between here and the new start must not matter
            raise Killed

    with pytest.raises(Killed):
        train(model, EXAMPLES, RECIPE, save=save, save_every=1, progress=False)


def go_on(path: Path, examples: Examples = EXAMPLES) -> tuple[Transformer, History]:
    set_seed(99)
    model, _, state, _ = load_checkpoint(path)
    return model, train(model, examples, RECIPE, start=state)


@pytest.mark.parametrize(("step", "frozen"), [(0, False), (3, False), (7, False), (0, True), (3, True)])
def test_a_resumed_run_ends_with_the_very_weights_and_its_bar_counts_on(tmp_path, capsys, step, frozen):
    start, expected_model = small_model(), small_model()
    expected_model.encoder.requires_grad_(not frozen)
    expected = train(expected_model, EXAMPLES, RECIPE, progress=False)
    run_until_killed(tmp_path / "a.safetensors", step, frozen)
    resumed, history = go_on(tmp_path / "a.safetensors")
    shown = capsys.readouterr().err
    assert f"| {step}/7 steps" in shown and "| 7/7 steps" in shown and ("| 0/7" in shown) == (step == 0)
    assert history == expected
    assert same_weights(resumed, expected_model)
    assert same_weights(resumed.encoder, start.encoder) == frozen and not same_weights(resumed.decoder, start.decoder)
    assert all(parameter.requires_grad != frozen for parameter in resumed.encoder.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": replace(RECIPE, seed=1)}, "go on with its recipe"),
        ({"examples": encode_pairs(PAIRS, VOCABULARY, 3, 8)}, "other examples; give the same data"),
        # Elsewhere dropout draws other numbers, so the weights would differ without a word.
        ({"start": "cuda"}, "trained on cuda, not on cpu; go on with its device"),
        ({"model": torch.nn.Linear(2, 2)}, "was trained with a parameter .*; build the model that it was"),
    ],
)
def test_a_run_goes_on_only_with_its_own_recipe_data_device_and_model(change, message, tmp_path):
    run_until_killed(tmp_path / "a.safetensors", 2)
    model, _, state, _ = load_checkpoint(tmp_path / "a.safetensors")
    if "start" in change:
        tensors = state.tensors | {f"random.{change['start']}": state.tensors["random.cpu"]}
        change = {"start": state._replace(tensors=tensors)}
    with pytest.raises(ValueError, match=message):
        train(**{"model": model, "examples": EXAMPLES, "recipe": RECIPE, "start": state, "progress": False} | change)


# --- other ids, other modules


def test_a_model_of_other_ids_trains_and_sees_no_padding():
    """Pad 1, start and eos 2: no id is where ours are."""
    vocabulary = bart_like()
    set_seed(0)
    ids = {"pad_id": vocabulary.pad_id, "start_id": vocabulary.start_id, "eos_id": vocabulary.eos_id}
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), dropout=0.0, **SIZES, **ids))
    flood, more = "flood", "flood closes bridge"
    pairs = [Pair(more, flood), Pair(flood, more), Pair("bridge closes", "bridge")]
    examples = encode_pairs(pairs, vocabulary, 9, 9)
    batch = next(training.endless_batches(examples, RECIPE, 0))
    padding = batch.src == 1
    assert padding.any() and (batch.labels == 1).any() and not (batch.src == 0).any()
    with record_attention(model) as maps:
        logits = model(batch.src, batch.decoder_input)
    for name in ("encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"):
        hidden = padding[:, None, None].expand_as(maps[name])
        assert maps[name][hidden].eq(0).all() and maps[name].sum(-1).allclose(torch.ones(()))
    losses = -logits.log_softmax(-1).gather(2, batch.labels[:, :, None]).squeeze(2)
    plain = replace(RECIPE, label_smoothing=0.0)
    loss = train_step(model, batch, make_optimizer(model), plain, 1e-3)
    assert loss == pytest.approx(losses[batch.labels != 1].mean().item(), rel=1e-5)
    history = train(model, examples, replace(RECIPE, steps=60), progress=False)
    assert history.loss[-1] < 0.5 * history.loss[0]
    tokens = sum(map(len, examples.articles)) + sum(len(ids) + 1 for ids in examples.summaries)
    assert sum(history.tokens) == 60 * tokens, "padding is not counted, in one batch a step"
    texts = summarize(model, vocabulary, examples, 5)
    assert texts[0] == "flood" and len(texts) == 3


class Wrapped(torch.nn.Sequential):
    """No Transformer, no config: called as model(src, tgt)."""

    def forward(self, src: torch.Tensor, tgt: torch.Tensor) -> torch.Tensor:
        return self[0](src, tgt)


def test_any_module_trains(capsys):
    alone, wrapped = (train(kind(small_model()), EXAMPLES, RECIPE, progress=False) for kind in (lambda m: m, Wrapped))
    assert alone == wrapped
    assert capsys.readouterr() == ("", ""), "without progress nothing is shown"
