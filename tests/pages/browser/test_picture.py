"""The controls of pictures compute what tfm_lib computes, wherever the shape is dragged."""

from itertools import cycle

import pytest
import torch

from tests.pages.browser.reader import drag, near, pick, shown
from tfm_lib.data.pictures import SIDE, SIZES, Shape, draw
from tfm_lib.pretrained.pictures import describe, pictures_model
from tfm_lib.show.picture_control import SHOWN, picture_control
from tfm_lib.writing.tracing import record_attention

KNOBS = [
    {"size": "small", "color": "blue", "shape": "ring", "layer": 1, "head": 0, "gate": 1.0},
    {"size": "big", "color": "yellow", "shape": "cross", "layer": 2, "head": 3, "gate": 0.35},
    {"size": "big", "color": "gray", "shape": "circle", "layer": 2, "head": 0, "gate": 0.0},
]


@torch.no_grad()
def expected(state, describes):
    """What the state of a control comes to: text, chances, and weights of all patches and the first vector."""
    model, vocabulary = pictures_model()
    pixels = draw(Shape(*(state[name] for name in Shape._fields)))[None]
    with record_attention(model) as maps:
        if describes:
            model.describer.turned = state["gate"]
            memory = model.eye(pixels)
            ids = describe(model.describer, memory, vocabulary.start_id)
            read = torch.cat([torch.tensor([[vocabulary.start_id]]), ids[:, :-1]], 1)
            chances = model.describer(read, memory)[0, state["word"]].softmax(-1)
            weights = maps[f"describer.looks.{state['layer'] - 1}.cross_attention"][0, :, state["word"]]
            text = vocabulary.decode(ids[0].tolist())
        else:
            chances, text = model.head(model.shape_eye(pixels)[:, 0]).softmax(-1)[0], None
            weights = maps[f"shape_eye.layers.{state['layer'] - 1}.self_attention"][0, :, 0]
    return text, chances, weights[state["head"] - 1] if state["head"] else weights.mean(0)


def computes(root, describes=False, **state):
    """The control is in that state, and shows what follows from it."""
    found = shown(root)
    text, chances, weights = expected(found, describes)
    near(found["chances"], chances)
    near(found["weights"], weights)
    assert found.get("text") == text and {name: found[name] for name in state} == state


@pytest.mark.browser
@pytest.mark.parametrize("describes", [False, True])
def test_it_computes_what_the_package_does(show, describes):
    root = show(picture_control(describes))
    computes(root, describes, **SHOWN._asdict())
    tokens = cycle(root.locator(".tfm-word").all() or [None])
    for knobs in KNOBS:
        for name in ("size", "layer"):
            pick(root, knobs[name])
        for name in ("color", "shape"):
            root.get_by_role("combobox", name=name).select_option(knobs[name])
        root.get_by_role("combobox", name="head").select_option(index=knobs["head"])
        if describes:
            root.get_by_role("slider", name="gate").fill(str(round(20 * knobs["gate"])))
            next(tokens).click()
        computes(root, describes, **{name: knobs[name] for name in knobs if describes or name != "gate"})


@pytest.mark.browser
def test_it_is_dragged_by_mouse_and_keys_and_stays_within_the_picture(show):
    root = show(picture_control())
    box = root.get_by_role("slider", name="place of the shape").bounding_box()
    unit = box["width"] / SIDE
    start, end = ((box["x"] + x * unit, box["y"] + y * unit) for x, y in ((10, 13), (15.2, 8.9)))
    drag(root, start, end)
    computes(root, x=15, y=9)
    for key in (*["ArrowRight"] * 5, "ArrowUp"):
        root.page.keyboard.press(key)
    computes(root, x=SIDE - SIZES["big"], y=8)
