"""The control of beam search does what tfm_lib.writing.beam does, step by step."""

from copy import deepcopy

import pytest
import torch

from tests.pages.browser.reader import pick, slide, words
from tests.show.controls import INNS
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.beam_control import MOST_TOKENS, PENALTIES, WIDTHS, beam_control
from tfm_lib.writing.beam import search
from tfm_lib.writing.decoding import Writer, greedy, token_log_probs

STORIES = [INNS, make_newsroom(0, train=1).unseen_names[0].article]
SETTINGS = [(1, 0), (3, 0), (4, 1), (5, 0.5), (2, 0.2)]


class Recorder(Writer):
    """A writer that keeps the texts of the beams at each step."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.texts, self.steps = [[]], []

    def next_logits(self, token):
        if self.steps:
            self.texts = [[*text, new] for text, new in zip(self.texts, token.tolist(), strict=True)]
        self.steps.append(self.texts)
        return super().next_logits(token)

    def select(self, rows):
        super().select(rows)
        self.texts = [self.texts[row] for row in rows.tolist()]


def turn(root, width, penalty, step):
    pick(root, width, "width")
    pick(root, penalty, "length penalty")
    return slide(root, step - 1)


@pytest.mark.browser
@pytest.mark.parametrize("story", STORIES, ids=["inns", "unseen"])
def test_every_step_has_the_beams_of_tfm_lib_and_the_same_text_wins(show, story):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])

    def log_probs(tokens):
        return token_log_probs(model, src, torch.tensor([tokens]))[0].tolist() if tokens else []

    def near(numbers):
        return pytest.approx(list(numbers), abs=1e-3)

    greedy_tokens, root = greedy(model, src, MOST_TOKENS)[0].tolist(), show(beam_control(model, vocabulary, story))
    for width, penalty in SETTINGS:
        assert width in WIDTHS and penalty in PENALTIES
        recorder = Recorder(model, src, MOST_TOKENS)
        with torch.inference_mode():
            found = search(recorder, MOST_TOKENS, width, penalty)
        for step, texts in enumerate(recorder.steps, start=1):
            state = turn(root, width, penalty, step)
            assert [beam["tokens"] for beam in state["beams"]] == texts and state["steps"] == len(recorder.steps)
            assert [beam["total"] for beam in state["beams"]] == near(sum(log_probs(text)) for text in texts)
            assert len(state["candidates"]) == 2 * width
            goes_on = [one["tokens"] for one in state["candidates"] if one["fate"].startswith("→")]
            assert goes_on == (recorder.steps[step] if step < len(recorder.steps) else [])
            probs = torch.tensor([log_probs(one["tokens"])[-1] for one in state["candidates"]]).exp()
            assert [one["p"] for one in state["candidates"]] == near(probs.tolist())
        texts = [row[row != vocabulary.pad_id].tolist() for row in found.tokens[0]]
        assert [text["tokens"] for text in state["texts"]] == texts
        assert [text["score"] for text in state["texts"]] == near(found.scores[0].tolist())
        assert [text["total"] for text in state["texts"]] == near(sum(log_probs(text)) for text in texts)
        assert state["greedy"]["tokens"] == greedy_tokens
        assert [state["greedy"]["total"]] == near([sum(log_probs(greedy_tokens))])
        assert f"Its best text is “{vocabulary.decode(texts[0])}”" in words(root)
        assert ("Greedy decoding writes the same text." in words(root)) == (texts[0] == greedy_tokens)


@pytest.mark.browser
def test_a_wider_search_finds_a_more_probable_text_and_a_length_penalty_a_longer_one(show):
    root = show(beam_control(*newsroom_model(), INNS))
    same, better = "writes the same text.", "the text of the search is more probable, and its score is higher."
    for width, penalty, end in ((2, 0, same), (3, 0, better), (3, 0.2, same)):
        turn(root, width, penalty, 9)
        assert words(root).endswith(end)


def test_a_text_that_ends_at_once_is_told_in_the_static_words():
    model, vocabulary = newsroom_model()
    ends = deepcopy(model)
    with torch.no_grad():
        ends.decoder.norm.weight.zero_()
        ends.decoder.norm.bias.copy_(ends.output.weight[ends.config.eos_id])
    assert "One text has ended, “”, with a score of" in repr(beam_control(ends, vocabulary, INNS))
    assert repr(beam_control(model, vocabulary, INNS)).endswith("No text has ended.")
