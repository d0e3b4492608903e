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
from tfm_lib.decoding import greedy, token_log_probs
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.newsroom import AFTER, BEFORE, EVENTS, MOST_WORDS, NUMBERS, PEOPLE, PLACES
from tfm_lib.positions import sinusoidal_table
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.figure import COLORS, MEANING, Figure
from tfm_lib.show.live import VIEW, Live, caption
from tfm_lib.show.live_curve import live_curve
from tfm_lib.show.newsdesk import Desk, story_tokens
from tfm_lib.show.sinusoid_control import sinusoid_control
from tfm_lib.show.softmax_controls import query_among_keys, softmax_temperature
from tfm_lib.show.summarizer_controls import MOST_TOKENS, NextWord, attention_control, decoding_control, go_on
from tfm_lib.tracing import record_attention
from tfm_lib.training import Recipe, train
from tfm_lib.vocabulary import EOS_ID, START_ID

CONTROLS = {
    "softmax": softmax_temperature,
    "query": query_among_keys,
    "sinusoids": sinusoid_control,
}
# What a keyboard can turn: sliders by arrow keys, the others by arrow keys, space or letters.
MORE = {"attention": attention_control, "decoding": decoding_control}
KNOBS = ("IntSlider", "FloatSlider", "FloatLogSlider", "SelectionSlider", "Checkbox", "ToggleButtons")
TYPED = ("Dropdown", "Textarea", "Button", "Desk", "NextWord", "GridBox")
every_control = pytest.mark.parametrize("name", CONTROLS)
every_one = pytest.mark.parametrize("name", [*CONTROLS, *MORE])


def make(name: str) -> Live:
    return CONTROLS[name]() if name in CONTROLS else MORE[name](*newsroom_model())


class Hand:
    """A reader's hand on a control, and eyes."""

    def __init__(self, live: Live) -> None:
        self.live = live
        widgets = list(all_widgets(live.widget))
        self.knobs = {w.description: w for w in widgets if type(w).__name__ in KNOBS}
        self.desk = next((w for w in widgets if isinstance(w, Desk)), None)
        self.choices = next((w for w in widgets if isinstance(w, NextWord)), None)
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


@every_one
def test_the_stored_form_is_the_picture_with_its_words_and_no_view(name):
    live = make(name)
    assert isinstance(live, Live) and repr(live) == Hand(live).words
    [shown] = bundles(live)
    assert set(shown.data) == {"image/png", "text/plain", VIEW}
    stored, words = outputs.clean([shown])
    assert set(stored.data) == {"image/png", "text/plain"} and words.data == {"text/html": caption(repr(live))}
    assert stored.metadata["image/png"]["alt"] == stored.data["text/plain"] == repr(live)
    assert base64.b64decode(stored.data["image/png"]) == make(name).data["image/png"]  # the same in every run


@every_one
def test_a_keyboard_turns_every_knob_and_nothing_is_an_output(name):
    kinds = {type(widget).__name__ for widget in all_widgets(make(name).widget)}
    assert kinds <= {*KNOBS, *TYPED, "VBox", "HBox", "Picture", "HTML"} and kinds & {*KNOBS, *TYPED}


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
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ----------------------------------------------------------------------------------------------------
# A story of the reader's, and what the shipped summarizer does with it.


@pytest.fixture(scope="module")
def shipped():
    return newsroom_model()


def weights_of(shipped, story: str) -> tuple[list[str], list[str], dict[str, torch.Tensor]]:
    """The tokens of story and summary, and the attention, by the model's own forward pass."""
    model, vocabulary = shipped
    src = torch.tensor([vocabulary.encode(story)])
    tokens = greedy(model, src, MOST_TOKENS)
    with torch.no_grad(), record_attention(model) as maps:
        model(src, torch.cat([torch.tensor([[START_ID]]), tokens[:, :-1]], dim=1))
    return vocabulary.pieces(src[0]), vocabulary.pieces(tokens[0]), maps


