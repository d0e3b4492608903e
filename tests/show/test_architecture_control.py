"""The whole model as boxes, as it stands where no script runs."""

import pytest

from tfm_lib.lessons import LESSONS
from tfm_lib.model import TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.architecture_control import architecture_control
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.model_boxes import boxes


def test_its_words_say_what_is_opened_and_where_its_largest_number_stands():
    live = architecture_control(*newsroom_model(), opened="decoder.layers.1.cross_attention")
    assert repr(live) == (
        "Decoder, layer 1: Cross-attention. How much each word looks at each word of the story. At “in”, position 5, "
        "the mean of the heads gives “bergen”, position 6, the weight 0.82."
    )
    assert live.data[ON_PAGES]["weights"] == ["newsroom"] and "image/png" in live.data


def test_vectors_grow_from_layer_to_layer_until_the_last_norm_as_lesson_05_says():
    model, vocabulary = newsroom_model()
    encoder = [box.name for box in boxes(model.config)["encoder"] if box.role in ("positions", "norm", "encoder")]
    lengths = [
        float(repr(architecture_control(model, vocabulary, opened=name)).split("A vector is ")[1].split()[0])
        for name in encoder
    ]
    *growing, memory = lengths
    assert growing == sorted(growing) and growing[-1] > 1.5 * growing[0] and memory < growing[0]


def test_each_side_has_its_boxes_from_the_bottom_to_the_top():
    sizes = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 8}
    columns = boxes(TransformerConfig(**sizes, num_encoder_layers=1, num_decoder_layers=3))
    assert [box.label for box in columns["encoder"]] == [
        *("Embedding", "Positions", "Self-attention", "Add & Norm", "Feed-forward", "Add & Norm", "Memory")
    ]
    labels = [box.label for box in columns["decoder"]]
    assert labels[2:8] == labels[8:14] == labels[14:20] and labels[-3:] == ["Norm", "Linear", "Softmax"]
    lessons = {lesson.name for lesson in LESSONS}
    assert {box.lesson for column in columns.values() for box in column} <= lessons


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"opened": "encoder.layers.2"}, "opened is 'encoder.layers.2'; wanted the name of a box: encoder.embedding"),
        ({"story": ""}, "story has 0 tokens; the model reads 1 to 72"),
        ({"story": "fire " * 73}, "story has 73 tokens; the model reads 1 to 72"),
    ],
)
def test_what_cannot_be_shown_is_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        architecture_control(*newsroom_model(), **changes)


def test_a_model_that_copies_is_refused():
    with pytest.raises(TypeError, match="CopyingTransformer, whose pointer has no box"):
        architecture_control(*newsroom_model(copying=True))
