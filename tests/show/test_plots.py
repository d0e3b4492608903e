"""Figures say their message in words, stand inside their canvas, and leave matplotlib as they found it."""

import base64
import re
from functools import cache
from io import BytesIO
from itertools import combinations
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from numpy.typing import ArrayLike
from PIL import Image

from tfm_lib.lessons import FIRST_BEYOND, LESSONS
from tfm_lib.positions import sinusoidal_table
from tfm_lib.show.drawings import architecture, course_map, multi_head_attention
from tfm_lib.show.figure import COLORS, DARK, DIVERGING, INK, MEANING, QUIET, ROLES, SEQUENTIAL
from tfm_lib.show.live import caption
from tfm_lib.show.overview import PARTS
from tfm_lib.show.plots import Figure, attention_map, learning_curve, mask_picture, sinusoids, style
from tfm_lib.show.ribbons import LETTER, LINE, ribbons
from tfm_lib.show.scripts import CSS

SOURCE = ["storm", "hits", "the", "coast", ",", "harbor", "closed"]
TARGET = ["<s>", "storm", "closes", "the", "harbor"]
MANY = [f"token{i}" for i in range(40)]


def weights(*shape: int) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(*shape, generator=torch.Generator().manual_seed(0)), -1)


def history(count: int) -> SimpleNamespace:
    step = list(range(1, count + 1))
    return SimpleNamespace(step=step, loss=[4 / s + 0.5 for s in step])


FIGURES = {
    "one map": lambda: attention_map(weights(5, 7), TARGET, SOURCE),
    "four heads": lambda: attention_map(weights(4, 5, 7), TARGET, SOURCE),
    "eight heads": lambda: attention_map(weights(8, 7, 7), SOURCE, SOURCE, heads=[f"layer 0, {h}" for h in range(8)]),
    "three heads": lambda: attention_map(weights(3, 4, 10), list("abcd"), [f"word{i}" for i in range(10)]),
    "long map": lambda: attention_map(weights(12, 40), MANY[:12], MANY),
    "one cell": lambda: attention_map(torch.ones(1, 1), ["a"], ["b"]),
    "ribbons": lambda: ribbons(weights(5, 7), TARGET, SOURCE),
    "ribbons of many lines": lambda: ribbons(weights(12, 40), MANY[:12], MANY),
    "causal mask": lambda: mask_picture(torch.ones(5, 5).tril().bool(), TARGET, TARGET),
    "large mask": lambda: mask_picture(torch.ones(64, 64).tril().bool()),
    "sinusoids": lambda: sinusoids(sinusoidal_table(60, 32)),
    "halves": lambda: sinusoids(sinusoidal_table(60, 32, interleaved=False)),
    "small table": lambda: sinusoids(sinusoidal_table(10, 4)),
    "one run": lambda: learning_curve(history(300)),
    "runs that meet": lambda: learning_curve({"a": history(50), "b": history(49), "c, a longer name": history(48)}),
    "map": course_map,
    "map, a lesson": lambda: course_map(9),
    "architecture": architecture,
    "architecture, lit": lambda: architecture(list(PARTS)),
    "multi-head attention": multi_head_attention,
    "architecture, small": lambda: architecture(["memory"]),
}
every_figure = pytest.mark.parametrize("name", FIGURES)


@cache
def shown(name: str) -> tuple[Figure, dict, dict]:
    """A figure, drawn once for all tests, with what a notebook gets of it."""
    figure = FIGURES[name]()
    return figure, *figure._repr_mimebundle_()


def visible_texts(figure: Figure) -> list[Text]:
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += [*axes.texts, axes.title, axes._left_title]
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [axis.label, *(label for tick in ticks for label in (tick.label1, tick.label2))]
    return [text for text in texts if text.get_visible() and text.get_text()]


@every_figure
def test_texts_stand_inside_the_canvas_and_do_not_touch(name):
    figure, _, _ = shown(name)
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in visible_texts(figure)]
    assert len(boxes) > 3
    for words, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        assert inside, f"{words!r} leaves the canvas"
    for (first, a), (second, b) in combinations(boxes, 2):
        # A line of small letters has empty room above and below its ink: a quarter of its height may be shared.
        width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 1 or height <= 0.25 * min(a.height, b.height), f"{first!r} runs into {second!r}"


@every_figure
def test_a_figure_is_small_and_carries_its_words(name):
    figure, data, metadata = shown(name)
    assert data["text/plain"] == metadata["image/png"]["alt"] == figure.alt
    assert len(figure.alt.split()) >= 8
    assert len(data["image/png"]) < 64_000
    picture = Image.open(BytesIO(data["image/png"]))
    assert metadata["image/png"]["width"] * 3 == picture.width * 2  # one and a half pixels for each on the page
    assert not set(picture.info) & {"Software", "Creation Time", "Date"}


