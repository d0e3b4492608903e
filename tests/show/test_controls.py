"""What controls say where no script runs, what a notebook stores of them, and what they refuse."""

from itertools import combinations, product

import pytest
import torch

from tests.pages.browser.test_curve import Run
from tests.show.controls import MASKED
from tfm_lib.ask.quiz import filled_in
from tfm_lib.lessons import LESSONS
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.architecture_control import STORY as FIRE
from tfm_lib.show.architecture_control import architecture_control, computed
from tfm_lib.show.beam_control import beam_control
from tfm_lib.show.cache_control import cache_control
from tfm_lib.show.heads_control import heads_control
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.live_curve import MOST_POINTS, live_curve
from tfm_lib.show.mask_control import mask_control
from tfm_lib.show.model_boxes import boxes, layout
from tfm_lib.show.newsdesk import read_story
from tfm_lib.show.softmax_controls import query_among_keys
from tfm_lib.show.summarizer_controls import decoding_control
from tfm_lib.show.swap_attention import swap_attention

OF_A_STORY = (architecture_control, beam_control, cache_control, decoding_control)


@pytest.mark.parametrize("steps", [1, MOST_POINTS, MOST_POINTS + 1, 3 * MOST_POINTS + 7])
def test_a_long_run_sends_few_points_and_always_first_lowest_and_last(steps):
    curve = live_curve(steps)
    losses = [1 / (1 + step) for step in range(steps)]
    losses[steps // 2] = -1.0
    curve(Run(*losses))
    data = curve.widget.data
    assert steps / 2 <= len(data["points"]) <= steps if steps <= MOST_POINTS else len(data["points"]) <= MOST_POINTS
    assert data["points"][-1] == (steps, pytest.approx(losses[-1], abs=1e-6))
    assert data["lowest"] == (steps // 2 + 1, -1.0) and data["first"][0] == 1
    assert data["steps"] == steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: query_among_keys({"a": (1, 2)}), "keys must be 2 to 10 names"),
        (lambda: query_among_keys({str(n): (1, 2) for n in range(11)}), "keys must be 2 to 10 names"),
        (lambda: query_among_keys({"a": (1, 2), "b": (5, 0)}), "two numbers from -4 to 4"),
        (lambda: query_among_keys({"a": (1, 2), "b": (float("nan"), 0)}), "two numbers from -4 to 4"),
        (lambda: query_among_keys({"a": (1, 2, 3), "b": (1, 2, 3)}), "two numbers"),
        (lambda: live_curve(0), "steps must be at least 1, got 0; give those of the recipe"),
        (lambda: mask_control(torch.zeros(2, 3), ["a", "b"]), r"shape \(2, 3\); wanted \(T, S\) with T = S"),
        (lambda: mask_control(torch.zeros(11, 11), list("abcdefghijk")), "at most 10 words"),
        (lambda: mask_control(torch.zeros(1, 2, 2), ["a", "b"]), r"scores has shape \(1, 2, 2\)"),
        (lambda: mask_control(torch.zeros(2, 2), ["a"]), "words has 1 labels; wanted a list of 2"),
        (lambda: mask_control(torch.full((2, 2), -torch.inf), ["a", "b"]), "scores holds nan or infinite values"),
        (lambda: heads_control(*newsroom_model(), ""), "story has 0 tokens; wanted 1 to 24"),
        (lambda: heads_control(*newsroom_model(), "fire " * 25), "story has 25 tokens; wanted 1 to 24.*a sentence"),
        (lambda: architecture_control(*newsroom_model(), opened="encoder.layers.2"), "opened is .*: encoder.embedding"),
        (lambda: swap_attention("fire " * 80), "story has 80 tokens; the model reads 1 to 72"),
        (lambda: decoding_control(*newsroom_model(), written="fire " * 24), "written has 24 tokens; .* at most 24"),
        *(
            (lambda make=make, text=text: make(*newsroom_model(), text), f"story has {count} tokens; .* reads 1 to 72")
            for make, (text, count) in product(OF_A_STORY, ((" ", 0), ("fire " * 73, 73)))
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_model_that_copies_has_no_boxes():
    with pytest.raises(TypeError, match="CopyingTransformer, whose pointer has no box"):
        architecture_control(*newsroom_model(copying=True))


def test_vectors_grow_from_layer_to_layer_until_the_last_norm_as_lesson_05_says():
    model, vocabulary = newsroom_model()
    encoder = [box.name for box in boxes(model.config)["encoder"] if box.label in ("Positions", "Add", "Memory")]
    src, start = read_story(model, vocabulary, FIRE), torch.tensor([[model.config.start_id]])
    vectors = computed(model, src, start)
    *growing, memory = [vectors[name].norm(dim=-1).mean() for name in encoder]
    assert growing == sorted(growing) and growing[-1] > 1.5 * growing[0] and memory < growing[0]


@pytest.mark.parametrize(
    ("norm_first", "layer"),
    [
        (True, ["Norm", "Self-attention", "Add", "Norm", "Feed-forward", "Add"]),
        (False, ["Self-attention", "Add & Norm", "Feed-forward", "Add & Norm"]),
    ],
)
def test_each_side_has_its_boxes_in_the_order_in_which_they_compute(norm_first, layer):
    sizes = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 8}
    config = TransformerConfig(**sizes, num_encoder_layers=1, num_decoder_layers=3, norm_first=norm_first)
    columns = boxes(config)
    assert [box.label for box in columns["encoder"]] == ["Embedding", "Positions", *layer, "Memory"]
    labels, one = [box.label for box in columns["decoder"]], len(layer) * 3 // 2
    assert labels[2 : 2 + one] == labels[2 + one : 2 + 2 * one] == labels[2 + 2 * one : 2 + 3 * one]
    assert labels[2 + 3 * one :] == [*(["Norm"] if norm_first else []), "Linear", "Softmax"]
    src, start = torch.tensor([[4, 5]]), torch.tensor([[config.start_id]])
    assert {box.name for column in columns.values() for box in column} <= {*computed(Transformer(config), src, start)}
    lessons = {lesson.name for lesson in LESSONS}
    assert {box.lesson for column in columns.values() for box in column} <= lessons


@pytest.mark.parametrize("norm_first", [True, False])
def test_no_box_touches_another_and_every_line_begins_and_ends_at_a_box(norm_first):
    drawn = layout(boxes(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8, norm_first=norm_first)))
    places = [(x, y, x + wide, y + drawn.tall) for x, wide, y in drawn.boxes.values()]
    for (a, b, c, d), (e, f, g, h) in combinations(places, 2):
        assert c < e or g < a or d < f or h < b
    ends = [end for line in (*drawn.arrows, *drawn.memory) for end in (line[0], line[-1])]
    streams = {x for line in drawn.streams for x, _ in line}
    assert all(x in streams or any(a <= x <= c and b <= y <= d for a, b, c, d in places) for x, y in ends)
    assert len(drawn.memory) == 6 and all(a > 0 and c < drawn.width and d < drawn.height for a, _, c, d in places)


