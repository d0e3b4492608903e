"""Controls: a turned knob changes picture and words, the numbers in the words are right, and nothing live is stored."""

import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO

import ipywidgets
import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.axis import Axis
from PIL import Image

from tests.proof import outputs
from tests.test_quiz import all_widgets, bundles
from tfm_lib.batches import Examples
from tfm_lib.masks import causal_mask
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.figure import COLORS, MEANING, Figure
from tfm_lib.show.live import VIEW, Live, caption
from tfm_lib.show.live_curve import live_curve
from tfm_lib.show.sinusoid_control import sinusoid_control
from tfm_lib.show.softmax_controls import mask_control, query_among_keys, softmax_temperature
from tfm_lib.training import Recipe, train

WORDS = ["heavy", "rain", "flooded", "the", "old", "bridge"]
SCORES = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
CONTROLS = {
    "softmax": softmax_temperature,
    "query": query_among_keys,
    "mask": lambda: mask_control(SCORES, WORDS),
    "sinusoids": sinusoid_control,
}
# What a keyboard can turn: sliders by arrow keys, the others by arrow keys, space or letters.
KNOBS = ("IntSlider", "FloatSlider", "FloatLogSlider", "SelectionSlider", "Checkbox", "ToggleButtons")
every_control = pytest.mark.parametrize("name", CONTROLS)


class Hand:
    """A reader's hand on a control, and eyes."""

    def __init__(self, live: Live) -> None:
        self.live = live
        widgets = list(all_widgets(live.widget))
        self.knobs = {w.description: w for w in widgets if type(w).__name__ in KNOBS}
        [self.image] = [w for w in widgets if isinstance(w, ipywidgets.Image)]
        self.line = live.widget.children[-1]

    def turn(self, **values: object) -> str:
        for name, value in values.items():
            [knob] = [knob for description, knob in self.knobs.items() if name in description.split()]
            knob.value = value
        return self.words

    @property
    def words(self) -> str:
        text = re.sub("<[^>]*>", "", self.line.value)
        return text.replace("&#x27;", "'").replace("&quot;", '"').replace("&amp;", "&").strip()

    @property
    def pixels(self) -> np.ndarray:
        return np.asarray(Image.open(BytesIO(self.image.value)).convert("RGB")).astype(int)


def other_values(knob: ipywidgets.Widget) -> Iterator[object]:
    """The ends of its range, or all of its options."""
    if isinstance(knob, ipywidgets.Checkbox):
        yield from (not knob.value, knob.value)
    elif hasattr(knob, "options"):
        yield from knob.options
    else:
        base = getattr(knob, "base", None)
        yield from (base**knob.min, base**knob.max) if base else (knob.min, knob.max)


# ----------------------------------------------------------------------------------------------------
# What holds for all.


@every_control
def test_every_knob_changes_picture_and_words_at_both_ends(name):
    hand = Hand(CONTROLS[name]())
    for knob in hand.knobs.values():
        before, words, pixels = knob.value, hand.words, hand.pixels
        seen = set()
        for value in other_values(knob):
            if value != before:
                knob.value = value
                assert hand.words not in {words, *seen} and hand.image.tooltip == hand.words
                assert hand.pixels.shape == pixels.shape and (hand.pixels != pixels).any()
                seen.add(hand.words)
        assert seen
        knob.value = before
        # The same knobs, the same picture: nothing is left of what was shown in between.
        assert hand.words == words and (hand.pixels == pixels).all()


@every_control
def test_what_is_drawn_over_a_stored_background_is_what_a_whole_new_drawing_shows(name):
    hand, fresh = Hand(CONTROLS[name]()), Hand(CONTROLS[name]())
    static = Image.open(BytesIO(fresh.live.data["image/png"])).convert("RGB")
    shown = hand.pixels
    # Its palette has 256 colors, and edges of bars meet their axis in another order.
    assert (np.abs(np.asarray(static).astype(int) - shown).max(-1) > 40).mean() < 0.004


@every_control
def test_nothing_touches_the_edge_of_the_picture(name):
    hand = Hand(CONTROLS[name]())
    for knob in hand.knobs.values():
        before = knob.value
        for value in other_values(knob):
            knob.value = value
            frame = np.concatenate([hand.pixels[:2].reshape(-1, 3), *(hand.pixels[:, e] for e in (0, 1, -2, -1))])
            assert (frame == 255).all(), f"{knob.description} at {value} draws out of the picture"
        knob.value = before


