"""The control of beam search does what tfm_lib.writing.beam does, step by step."""

from copy import deepcopy

import pytest
import torch

from tests.show.controls import INNS, opened
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.beam_control import MOST_TOKENS, PENALTIES, WIDTHS, beam_control
from tfm_lib.writing.beam import search
from tfm_lib.writing.decoding import Writer, greedy, token_log_probs

STORIES = [INNS, *(story.article for story in make_newsroom(0, train=1).unseen_names[:2])]
SETTINGS = [(1, 0), (3, 0), (4, 1), (5, 0.5), (2, 0.2)]


class Watched(Writer):
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
    for name, value in (("width", width), ("length penalty", penalty)):
        root.get_by_role("radiogroup", name=name).get_by_label(str(value), exact=True).check(force=True)
    root.locator("input[type=range]").fill(str(step - 1))
    return root.evaluate("root => root.shown")


@pytest.mark.browser
@pytest.mark.parametrize("story", STORIES, ids=["inns", "unseen 0", "unseen 1"])
def test_every_step_has_the_beams_of_tfm_lib_and_the_same_text_wins(browser, tmp_path, story):
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])

    def total(tokens):
        return token_log_probs(model, src, torch.tensor([tokens])).sum().item() if tokens else 0.0

    own = greedy(model, src, MOST_TOKENS)[0].tolist()
    with opened(browser, tmp_path, beam_control(model, vocabulary, story)) as root, torch.inference_mode():
        for width, penalty in SETTINGS:
            assert width in WIDTHS and penalty in PENALTIES
            watched = Watched(model, src, MOST_TOKENS)
            found = search(watched, MOST_TOKENS, width, penalty)
            assert turn(root, width, penalty, 1)["steps"] == len(watched.steps)
            for step, texts in enumerate(watched.steps, start=1):
                shown = turn(root, width, penalty, step)
                assert [beam["tokens"] for beam in shown["beams"]] == texts
                assert [beam["total"] for beam in shown["beams"]] == pytest.approx([*map(total, texts)], abs=1e-3)
                assert len(shown["candidates"]) == 2 * width
                goes_on = [one["tokens"] for one in shown["candidates"] if one["fate"].startswith("→")]
                assert goes_on == (watched.steps[step] if step < len(watched.steps) else [])
                for one in shown["candidates"]:
                    assert one["p"] == pytest.approx(
                        token_log_probs(model, src, torch.tensor([one["tokens"]]))[0, -1].exp().item(), abs=1e-3
                    )
            texts = [row[row != vocabulary.pad_id].tolist() for row in found.tokens[0]]
            assert [text["tokens"] for text in shown["texts"]] == texts
            assert [text["score"] for text in shown["texts"]] == pytest.approx(found.scores[0].tolist(), abs=1e-3)
            assert [text["total"] for text in shown["texts"]] == pytest.approx([*map(total, texts)], abs=1e-3)
            assert shown["greedy"]["tokens"] == own and shown["greedy"]["total"] == pytest.approx(total(own), abs=1e-3)
            words = root.locator(".tfm-words").inner_text()
            assert f"Its best text is “{vocabulary.decode(texts[0])}”" in words
            assert ("Greedy decoding writes the same text." in words) == (texts[0] == own)


@pytest.mark.browser
def test_a_wider_search_finds_a_more_probable_text_and_a_length_penalty_a_longer_one(browser, tmp_path):
    with opened(browser, tmp_path, beam_control(*newsroom_model(), INNS)) as root:
        for width, penalty, end in (
            (2, 0, "Greedy decoding writes the same text."),
            (3, 0, "the text of the search is more probable, and its score is higher."),
            (3, 0.2, "Greedy decoding writes the same text."),
        ):
            turn(root, width, penalty, 9)
            assert root.locator(".tfm-words").inner_text().endswith(end)


def test_a_text_that_ends_at_once_is_told_in_the_static_words():
    model, vocabulary = newsroom_model()
    ends = deepcopy(model)
    with torch.no_grad():
        ends.decoder.norm.weight.zero_()
        ends.decoder.norm.bias.copy_(ends.output.weight[ends.config.eos_id])
    assert "One text has ended, “”, with a score of" in repr(beam_control(ends, vocabulary, INNS))
    assert repr(beam_control(model, vocabulary, INNS)).endswith("No text has ended.")


@pytest.mark.parametrize(("story", "length"), [(" ", 0), ("fire " * 73, 73)])
def test_a_story_that_cannot_be_read_is_refused(story, length):
    with pytest.raises(ValueError, match=f"story has {length} tokens; the model reads 1 to 72"):
        beam_control(*newsroom_model(), story)
