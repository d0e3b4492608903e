"""A learner's own model on the newsroom, beside the one that ships; the score stands in `progress` from then on."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfm_lib.ask import progress_file
from tfm_lib.data.batches import Examples, encode_pairs, pad_rows
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import EOS_ID
from tfm_lib.pretrained import newsroom_model
from tfm_lib.writing.decoding import evaluating, greedy

MOST, AT_ONCE = 16, 100  # tokens of a headline; stories that are written for at once


def score(model: nn.Module, stories: int = 500) -> float:
    """Print how many headlines of unseen stories the model writes exactly, beside the shipped one, and keep it.

    model.generate(src, length) -> ids (B, n): for the vocabulary of `newsroom_model`, whose end token is 2, without
    the start token. Returns the share that is right. Raises TypeError for a model without `generate`, and ValueError
    for one that does not give as many texts as it got.
    """
    write = getattr(model, "generate", None)
    if not callable(write):
        raise TypeError(f"a {type(model).__name__} has no generate; add generate(self, src, length) -> ids (B, n)")
    shipped, vocabulary = newsroom_model()
    test = make_newsroom(0, train=1, test=stories).test
    examples = encode_pairs([Pair(story.article, story.summary) for story in test], vocabulary, 72, MOST)
    with evaluating(model):
        right = _right(write, examples)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    shipped_right = _right(lambda src, length: greedy(shipped, src, length), examples)
    shipped_parameters = sum(parameter.numel() for parameter in shipped.parameters())
    print(f"your own model: {right / stories:6.1%} of {stories} headlines, {parameters:,} parameters")
    print(f"the shipped one:{shipped_right / stories:6.1%}, {shipped_parameters:,} parameters")
    score = {"right": right, "of": stories, "parameters": parameters}
    score |= {"shipped_right": shipped_right, "shipped_parameters": shipped_parameters}
    file = progress_file.path(progress_file.OWN)
    progress_file.keep(file, score, unless=lambda best: best.get("right", 0) * stories > right * best.get("of", 1))
    return right / stories


@torch.no_grad()
def _right(write: Callable[[Tensor, int], Tensor], examples: Examples) -> int:
    """How many are right to the last word."""
    count = 0
    for start in range(0, len(examples.articles), AT_ONCE):
        articles = examples.articles[start : start + AT_ONCE]
        written = write(pad_rows(articles), MOST)
        if len(written) != len(articles):
            raise ValueError(f"generate gave {len(written)} texts for {len(articles)}; wanted a row for each")
        wanted = [[*ids, EOS_ID] for ids in examples.summaries[start : start + AT_ONCE]]
        count += sum(row.tolist()[: len(ids)] == ids for row, ids in zip(written, wanted, strict=True))
    return count