@every_control
def test_the_stored_form_is_the_picture_with_its_words_and_no_view(name):
    live = CONTROLS[name]()
    assert isinstance(live, Live) and repr(live) == Hand(live).words
    [shown] = bundles(live)
    assert set(shown.data) == {"image/png", "text/plain", VIEW}
    stored, words = outputs.clean([shown])
    assert set(stored.data) == {"image/png", "text/plain"} and words.data == {"text/html": caption(repr(live))}
    assert stored.metadata["image/png"]["alt"] == stored.data["text/plain"] == repr(live)
    assert base64.b64decode(stored.data["image/png"]) == CONTROLS[name]().data["image/png"]  # the same in every run


@every_control
def test_a_keyboard_turns_every_knob_and_nothing_is_an_output(name):
    kinds = {type(widget).__name__ for widget in all_widgets(CONTROLS[name]().widget)}
    assert kinds <= {*KNOBS, "VBox", "HBox", "Picture", "HTML"} and kinds & {*KNOBS}


def test_two_controls_do_not_move_each_other():
    first, second = Hand(softmax_temperature()), Hand(softmax_temperature())
    words = second.words
    first.turn(temperature=0.1)
    assert second.words == words != first.words


def test_nothing_but_what_moves_is_drawn_anew(monkeypatch):
    hand, drawn = Hand(sinusoid_control()), []
    monkeypatch.setattr(
        Figure, "draw", lambda self, renderer, draw=Figure.draw: (drawn.append(1), draw(self, renderer))
    )
    hand.turn(position=50, offset=-7, width=16)
    assert drawn == []


def test_an_axis_is_drawn_anew_only_where_it_changes(monkeypatch):
    clocks, softmax, drawn = Hand(sinusoid_control()), Hand(softmax_temperature()), []
    monkeypatch.setattr(
        Axis, "draw", lambda self, renderer, draw=Axis.draw: (drawn.append(self.axis_name), draw(self, renderer))
    )
    clocks.turn(position=50, offset=-7)
    softmax.turn(temperature=1.1)
    assert drawn == []
    clocks.turn(width=16)
    assert drawn == ["x", "y"]
    softmax.turn(divide=False)
    assert drawn == ["x", "y", "y"]


def test_widgets_load_only_with_the_controls():
    code = "import sys, tfm_lib.show.live, tfm_lib.positions, tfm_lib.masks; "
    code += "before = {'matplotlib', 'ipywidgets'} & set(sys.modules); import tfm_lib.show.softmax_controls; "
    code += "print(before, sorted({'matplotlib', 'ipywidgets', 'matplotlib.pyplot'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "set() ['ipywidgets', 'matplotlib']\n", ran.stderr


# ----------------------------------------------------------------------------------------------------
# What each says.


def test_the_softmax_says_what_goes_in_and_what_comes_out():
    hand = Hand(softmax_temperature(num_keys=2, seed=1))
    vectors = torch.randn(1024, 3, generator=torch.Generator().manual_seed(1)).T.double()
    for d, temperature, divide in [(1, 1.0, False), (16, 0.5, True), (64, 10.0, False), (1024, 2.0, True)]:
        words = hand.turn(width=d, temperature=temperature, divide=divide)
        pair = (vectors[1:, :d] @ vectors[0, :d]).tolist()
        low, high = sorted(score / temperature / (d**0.5 if divide else 1) for score in pair)
        top = 1 / (1 + np.exp(low - high))
        # By hand, for two keys: the weight is the logistic function of the gap, its derivative weight * (1 - weight).
        assert words == (
            f"Width {d}, temperature {temperature:.2f}, scores {f'divided by √{d}' if divide else 'as they are'}: they "
            f"enter the softmax between {low:.2f} and {high:.2f}. The largest weight is {top:.2f}, on key "
            f"{1 + (pair[1] > pair[0])}; {1 if top >= 0.9 else 2} of 2 keys hold nine tenths of all weight. The "
            f"gradient of key {1 + (pair[1] > pair[0])}'s weight by its own score is {top * (1 - top):.3f}, of at most "
            "0.25."
        )


def test_without_the_division_width_makes_the_softmax_hard_and_with_it_stays_soft():
    hand = Hand(softmax_temperature())

    def largest() -> float:
        return float(re.search(r"largest weight is ([\d.]+),", hand.words).group(1))

    hand.turn(width=1024, divide=False)
    assert largest() > 0.99
    hand.turn(divide=True)
    assert largest() < 0.6


def test_the_query_says_its_weights_by_dot_product_and_by_distance():
    hand = Hand(query_among_keys({"a": (1, 0), "b": (4, 0), "c": (0, 1)}))
    # Dot products 1, 4, 2, over the root of 2; half of the squared distances 2, 6.5 and 1.
    words = hand.turn(water=1.0, building=2.0)
    weights = np.exp(np.array([1, 4, 2]) / 2**0.5)
    weights /= weights.sum()
    mixture = weights[0] + 4 * weights[1], weights[2]
    assert words == (
        f"The query (1.00, 2.00) gives the weight {weights[1]:.2f} to “b” and {weights[2]:.2f} to “c”; the least goes "
        f"to “a”, {weights[0]:.2f}. The mixture of all keys lies at ({mixture[0]:.2f}, {mixture[1]:.2f}). The score is "
        "the dot product / √2."
    )
    weights = np.exp([-2, -6.5, -1])
    weights /= weights.sum()
    words = hand.turn(score="minus distance² / 2")
    assert f"gives the weight {weights[2]:.2f} to “c” and {weights[0]:.2f} to “a”; the least goes to “b”" in words
    assert words.endswith("The score is minus half of the squared distance.")