def test_figures_and_the_style_leave_no_trace_in_matplotlib_nor_take_a_readers_settings():
    before, expected = dict(matplotlib.rcParams), attention_map(weights(5, 7), TARGET, SOURCE).png()
    learning_curve(history(300)).png()
    with style():
        assert matplotlib.rcParams["axes.spines.top"] is False
    assert dict(matplotlib.rcParams) == before
    others = {"font.size": 20, "figure.facecolor": "black", "savefig.bbox": "tight", "axes.grid": True}
    with matplotlib.rc_context(others):
        assert attention_map(weights(5, 7), TARGET, SOURCE).png() == expected


@pytest.mark.parametrize("cell", ["figure", "display(figure)"])
def test_a_cell_shows_our_bundle_even_where_ipython_draws_other_figures(cell, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.pylabtools import select_figure_formats
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where another environment is activated
    # Not the singleton, so that nothing stays registered, and without a history, which would be a file left open.
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    InteractiveShell._instance = shell
    try:
        select_figure_formats(shell, {"svg"})  # as once pyplot was used
        figure = architecture(["memory"])
        shell.user_ns.update(figure=figure)
        with capture_output() as captured:
            assert shell.run_cell(cell).success
        picture, words = captured.outputs
    finally:
        InteractiveShell._instance = None
    assert set(picture.data) == {"image/png", "text/plain"}
    assert picture.data["text/plain"] == picture.metadata["image/png"]["alt"] == figure.alt
    assert words.data == {"text/html": caption(figure.caption)}, "its first sentence stands under it"
    shown = picture.data["image/png"]
    assert (base64.b64decode(shown) if isinstance(shown, str) else shown) == figure.png()


def test_a_long_word_and_a_dollar_sign_stay_as_they_are():
    Figure("It costs $5 and $6, " + "w" * 60).png()
    alt = "It grows 1.5 times, at i.e. 3. As “one says.” So it goes."
    assert Figure(alt).caption == "It grows 1.5 times, at i.e. 3." and Figure(alt[30:]).caption == "As “one says.”"
    attention_map(torch.eye(2), ["$5", "$6"], ["$x$", "{"]).png()
    words = caption("It costs $5 & $6 after <s>.")
    assert "It costs $5 &amp; $6 after &lt;s&gt;.</p>" in words and "mathjax_ignore" in words


def test_the_caption_names_the_true_maximum():
    maps = torch.full((2, 7, 4), 0.25)
    maps[0, 3] = torch.tensor([0.1, 0.7, 0.1, 0.1])
    maps[1, 6] = torch.tensor([0.0, 0.04, 0.0, 0.96])
    queries, keys = list("abcdefg"), list("wxyz")
    assert "head 0: “d” looks at “x” (0.70); head 1: “g” looks at “z” (0.96)." in attention_map(maps, queries, keys).alt
    assert "largest weight: “g” looks at “z” (0.96)." in attention_map(maps[1], queries, keys).alt
    assert attention_map(maps, queries, keys, caption="Look left.").alt == "Look left."


def test_a_small_map_tells_where_every_query_looks():
    rows = torch.tensor([[0.9, 0.1, 0, 0], [0.5, 0, 0, 0.5], [0.25] * 4, [0.0] * 4])
    alt = attention_map(rows, list("abcd"), ["the", "sea", "the", "."]).alt
    assert "“a” at “the” (0) (0.90); “b” at “the” (0) and “.” (0.50 each); “c” at 4 keys alike (0.25 each)" in alt
    assert alt.endswith("“d” at nothing.")


def test_ribbons_of_many_words_name_the_five_widest_in_the_order_of_the_text():
    looks = torch.diag(torch.tensor([0.9, 0.1, 0.8, 0.7, 0.2, 0.6, 0.5]))
    lower = [word.upper() for word in SOURCE]
    named = "“STORM” to “storm”, “THE” to “the”, “COAST” to “coast”, “HARBOR” to “harbor”, “CLOSED” to “closed”."
    assert ribbons(looks, lower, SOURCE).alt.endswith(named)


def test_ribbons_keep_a_mark_with_its_word_where_a_line_ends():
    words = ["x" * 46, "y" * 47, ".", "z"]  # the first two fill the line
    axes = ribbons(torch.full((1, 4), 1 / 4), ["all"], words).axes[0]
    at = {text.get_text(): text.get_position() for text in axes.texts}
    assert at["."] == pytest.approx((94 * LETTER, at["y" * 47][1]))
    assert at["z"] == pytest.approx((0, at["."][1] - LINE))


def test_a_mask_is_told_by_sign_and_by_words():
    mask = torch.tensor([[[True, True, False]]])
    figure = mask_picture(mask, ["a", "b"], ["x", "y", "<pad>"])
    dots, crosses = figure.axes[0].lines
    assert (dots.get_marker(), crosses.get_marker()) == ("o", "x")
    assert dots.get_xydata().tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert crosses.get_xydata().tolist() == [[2, 0], [2, 1]]
    assert "4 of 6 pairs are allowed, and no query sees “<pad>”." in figure.alt


def test_in_each_half_low_columns_are_called_fast():
    halves = sinusoids(sinusoidal_table(60, 32, interleaved=False))
    ends = [(text.get_text(), text.get_position()[0]) for text in halves.axes[0].texts if text.get_text()]
    assert ends == [("fast", 0), ("slow", 15), ("fast", 16), ("slow", 31)]


def test_a_learning_curve_names_each_line_and_tells_its_fall():
    figure = learning_curve({"warm": history(100), "cold": [3.0, 2.0, 2.5]})
    warm, cold = "warm goes from 4.50 at step 1 to 0.54 at step 100", "cold goes from 3.00 at step 1 to 2.50 at step 3"
    assert f"{warm}; {cold}." in figure.alt
    axes = figure.axes[0]
    names = {text.get_text(): text.get_color() for text in axes.texts}
    assert names == {line.get_label(): line.get_color() for line in axes.lines}
    assert len({line.get_linestyle() for line in axes.lines}) == 2  # not told apart by color alone
    assert axes.get_yscale() == "linear"
    assert learning_curve([5.0, 0.1]).axes[0].get_yscale() == "log"


def test_of_many_steps_the_means_are_drawn_over_the_single_losses():
    losses = [1.0, 3.0] * 200
    means, single = learning_curve(losses).axes[0].lines
    assert set(means.get_ydata()) == {2.0} and len(means.get_ydata()) == 50
    assert list(single.get_ydata()) == losses


def linear(colors: np.ndarray) -> np.ndarray:
    return np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)


