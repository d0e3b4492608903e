"""The picture of the heads that stands where no script runs."""

import pytest
import torch

from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.heads_control import STORY, heads_control
from tfm_lib.show.live import ON_PAGES
from tfm_lib.writing.tracing import record_attention


def test_its_words_name_each_heads_favorite_and_that_of_the_mean():
    model, vocabulary = newsroom_model()
    live = heads_control(model, vocabulary)
    src = torch.tensor([vocabulary.encode(STORY)])
    with record_attention(model) as maps:
        model.encode(src)
    weights, words = maps["encoder.layers.0.self_attention"][0, :, 4], vocabulary.pieces(src[0])  # (H, S)
    favorites = [f"“{words[row.argmax()]}” ({row.max():.2f})" for row in weights]
    mean = weights.mean(0)
    assert repr(live) == (
        f"“houses” asks in layer 0. Favorites of heads 0 to 7: {', '.join(favorites)}. Different ones: "
        f"{weights.argmax(-1).unique().numel()}. The mean of all heads gives its most, {mean.max():.2f}, to "
        f"“{words[mean.argmax()]}”."
    )
    assert mean.max() < weights.max(-1).values.mean() - 0.1  # what the mean hides
    assert live.data[ON_PAGES]["weights"] == ["newsroom"] and "image/png" in live.data


def test_a_word_that_occurs_twice_is_named_with_its_position():
    assert "“fire” (0)" in repr(heads_control(*newsroom_model(), "Fire fire fire"))


@pytest.mark.parametrize(("story", "count"), [("", 0), ("fire " * 25, 25)])
def test_a_sentence_that_cannot_be_shown_is_refused(story, count):
    with pytest.raises(ValueError, match=f"story has {count} tokens; wanted 1 to 24.*take a sentence"):
        heads_control(*newsroom_model(), story)
