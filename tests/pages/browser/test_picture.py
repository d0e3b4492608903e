"""The controls of pictures compute what tfm_lib computes, wherever the shape is dragged."""

from itertools import cycle

import pytest
import torch

from tests.show.controls import opened
from tfm_lib.data.pictures import SHAPES, SIDE, SIZES, Shape, draw
from tfm_lib.pretrained.pictures import describe, pictures_model
from tfm_lib.show.picture_control import SHOWN, picture_control
from tfm_lib.writing.tracing import record_attention

KNOBS = [  # size, color, shape, layer, head, gate
    ("small", "blue", "ring", 1, 0, 1.0),
    ("big", "yellow", "cross", 2, 3, 0.35),
    ("big", "gray", "circle", 2, 0, 0.0),
]


@torch.no_grad()
def ours(shown, describes):
    """What the state of a control comes to: chances, and weights of all patches and the first vector."""
    model, vocabulary = pictures_model()
    pixels = draw(Shape(*(shown[name] for name in Shape._fields)))[None]
    with record_attention(model) as maps:
        if describes:
            model.describer.turned = shown["gate"]
            memory = model.eye(pixels)
            ids = describe(model.describer, memory, vocabulary.start_id)
            read = torch.cat([torch.tensor([[vocabulary.start_id]]), ids[:, :-1]], 1)
            chances = model.describer(read, memory)[0, shown["word"]].softmax(-1)
            weights = maps[f"describer.looks.{shown['layer'] - 1}.cross_attention"][0, :, shown["word"]]
            text = vocabulary.decode(ids[0].tolist())
        else:
            chances, text = model.head(model.shape_eye(pixels)[:, 0]).softmax(-1)[0], None
            weights = maps[f"shape_eye.layers.{shown['layer'] - 1}.self_attention"][0, :, 0]
    return text, chances, weights[shown["head"] - 1] if shown["head"] else weights.mean(0)


def compare(shown, describes):
    text, chances, weights = ours(shown, describes)
    torch.testing.assert_close(torch.tensor(shown["chances"]), chances, rtol=0, atol=1e-4)
    torch.testing.assert_close(torch.tensor(shown["weights"]), weights, rtol=0, atol=1e-4)
    assert shown.get("text") == text


@pytest.mark.browser
@pytest.mark.parametrize("describes", [False, True])
def test_it_computes_what_the_package_does(tmp_path, describes):
    from tests.pages.browser.chromium import chromium

    with chromium() as browser, opened(browser, tmp_path, picture_control(describes)) as root:
        assert {name: root.evaluate("root => root.shown")[name] for name in Shape._fields} == SHOWN._asdict()
        compare(root.evaluate("root => root.shown"), describes)
        words = cycle(root.locator(".tfm-word").all() or [None])
        for size, color, shape, layer, head, gate in KNOBS:
            root.get_by_label(size, exact=True).check(force=True)
            root.get_by_role("combobox", name="color").select_option(color)
            root.get_by_role("combobox", name="shape").select_option(shape)
            root.get_by_label(str(layer), exact=True).check(force=True)
            root.get_by_role("combobox", name="head").select_option(index=head)
            if describes:
                root.get_by_role("slider", name="gate").fill(str(round(20 * gate)))
                next(words).click()
            shown = root.evaluate("root => root.shown")
            assert [shown[name] for name in ("size", "color", "shape", "layer", "head")] == [
                size,
                color,
                shape,
                layer,
                head,
            ]
            compare(shown, describes)


@pytest.mark.browser
def test_it_is_dragged_by_mouse_and_keys_and_stays_within_the_picture(tmp_path):
    from tests.pages.browser.chromium import chromium

    with chromium() as browser, opened(browser, tmp_path, picture_control()) as root:
        held = root.get_by_role("slider", name="place of the shape")
        box = held.bounding_box()
        mouse, unit = root.page.mouse, box["width"] / SIDE
        mouse.move(box["x"] + 10 * unit, box["y"] + 13 * unit)
        mouse.down()
        mouse.move(box["x"] + 15.2 * unit, box["y"] + 8.9 * unit)
        mouse.up()
        shown = root.evaluate("root => root.shown")
        assert (shown["x"], shown["y"]) == (15, 9)
        compare(shown, False)
        for _ in range(5):
            root.page.keyboard.press("ArrowRight")
        root.page.keyboard.press("ArrowUp")
        shown = root.evaluate("root => root.shown")
        assert (shown["x"], shown["y"]) == (SIDE - SIZES["big"], 8)
        compare(shown, False)


def test_its_static_form_says_what_the_model_says():
    text, chances, weights = ours({**SHOWN._asdict(), "layer": 2, "head": 0}, False)
    assert f"It says “{SHAPES[int(chances.argmax())]}”" in repr(picture_control())
    best = int(weights[1:].argmax())
    assert f"row {best // 4 + 1}, column {best % 4 + 1}" in repr(picture_control())
    text, *_ = ours({**SHOWN._asdict(), "layer": 2, "head": 0, "word": 3, "gate": 1.0}, True)
    assert f"it writes “{text}”" in repr(picture_control(describes=True))