def lightness(colors: np.ndarray) -> np.ndarray:
    return linear(colors)[..., :3] @ [0.2126, 0.7152, 0.0722]


def test_colors_survive_a_gray_print_and_a_weight_of_zero_is_nearly_white():
    steps = lightness(SEQUENTIAL(np.linspace(0, 1, 13)))
    assert (np.diff(steps) < 0).all() and steps[0] > 0.9 > 0.3 > steps[9]
    low, middle, high = lightness(DIVERGING([0.0, 0.5, 1.0]))
    assert middle > high + 0.3 > low + 0.5


def contrast(letters: str, ground: ArrayLike) -> np.ndarray:
    """As WCAG 2.2 defines it: 3 and more for lines (1.4.11), 4.5 for letters (1.4.3), 7 is very easy (1.4.6)."""
    both = np.broadcast_arrays(lightness(np.array(to_rgb(letters))), lightness(np.array(ground)))
    dark, light = np.sort(both, 0)
    return (light + 0.05) / (dark + 0.05)


def test_letters_stand_out():
    """On a page that is dark, too: there a picture is a white card, as bright as on a light one."""
    white, aside = np.ones(3), MEANING["aside"].color  # aside has lines, and no letters
    for color in {INK, QUIET, *COLORS, *(look.color for look in MEANING.values())} - {aside}:
        assert contrast(color, white) >= 4.5, color
    weights = np.linspace(0, 1, 201)
    for letters, cells in (("black", weights[weights < DARK]), ("white", weights[weights >= DARK])):
        assert contrast(letters, SEQUENTIAL(cells)).min() >= 4.5


def test_axes_and_frames_of_controls_are_seen_on_a_light_and_on_a_dark_page():
    """They may be faint, since letters say what they mark, but not of the color of their ground."""
    pairs = dict(re.findall(r"--tfm-(line|ground): light-dark\((.+?)\);", CSS.read_text(encoding="utf-8")))
    lines, grounds = (pairs[name].split(", ") for name in ("line", "ground"))
    for line, ground in zip(lines, grounds, strict=True):
        assert contrast(line, to_rgb(ground)) >= 1.2, f"{line} on {ground}"