def test_the_mask_says_who_is_seen():
    hand = Hand(mask_control(torch.zeros(4, 4), list("abcd")))
    # Both masks at first, so that the stored picture shows what they do: rows see 1, 2, 3, 3 keys.
    assert hand.words.startswith("Valid length 3, causal: 9 of 16 pairs may attend. The query “d” sees 3 keys")
    words = hand.turn(causal=False, length=4)
    assert words.startswith("Valid length 4, not causal: 16 of 16 pairs may attend. The query “d” sees 4 keys")
    assert "and looks at all of them alike, with weight 0.25." in words
    words = hand.turn(causal=True, length=2)
    # Rows see 1, 2, 2, 2 keys.
    assert words.startswith("Valid length 2, causal: 7 of 16 pairs may attend. The query “d” sees 2 keys")
    assert "with weight 0.50. Hidden keys get exactly 0." in words
    assert "sees 1 key and looks most at “a”, with weight 1.00" in hand.turn(length=1)
    words = hand.turn(length=0)
    assert words == "Valid length 0, causal: 0 of 16 pairs may attend. No query sees a key, and every weight is 0."


def test_the_mask_weighs_what_is_left_as_the_lesson_does():
    hand = Hand(mask_control(SCORES, WORDS))
    words = hand.turn(causal=True, length=5)
    mask = causal_mask(6)[0, 0] & (torch.arange(6) < 5)
    weights = SCORES.masked_fill(~mask, -torch.inf).softmax(-1)[-1]
    assert f"looks most at “{WORDS[int(weights.argmax())]}”, with weight {weights.max():.2f}" in words


def test_the_sinusoids_say_how_far_hands_turn_and_that_the_position_does_not_matter():
    hand = Hand(sinusoid_control())
    words = hand.turn(width=16, position=40, offset=3)
    table = sinusoidal_table(101, 16)
    product = (table[40] @ table[43]).item()
    assert words.startswith("Width 16. From position 40 (solid) to position 43 (dashed), an offset of 3, ")
    # 3 radians are 171.9 degrees; hand 7, the slowest, is 10000^(-7/8) times as fast.
    assert "the hands turn by 171.9° (hand 0), 17.2° (hand 2), 1.7° (hand 4), 0.1° (hand 7)." in words
    assert f"The dot product of the two rows is {product:.2f}, of at most 8." in words
    for position, offset in [(70, 3), (30, -3)]:
        assert f"The dot product of the two rows is {product:.2f}," in hand.turn(position=position, offset=offset)
    assert "hands turn by -171.9°" in hand.words
    assert "(hand 0), 1.7° (hand 1). " in hand.turn(width=4, offset=3)
    assert "rows is 2.00, of at most 2" in hand.turn(offset=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: softmax_temperature(num_keys=1), r"num_keys must lie in 2\.\.16.*got 1"),
        (lambda: softmax_temperature(num_keys=17), "got 17"),
        (lambda: query_among_keys({"a": (1, 2)}), "keys must be 2 to 10 names"),
        (lambda: query_among_keys({"a": (1, 2), "b": (5, 0)}), "two numbers from -4 to 4"),
        (lambda: query_among_keys({"a": (1, 2, 3), "b": (1, 2, 3)}), "two numbers"),
        (
            lambda: mask_control(torch.zeros(2, 3), ["a", "b"]),
            r"scores have shape \(2, 3\); wanted \(T, S\) with T = S",
        ),
        (lambda: mask_control(torch.zeros(11, 11), list("abcdefghijk")), "at most 10 words"),
        (lambda: mask_control(torch.zeros(1, 2, 2), ["a", "b"]), r"scores has shape \(1, 2, 2\)"),
        (lambda: mask_control(torch.zeros(2, 2), ["a"]), "words has 1 labels; wanted a list of 2"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ----------------------------------------------------------------------------------------------------
# The curve of a run.


def test_the_curve_follows_a_real_run():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(vocab_size=8, **sizes))
    examples = Examples([[4, 5], [6, 7]], [[4], [6]], 0, 0)
    curve, seen = live_curve(25), []
    assert repr(curve).startswith("The learning curve of 25 steps.") and "image/png" not in curve.data
    line = curve.widget.children[-1]
    assert "No step was taken yet" in line.value

    def save(state) -> None:
        before = curve.widget.children[0].value
        curve(state)
        seen.append((line.value, curve.widget.children[0].value != before))

    history = train(model, examples, Recipe(steps=25, warmup_steps=5), save=save, save_every=10, progress=False)
    assert [new for _, new in seen] == [False, True, True, True]
    low = int(np.argmin(history.loss))
    for (said, _), step in zip(seen[1:], (10, 20, 25), strict=True):
        assert f"Step {step} of 25: the loss is {history.loss[step - 1]:.2f}. It was {history.loss[0]:.2f} in" in said
    assert f"its lowest so far is {history.loss[low]:.2f}, in step {low + 1}." in line.value