def test_the_attention_says_where_a_word_looked_while_it_was_written(shipped):
    hand = Hand(attention_control(*shipped))
    story, summary, maps = weights_of(shipped, hand.desk.value)
    for layer, head, word in [(0, 3, 2), (1, 7, 11), (1, "mean", 1), (0, 0, len(summary))]:
        words = hand.turn(layer=layer, head=head, word=word)
        heads = maps[f"decoder.layers.{layer}.cross_attention"][0, :, word - 1]  # (H, S)
        weights = heads.mean(0) if head == "mean" else heads[head]
        best = weights.argmax()
        who = "the mean of all heads" if head == "mean" else f"head {head}"
        start = f"The summary: {' '.join(summary)}. While word {word}, “{summary[word - 1]}”, was written, {who} of "
        assert words.startswith(f"{start}layer {layer} looked most at “{story[best]}” ({weights[best]:.2f}), ")
    assert hand.knobs["word"].max == len(summary)


def test_each_knob_of_the_attention_changes_the_picture(shipped):
    hand = Hand(attention_control(*shipped))
    for name, value in [("layer", 0), ("head", 3), ("word", 5)]:
        pixels = hand.pixels
        hand.turn(**{name: value})
        assert (hand.pixels != pixels).any()


def test_a_knob_of_the_story_composes_it_anew_and_the_model_reads_it(shipped):
    hand = Hand(attention_control(*shipped))
    slots = hand.desk.slots
    for name, value in [
        ("who", "Mei Tanaka"),
        ("where", "Lima"),
        ("when", "Friday"),
        ("how_many", 12),
        ("phrasing", 4),
    ]:
        pixels, story = hand.pixels, hand.desk.value
        slots[name].value = value
        assert hand.desk.value != story and (hand.pixels != pixels).any()
    slots["event"].value = "adoption"
    slots["thing"].value = "kittens"
    assert hand.words.startswith("The summary: tanaka adopts 12 cats in lima on friday [eos]. ")
    slots["before"].value = BEFORE[0]
    slots["after"].value = AFTER[0]
    others = {"person": PEOPLE[-1], "place": PLACES[-1], "day": "Sunday", "number": "sixty"}
    assert hand.desk.value.startswith(BEFORE[0].format(**others)) and AFTER[0].format(**others) in hand.desk.value
    assert hand.words.startswith("The summary: tanaka adopts 12 cats in lima on friday [eos]. ")


def test_sentences_beside_a_story_never_name_its_own_and_every_story_fits(shipped):
    desk, longest = Desk(shipped[1], 72), 0
    slots = desk.slots
    slots["who"].value, slots["where"].value, slots["when"].value = PEOPLE[-1], PLACES[-1], "Sunday"
    slots["how_many"].value = 60
    for before in BEFORE:
        slots["before"].value = before  # compose raises ValueError for a clash
    slots["after"].value = max(AFTER, key=len)
    for event in EVENTS:
        slots["event"].value = event
        for phrasing in range(5):
            slots["phrasing"].value = phrasing
            assert len(desk.value.split()) <= MOST_WORDS and not desk.read.disabled
            longest = max(longest, len(shipped[1].encode(desk.value)))
    assert NUMBERS[60] in desk.value.lower() and longest <= 72


def test_unknown_words_are_marked_while_they_are_typed_and_read_only_on_demand(shipped):
    hand = Hand(attention_control(*shipped))
    story, words = hand.desk.value, hand.words
    hand.desk.text.value = "Elves stole <b>bold</b> paintings in Oslo."
    assert hand.desk.note.value == (
        '<span role="status">Not in the vocabulary, so that the model reads [unk]: <mark>Elves</mark>, '
        "<mark>stole</mark>, <mark>&lt;b&gt;bold&lt;/b&gt;</mark></span>"
    )
    assert (hand.desk.value, hand.words) == (story, words)  # nothing was decoded yet
    hand.desk.read.click()
    assert hand.desk.value == hand.desk.text.value != story
    assert hand.words.endswith("The model read [unk] for “Elves”, “stole”, “&lt;b&gt;bold&lt;/b&gt;”.")
    hand.desk.text.value = story
    assert "Every word is in the vocabulary." in hand.desk.note.value


@pytest.mark.parametrize("text", ["", "   ", "fire " * 73])
def test_a_story_that_cannot_be_read_is_not(shipped, text):
    hand = Hand(attention_control(*shipped))
    words = hand.words
    hand.desk.text.value = text
    assert f"{len(text.split())} tokens; the model reads 1 to 72." in hand.desk.note.value and hand.desk.read.disabled
    hand.desk.read.click()
    assert hand.words == words


