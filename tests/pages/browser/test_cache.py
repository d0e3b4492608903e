"""The control of the cache counts what the model does, with a cache and without."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.show.controls import opened
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.cache_control import MOST_TOKENS, cache_control, multiplications
from tfm_lib.writing.decoding import DecoderCache, Writer, greedy

STORY = make_newsroom(0, train=1).test[0].article


def flops(function, *arguments, **options) -> int:
    """As torch counts them; MATH, since not every version counts its fused kernel."""
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), counter:
        function(*arguments, **options)
    return counter.get_total_flops()


def test_the_parts_are_those_of_a_hand_count():
    config = TransformerConfig(vocab_size=10, d_model=4, num_heads=2, d_ff=6, num_decoder_layers=1)
    assert multiplications(config, source=5, past=2, new=1) == {
        "story's keys and values": 0,
        "other projections": 6 * 4 * 4,  # query, key, value, output; query, output
        "scores": (3 + 5) * 4,  # 3 keys of the text, 5 of the story, of width 2 in 2 heads each
        "mixtures": (3 + 5) * 4,
        "feed-forward": 2 * 4 * 6,
        "output": 4 * 10,
    }
    assert multiplications(config, source=5, past=0, new=3) == {
        "story's keys and values": 2 * 5 * 4 * 4,
        "other projections": 3 * 6 * 4 * 4,
        "scores": 3 * (3 + 5) * 4,
        "mixtures": 3 * (3 + 5) * 4,
        "feed-forward": 3 * 2 * 4 * 6,
        "output": 3 * 4 * 10,
    }


def another_model() -> Transformer:
    sizes = {"d_model": 12, "num_heads": 3, "d_ff": 20, "num_encoder_layers": 1, "num_decoder_layers": 3}
    return Transformer(TransformerConfig(vocab_size=30, **sizes)).eval()


@pytest.mark.parametrize("make", [lambda: newsroom_model()[0], another_model], ids=["newsroom", "another"])
@pytest.mark.parametrize("source", [1, 7])
def test_torch_counts_two_flops_for_each_multiplication(make, source):
    model = make()
    config = model.config
    memory, text = torch.randn(1, source, config.d_model), torch.randint(3, 30, (1, 6))
    cache = DecoderCache(config.num_decoder_layers, text.shape[1], source)
    for step in range(1, text.shape[1] + 1):
        new = text[:, step - 1 : step]
        kept = flops(model.decode, new, memory, src_mask=None, cache=cache)
        assert kept == 2 * sum(multiplications(config, source, past=step - 1, new=1).values())
        anew = flops(model.decode, text[:, :step], memory, src_mask=None)
        assert anew == 2 * sum(multiplications(config, source, past=0, new=step).values())


@pytest.mark.browser
def test_each_step_shows_what_the_cache_holds_and_what_the_step_multiplies(tmp_path):
    from tests.pages.browser.chromium import chromium

    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(STORY)])
    tokens = greedy(model, src, MOST_TOKENS)[0].tolist()
    with chromium() as browser, opened(browser, tmp_path, cache_control(model, vocabulary, STORY)) as root:
        slider, cached = root.locator("input[type=range]"), root.locator("input[type=checkbox]")
        writer = Writer(model, src, MOST_TOKENS)
        for step, token in enumerate([model.config.start_id, *tokens[:-1]], start=1):
            with torch.inference_mode():
                writer.next_logits(torch.tensor([token]))
            held = [sum(2 * pair[n].all()[0].numel() for pair in writer.cache.layers) for n in (0, 1)]
            slider.fill(str(step - 1))
            cached.set_checked(True)
            shown, words = root.evaluate("root => root.shown"), root.locator(".tfm-words").inner_text()
            assert shown["kept"] == held and f"{held[0]:,} numbers in {held[0] * 4 / 1024:.1f} KiB" in words
            assert shown["with"] == multiplications(model.config, src.shape[1], past=step - 1, new=1)
            assert shown["without"] == multiplications(model.config, src.shape[1], past=0, new=step)
            assert f"The step multiplies {sum(shown['with'].values()):,} times" in words
            rows = root.locator("svg").first.locator("rect:not([display])")
            assert rows.count() == 2 * (step + src.shape[1])
            stayed = root.locator("svg").first.locator("rect:not([display])[style*='-fill']").count()
            assert stayed == (2 * (step - 1 + src.shape[1]) if step > 1 else 0), "what was kept is pale"
            cached.set_checked(False)
            assert root.evaluate("root => root.shown.kept") == [0, 0]
            words = root.locator(".tfm-words").inner_text()
            assert f"The step multiplies {sum(shown['without'].values()):,} times" in words
        assert step == slider.evaluate("e => Number(e.max)") + 1
        box, mouse = root.get_by_label("bars of the multiplications").bounding_box(), root.page.mouse
        mouse.move(box["x"] + box["width"] - 9, box["y"] + 40)
        mouse.down()
        mouse.move(box["x"] + 9, box["y"] + 40)
        mouse.up()
        assert root.evaluate("root => root.shown.step") == 1 and slider.input_value() == "0"


@pytest.mark.parametrize(("story", "length"), [(" ", 0), ("fire " * 73, 73)])
def test_a_story_that_cannot_be_read_is_refused(story, length):
    with pytest.raises(ValueError, match=f"story has {length} tokens; the model reads 1 to 72"):
        cache_control(*newsroom_model(), story)
