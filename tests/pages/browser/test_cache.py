"""The control of the cache counts what the model does, with a cache and without."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.pages.browser.reader import drag, shown, words
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


def another_model() -> Transformer:
    sizes = {"d_model": 12, "num_heads": 3, "d_ff": 20, "num_encoder_layers": 1, "num_decoder_layers": 3}
    return Transformer(TransformerConfig(vocab_size=30, **sizes)).eval()


@pytest.mark.parametrize("make", [lambda: newsroom_model()[0], another_model], ids=["newsroom", "another"])
@pytest.mark.parametrize("source", [1, 7])
def test_torch_counts_two_flops_for_each_multiplication(make, source):
    model = make()
    config = model.config
    memory, text = torch.randn(1, source, config.d_model), torch.randint(3, 30, (1, 3))
    cache = DecoderCache(config.num_decoder_layers, text.shape[1], source)
    for step in range(1, text.shape[1] + 1):
        with_cache = flops(model.decode, text[:, step - 1 : step], memory, src_mask=None, cache=cache)
        assert with_cache == 2 * sum(multiplications(config, source, past=step - 1, new=1).values())
        without = flops(model.decode, text[:, :step], memory, src_mask=None)
        assert without == 2 * sum(multiplications(config, source, past=0, new=step).values())


@pytest.mark.browser
def test_each_step_shows_what_the_cache_holds_and_what_the_step_multiplies(show):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(STORY)])
    length, tokens = src.shape[1], greedy(model, src, MOST_TOKENS)[0].tolist()
    root, writer = show(cache_control(model, vocabulary, STORY)), Writer(model, src, MOST_TOKENS)
    slider, cached = root.locator("input[type=range]"), root.locator("input[type=checkbox]")
    rows = root.locator("svg").first
    for step, token in enumerate([model.config.start_id, *tokens[:-1]], start=1):
        with torch.inference_mode():
            writer.next_logits(torch.tensor([token]))
        held = [sum(2 * pair[n].all()[0].numel() for pair in writer.cache.layers) for n in (0, 1)]
        slider.fill(str(step - 1))
        cached.set_checked(True)
        state = shown(root)
        assert state["kept"] == held and f"{held[0]:,} numbers in {held[0] * 4 / 1024:.1f} KiB" in words(root)
        assert state["with"] == multiplications(model.config, length, past=step - 1, new=1)
        assert state["without"] == multiplications(model.config, length, past=0, new=step)
        assert f"The step takes {sum(state['with'].values()):,} multiplications" in words(root)
        assert rows.locator("rect:not([display])").count() == 2 * (step + length)
        pale = rows.locator("rect:not([display])[style*='-fill']").count()
        assert pale == (2 * (step - 1 + length) if step > 1 else 0), "what was kept is pale"
        cached.set_checked(False)
        assert shown(root)["kept"] == [0, 0]
        assert f"The step takes {sum(state['without'].values()):,} multiplications" in words(root)
    assert step == slider.evaluate("e => Number(e.max)") + 1
    box = root.get_by_label("bars of the multiplications").bounding_box()
    drag(root, (box["x"] + box["width"] - 9, box["y"] + 40), (box["x"] + 9, box["y"] + 40))
    assert shown(root)["step"] == 1 and slider.input_value() == "0"
