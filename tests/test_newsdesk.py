"""The desk opens with the story that it is given, and the control around it with the words."""

import pytest
import torch

from tfm_lib.decoding import greedy
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.newsdesk import Desk
from tfm_lib.show.summarizer_controls import MOST_TOKENS, decoding_control

STORY = "Boats brought fourteen tenants to dry ground in Tampa, where heavy rain had broken a dam."


@pytest.fixture(scope="module")
def shipped():
    return newsroom_model()


def test_the_desk_opens_with_a_story_and_composes_again_at_a_choice(shipped):
    desk = Desk(shipped[1], 72, STORY)
    assert desk.value == desk.text.value == STORY and "<mark>Tampa</mark>" in desk.note.value
    desk.slots["who"].value = desk.slots["who"].options[1]
    assert desk.value == desk.text.value == Desk(shipped[1], 72).value.replace("Anna Weber", desk.slots["who"].value)


def test_the_control_opens_with_the_words_that_are_written(shipped):
    model, vocabulary = shipped
    own = greedy(model, torch.tensor([vocabulary.encode(STORY)]), MOST_TOKENS)[0].tolist()
    words = vocabulary.pieces(own)
    shown = repr(decoding_control(model, vocabulary, STORY, " ".join(words[:3])))
    assert shown.startswith(f"Written: “{' '.join(words[:3])}”, with probability ")
    assert f"The most likely next words: “{words[3]}” (" in shown
    assert shown.endswith(f"By itself the model would go on: {' '.join(words[3:])}.")


@pytest.mark.parametrize(
    ("story", "written", "message"),
    [
        ("fire " * 73, "", "story has 73 tokens; the model reads 1 to 72"),
        (" ", "", "story has 0 tokens"),
        ("", "fire " * (MOST_TOKENS + 1), f"written has {MOST_TOKENS + 1} tokens; a summary has at most {MOST_TOKENS}"),
    ],
)
def test_too_long_is_refused(shipped, story, written, message):
    with pytest.raises(ValueError, match=message):
        decoding_control(*shipped, story, written)