# How people who lack one kind of cones see linear red, green and blue. Source: Machado et al. 2009, severity 1.
SIGHT = np.array(
    [
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
)


TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def as_seen(color: str) -> np.ndarray:
    """The color in CIELAB, where 2 is a difference that one just sees, by each kind of SIGHT."""
    seen = np.clip(SIGHT @ linear(np.array(to_rgb(color))), 0.01, 1).T
    x, y, z = np.cbrt(TO_XYZ @ seen / [[0.95047], [1], [1.08883]])
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


@pytest.mark.parametrize("row", ROLES, ids=lambda row: "-".join(row))
def test_roles_that_meet_in_a_picture_differ_for_every_eye(row):
    for one, other in combinations([MEANING[role].color for role in row], 2):
        assert np.linalg.norm(as_seen(one) - as_seen(other), axis=-1).min() > 12, f"{one} and {other}"


def test_each_role_has_one_look_whose_lines_stand_out_and_whose_areas_carry_dark_letters():
    assert len(MEANING) == sum(map(len, ROLES))
    for role, look in MEANING.items():
        assert contrast(look.color, np.ones(3)) > 3 and contrast(INK, to_rgb(look.fill)) > 7, role


def test_every_lesson_builds_on_earlier_ones_and_arrows_join_neighbors():
    places = {lesson.number: lesson.place for lesson in LESSONS}
    assert len(set(places.values())) == len(LESSONS)
    for lesson in LESSONS[1:]:
        assert bool(lesson.builds_on) == (lesson.place[1] < FIRST_BEYOND), "each lesson of part two stands alone"
        for before in lesson.builds_on:
            (x, y), (to_x, to_y) = places[before], lesson.place
            # Between two rows there is a gap, through which an arrow may lead past other boxes.
            assert before < lesson.number and (to_y - y == 1 or (y == to_y and abs(x - to_x) == 1))


@pytest.mark.parametrize(
    ("error", "call", "message"),
    [
        (ValueError, lambda: attention_map(torch.ones(2, 2, 2, 2), "ab", "ab"), r"shape .*; wanted \(H, T, S\)"),
        (ValueError, lambda: attention_map(torch.ones(0, 3), [], "abc"), r"none of them 0"),
        (ValueError, lambda: attention_map(torch.tensor([[3.0, -1.0]]), ["a"], ["b", "c"]), "-1 to 3; wanted 0 to 1"),
        (ValueError, lambda: attention_map(torch.tensor([[torch.nan]]), ["a"], ["b"]), "nan or infinite"),
        (ValueError, lambda: attention_map(weights(2, 3), ["a", "b"], ["x"]), "keys has 1 labels; wanted a list of 3"),
        (ValueError, lambda: attention_map(weights(2, 3), "ab", list("xyz")), "queries has 2 labels; wanted a list"),
        (ValueError, lambda: attention_map(weights(2, 2, 3), ["a", "b"], list("xyz"), heads=["one"]), "heads has 1"),
        (ValueError, lambda: ribbons(torch.tensor([[3.0, -1.0]]), ["a"], ["b", "c"]), "-1 to 3; wanted 0 to 1"),
        (TypeError, lambda: mask_picture(torch.ones(2, 2)), r"wanted torch.bool, True = may attend: use mask.bool\(\)"),
        (ValueError, lambda: mask_picture(torch.ones(2, 1, 3).bool()), r"mask\[0\] picks one example"),
        (ValueError, lambda: mask_picture(torch.ones(2, 3).bool(), ["a"]), "queries has 1 labels; wanted a list of 2"),
        (ValueError, lambda: sinusoids(torch.ones(3)), r"shape \(3,\); wanted \(positions, d_model\)"),
        (ValueError, lambda: sinusoids(torch.ones(3, 8), columns=[8]), r"\[8\]; wanted numbers from 0 to 7"),
        (ValueError, lambda: Figure("  \n"), "alt is empty"),
        (ValueError, lambda: learning_curve({}), "runs is empty"),
        (ValueError, lambda: learning_curve([]), "run 'loss' has 0 steps and 0 losses"),
        (ValueError, lambda: learning_curve({"a": [1.0, float("inf")]}), "1 of them not finite"),
        (ValueError, lambda: learning_curve(SimpleNamespace(step=[1], loss=[1.0, 2.0])), "1 steps and 2 losses"),
        (ValueError, lambda: course_map(99), r"current is 99; wanted a lesson's number, \[0, .* 14"),
        (ValueError, lambda: architecture(["encoder", "atention"]), "'atention'.*a list of names out of embedding"),
        (ValueError, lambda: architecture("encoder"), "wanted a list of names"),
    ],
)
def test_wrong_input_is_refused_with_the_fix(error, call, message):
    with pytest.raises(error, match=message):
        call()