def test_a_curve_needs_steps():
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        live_curve(0)


# ----------------------------------------------------------------------------------------------------
# What each draws, beyond that it changes.


def test_scores_are_drawn_above_and_below_zero_in_proportion():
    hand = Hand(softmax_temperature())
    vectors = torch.randn(1024, 9, generator=torch.Generator().manual_seed(0)).T
    scores = vectors[1:, :64] @ vectors[0, :64] / 8
    color = [int(COLORS[1][i : i + 2], 16) for i in (1, 3, 5)]
    orange = (np.abs(hand.pixels - color).max(-1) < 12).sum(1)  # pixels of the bars in each row
    rows = np.flatnonzero(orange)
    zero = rows[0] + orange[rows[0] : rows[-1]].argmin()  # where the axis covers all bars
    up, down = orange[:zero].sum(), orange[zero:].sum()
    assert up / down == pytest.approx((scores.clamp(min=0).sum() / -scores.clamp(max=0).sum()).item(), rel=0.05)


def of_key(pixels: np.ndarray) -> np.ndarray:
    """Which pixels have the color of a key's disc."""
    fill = MEANING["key"].fill
    return np.abs(pixels - [int(fill[i : i + 2], 16) for i in (1, 3, 5)]).max(-1) < 12


def test_the_key_that_weighs_more_is_the_larger_disc():
    hand = Hand(query_among_keys({"a": (-3, 0), "b": (3, 0)}))
    side = hand.pixels.shape[1] // 2

    def discs() -> tuple[int, int]:
        filled = of_key(hand.pixels[:, :side]).sum(0)
        middle = int(np.flatnonzero(filled).mean())
        return filled[:middle].sum(), filled[middle:].sum()

    hand.turn(water=-1.0, building=2.0)
    left = discs()
    hand.turn(water=1.0)
    right = discs()
    assert left[0] > 5 * left[1] and right[1] > 5 * right[0]


def test_the_name_of_a_key_does_not_cover_its_disc():
    hand = Hand(query_among_keys({"a": (-3, 0), "harbor": (3, 0)}))
    hand.turn(water=4.0, building=0.0)  # nearly all weight: the largest disc that there is, and a line into it
    side = hand.pixels.shape[1] // 2
    filled = of_key(hand.pixels[:, side // 2 : side])
    tall, wide = (filled.any(axis).sum() for axis in (1, 0))
    assert tall == pytest.approx(wide, abs=5) and tall > 50  # the line into it takes a little of its width


def test_the_square_stands_at_the_offset_and_hands_that_are_not_there_leave_nothing():
    hand = Hand(sinusoid_control())
    color = [int(COLORS[1][i : i + 2], 16) for i in (1, 3, 5)]

    def orange(left: float, right: float, top: float = 0.0) -> np.ndarray:
        height, width, _ = hand.pixels.shape
        panel = hand.pixels[int(top * height) :, int(left * width) : int(right * width)]
        return np.flatnonzero((np.abs(panel - color).max(-1) < 12).any(0))

    for width in (16, 128):  # 128 has dot products up to 64
        places = [orange(0.7, 1).mean() for _ in [hand.turn(width=width)] for k in (-20, 0, 20) if hand.turn(offset=k)]
        assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=2) and places[2] - places[0] > 100
    assert len(orange(0.4, 0.68, top=0.45))
    hand.turn(width=4)  # two hands, both in the upper row
    assert not len(orange(0.4, 0.68, top=0.45)) and len(orange(0.4, 0.68))


def test_letters_look_the_same_whatever_other_code_has_set():
    """What is drawn anew, long after the cell, is drawn in the style of the rest."""
    live = softmax_temperature()
    knob = next(w for w in all_widgets(live.widget) if isinstance(w, ipywidgets.FloatLogSlider))
    image = next(w for w in all_widgets(live.widget) if isinstance(w, ipywidgets.Image))
    knob.value = knob.max
    before = image.value
    knob.value = knob.min
    with matplotlib.rc_context({"text.hinting": "no_hinting"}):
        knob.value = knob.max
    assert image.value == before
