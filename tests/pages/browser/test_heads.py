"""The control of lesson 03 shows the weights that the model computes, and the favorites that follow from them."""

import re

import pytest
import torch

from tests.pages.browser.reader import near, shown, words
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.heads_control import STORY, heads_control
from tfm_lib.show.scripts import all_scripts, module
from tfm_lib.writing.tracing import record_attention

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("story", [STORY, "The mayor of Oslo said on Monday that the zebras of the zoo are well."])
def test_every_head_and_their_mean_weigh_the_words_as_the_model_does(show, story):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])
    with record_attention(model) as maps:
        model.encode(src)
    texts, root = vocabulary.pieces(src[0]), show(heads_control(model, vocabulary, story))
    for layer in (1, 0):
        root.locator(".tfm-choice label").nth(layer).click()
        for query in range(len(texts)):
            root.locator(".tfm-chip").nth(query % 10 * len(texts) + query).click()  # in any row
            state = shown(root)
            weights = maps[f"encoder.layers.{layer}.self_attention"][0, :, query]  # (H, S)
            rows = torch.cat([weights, weights.mean(0, keepdim=True)])
            assert (state["layer"], state["query"]) == (layer, query)
            near([*state["heads"], state["mean"]], rows, 1e-3)
            expected = [(texts[int(row.argmax())], pytest.approx(float(row.max()), abs=0.006)) for row in rows]
            favorites = [one.rsplit(" ", 1) for one in root.locator(".tfm-favorite").all_inner_texts()]
            assert [(word, float(weight)) for word, weight in favorites] == expected
            assert f"in layer {layer}" in words(root)
            first, last = map(int, re.search(r"Heads (\d+) to (\d+) give", words(root)).groups())
            names = root.locator(".tfm-chip-head .tfm-quiet").all_inner_texts()
            assert names == [*(f"head {head}" for head in range(first, last + 1)), "mean"]
    shades = "root => [...root.querySelectorAll('span.tfm-chip')].map(chip => parseFloat(chip.style.cssText.slice(12)))"
    percents = [100 * weight for row in (*shown(root)["heads"], shown(root)["mean"]) for weight in row]
    assert root.evaluate(shades) == pytest.approx(percents, abs=0.51), "the shade of a word is its weight"


def test_choices_of_two_controls_in_a_notebook_are_apart_though_each_has_a_script_of_its_own(browser):
    names = """async text => {
        const load = () => import(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
        const made = [await load(), await load()].map(({choice}) => choice("layer", [0, 1], 0, () => {}));
        return made.map(knob => [...new Set([...knob.querySelectorAll("input")].map(input => input.name))]);
    }"""
    with browser.new_page() as page:
        [[one], [other]] = page.evaluate(names, module(all_scripts()))
    assert one != other
