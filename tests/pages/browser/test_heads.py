"""The control of lesson 03 shows the weights that the model computes, and the favorites that follow from them."""

import re

import pytest
import torch

from tests.show.controls import opened
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.heads_control import STORY, heads_control
from tfm_lib.show.scripts import all_scripts, module
from tfm_lib.writing.tracing import record_attention

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("story", [STORY, "The mayor of Oslo said on Monday that the zebras of the zoo are well."])
def test_every_head_and_their_mean_weigh_the_words_as_the_model_does(browser, tmp_path, story):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])
    with record_attention(model) as maps:
        model.encode(src)
    words = vocabulary.pieces(src[0])
    with opened(browser, tmp_path, heads_control(model, vocabulary, story)) as root:
        for layer in (1, 0):
            root.locator(".tfm-choice label").nth(layer).click()
            for query in range(len(words)):
                root.locator("button").nth(query).click()
                shown = root.evaluate("root => root.shown")
                weights = maps[f"encoder.layers.{layer}.self_attention"][0, :, query]  # (H, S)
                rows = torch.cat([weights, weights.mean(0, keepdim=True)])
                assert (shown["layer"], shown["query"]) == (layer, query)
                assert torch.allclose(torch.tensor([*shown["heads"], shown["mean"]]), rows, atol=1e-3)
                theirs = [(words[int(row.argmax())], float(row.max())) for row in rows]
                favorites = [one.rsplit(" ", 1) for one in root.locator(".tfm-favorite").all_inner_texts()]
                assert [(word, pytest.approx(float(weight), abs=0.006)) for word, weight in favorites] == theirs
                said = root.locator(".tfm-words").inner_text()
                assert f"asks in layer {layer}" in said
                first, last = map(int, re.search(r"Favorites of heads (\d+) to (\d+): ", said).groups())
                rows = root.locator(".tfm-chip-head .tfm-quiet").all_inner_texts()
                assert rows == [*(f"head {head}" for head in range(first, last + 1)), "mean"]


def test_the_shade_of_a_word_is_its_weight(browser, tmp_path):
    model, vocabulary = newsroom_model()
    with opened(browser, tmp_path, heads_control(model, vocabulary)) as root:
        shares = (
            "root => [...root.querySelectorAll('span.tfm-chip')].map(chip => parseFloat(chip.style.cssText.slice(12)))"
        )
        shown = root.evaluate("root => [...root.shown.heads, root.shown.mean].flat()")
        assert root.evaluate(shares) == [pytest.approx(100 * weight, abs=0.51) for weight in shown]


def test_choices_of_two_controls_in_a_notebook_are_apart_though_each_has_a_script_of_its_own(browser):
    names = """async text => {
        const load = () => import(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
        const made = [await load(), await load()].map(({choice}) => choice("layer", [0, 1], 0, () => {}));
        return made.map(knob => [...new Set([...knob.querySelectorAll("input")].map(input => input.name))]);
    }"""
    page = browser.new_page()
    [[one], [other]] = page.evaluate(names, module(all_scripts()))
    page.close()
    assert one != other