def test_a_mask_says_who_is_seen():
    # Both masks at first, so that the stored picture shows what they do: rows see 1, 2, 3, 3 keys.
    assert repr(mask_control(torch.zeros(4, 4), list("abcd"))) == (
        "Valid length 3 and causal: 9 of 16 pairs may attend. The last query, “d”, sees 3 keys and looks at all of "
        "them equally, with a weight of 0.33 each. Hidden keys get exactly 0."
    )
    assert repr(mask_control(torch.zeros(2, 2), list("ab"))).endswith(
        "“b”, sees 1 key and looks at nothing but “a”, with a weight of 1.00. Hidden keys get exactly 0."
    )
    assert repr(mask_control(torch.zeros(1, 1), ["a"])).startswith("Causal: 1 of 1 pairs may attend.")
    two_alike = torch.tensor([0.0, 1, 0, 1, 9]).expand(5, 5)
    assert "looks most at “b” and “d”, with a weight of 0.37 each." in repr(mask_control(two_alike, list("abcde")))


def test_pages_get_the_scores_and_the_words_as_they_are_called():
    live = mask_control(MASKED, ["rain", "rain", "on", "the", "old", "bridge"])
    about = filled_in(live.data[ON_PAGES])
    assert about["name"] == "maskControl" and about["weights"] == [] and about["data"]["length"] == 5
    assert torch.allclose(torch.tensor(about["data"]["scores"]), MASKED, atol=1e-6)
    assert about["data"]["labels"][:2] == ["rain", "rain"]
    assert about["data"]["names"][:2] == ["“rain” (0)", "“rain” (1)"]
    assert live.data["image/png"] == mask_control(MASKED, about["data"]["labels"]).data["image/png"]
