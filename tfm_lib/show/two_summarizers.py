"""Two summarizers side by side: one that writes what it knows, and one that can copy as well."""

from typing import NamedTuple

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, control, sentence
from tfm_lib.show.figure import Figure, style
from tfm_lib.show.newsdesk import CHOSEN, desk_data, fabrications, quoted_list, read_story, set_texts
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.show.weights import SHIPPED, weights_of
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import greedy
from tfm_lib.writing.tracing import copied_from


@style()
def two_summarizers(plain: tuple[Transformer, Vocabulary], copying: tuple[CopyingTransformer, Vocabulary]) -> Live:
    """What two models write of one story, which may have any name: type it, and see which of them can write it.

    plain and copying are a model and its vocabulary each, as `newsroom_model` returns them. What was copied from the
    story is underlined.
    """
    models = {"plain": plain, "copying": copying}
    data = desk_data(min(model.config.max_length for model, _ in models.values()), strangers=True)
    weights, story = {}, data["story"]
    for role, pair in models.items():
        name, content = weights_of(*pair)
        data[role] = name if name in SHIPPED else role  # two models of a reader's own have two names
        weights[data[role]] = content
    alone, sister = (_summary(*pair, story) for pair in models.values())
    taken = [word for word, copied in zip(sister.words, sister.copied, strict=True) if copied]
    invented = [fabrications(story, summary.words) for summary in (alone, sister)]
    copied = quoted_list(taken) or "nothing"
    figure = Figure(sentence("copying", alone.text, invented[0], sister.text, copied, invented[1]))
    looks = [[CHOSEN if copied else {} for copied in summary.copied] for summary in (alone, sister)]
    knows = "plain: it writes what it knows", alone.words, looks[0]
    set_texts(figure, knows, ("copying: framed is copied from the story", sister.words, looks[1]))
    return control("twoSummarizers", data | {"most": MOST_TOKENS}, figure, weights)


class Summary(NamedTuple):
    """What a model writes of a story."""

    text: str
    words: list[str]
    copied: list[bool]  # whether more than half of a word's probability comes from its places in the story


def _summary(model: Transformer, vocabulary: Vocabulary, story: str) -> Summary:
    slots = vocabulary.slot_words(story)
    src = read_story(model, vocabulary, story, slots)  # (1, S)
    tokens = greedy(model, src, MOST_TOKENS)  # (1, T)
    shares = [0.0] * tokens.shape[1]
    if isinstance(model, CopyingTransformer):
        shares = copied_from(model, src, tokens).share[0].tolist()
    words = [vocabulary.decode([i], slots) for i in tokens[0].tolist()]
    shown = [(word, share > 0.5) for word, share in zip(words, shares, strict=True) if word]
    return Summary(vocabulary.decode(tokens[0], slots), [word for word, _ in shown], [copied for _, copied in shown])