def test_the_longest_story_stays_above_its_summary_and_inside_the_picture(shipped):
    hand = Hand(attention_control(*shipped))
    hand.desk.text.value = " ".join(f"unheard-of-{number:05}" for number in range(72))
    hand.desk.read.click()
    frame = np.concatenate([hand.pixels[:2].reshape(-1, 3), *(hand.pixels[:, edge] for edge in (0, 1, -2, -1))])
    assert (frame == 255).all()
    between = hand.pixels[int(3.32 * 150 * 0.74) : int(3.32 * 150 * 0.78), :20]
    assert (between == 255).all()


def test_story_tokens_keep_the_word_and_say_which_are_unknown(shipped):
    words, unknown = story_tokens(shipped[1], "Fire in Gondolinandbeyond, says elves.")
    assert (words, unknown) == (["fire", "in", "Gondolinandbe…", ",", "says", "elves", "."], [2, 5])


def test_a_chosen_word_is_written_and_the_model_goes_on_from_there(shipped):
    model, vocabulary = shipped
    hand = Hand(decoding_control(*shipped))
    src = torch.tensor([vocabulary.encode(hand.desk.value)])
    own = greedy(model, src, MOST_TOKENS)[0].tolist()
    assert hand.words.startswith("Nothing is written. The most likely next words: “fire” (0.998), ")
    assert hand.words.endswith(f"By itself the model would go on: {' '.join(vocabulary.pieces(own))}.")
    hand.choices.buttons[0].click()
    second = hand.choices.tokens[1]
    assert hand.choices.buttons[1].description == vocabulary.pieces([second])[0] != vocabulary.pieces(own)[1]
    pixels = hand.pixels
    hand.choices.buttons[1].click()
    assert hand.choices.value == (own[0], second) and (hand.pixels != pixels).any()
    # The reference: all probabilities by one pass with teacher forcing.
    text = torch.tensor([[own[0], second]])
    chance = token_log_probs(model, src, text).sum().exp().item()
    assert f"Written: “fire {vocabulary.pieces([second])[0]}”, with probability {chance:.1g}. " in hand.words
    with torch.no_grad():
        probs = model(src, torch.tensor([[START_ID, own[0], second]]))[0, -1].softmax(-1)
    best = int(probs.argmax())
    assert f"The most likely next words: “{vocabulary.pieces([best])[0]}” ({probs[best]:.3f}), " in hand.words
    hand.choices.back.click()
    hand.choices.back.click()
    assert hand.words.startswith("Nothing is written.") and hand.choices.back.disabled


def test_left_to_itself_it_writes_what_greedy_writes_and_then_the_text_has_ended(shipped):
    model, vocabulary = shipped
    hand = Hand(decoding_control(*shipped))
    src = torch.tensor([vocabulary.encode(hand.desk.value)])
    own = greedy(model, src, MOST_TOKENS)
    hand.choices.follow.click()
    assert list(hand.choices.value) == own[0].tolist() and own[0, -1] == EOS_ID
    chance = token_log_probs(model, src, own).sum().exp().item()
    text = " ".join(vocabulary.pieces(own[0]))
    assert hand.words == f"Written: “{text}”, with probability {chance:.3f}. The text has ended."
    assert all(button.disabled for button in (*hand.choices.buttons, hand.choices.follow))
    hand.choices.buttons[0].click()
    assert len(hand.choices.value) == own.shape[1]
    hand.choices.back.click()
    assert hand.words.endswith("By itself the model would go on: [eos].") and not hand.choices.buttons[0].disabled


def test_a_text_without_an_end_stops_at_the_most_tokens(shipped):
    model, vocabulary = shipped
    src = torch.tensor([vocabulary.encode("Fire.")])
    word = vocabulary.encode("fire")[0]
    assert len(go_on(model, src, (word,) * (MOST_TOKENS - 1))[2]) == 1
    assert go_on(model, src, (word,) * MOST_TOKENS)[2] == []


def test_a_new_story_begins_a_new_text(shipped):
    hand = Hand(decoding_control(*shipped))
    hand.choices.buttons[0].click()
    hand.desk.slots["event"].value = "strike"
    assert hand.choices.value == () and hand.words.startswith("Nothing is written. The most likely next words: “3”")


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
