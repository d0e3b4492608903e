"""The shipped summarizer with another way to attend in the place of one of its attentions."""

from collections import Counter
from typing import Any

from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.control import Live, load_record, percent, sentence
from tfm_lib.show.figure import MEANING, Figure, style
from tfm_lib.show.newsdesk import desk_data, read_story, set_texts, story_tokens
from tfm_lib.show.replacements import PLACES, REPLACEMENTS, swapped
from tfm_lib.show.summarizer_controls import MOST_TOKENS
from tfm_lib.show.weights import model_control
from tfm_lib.writing.decoding import greedy

RECORD = "benchmarks/cheaper_attention/swapped_attention.json"
EVENT = "opening"  # the ready story that needs the encoder's attention
PLACE, WAY, STEP = "encoder", "window", 0  # to begin with: a step of its sizes
ALONE = {"full": "full", "none": "none at all", "mean": "plain mean"}  # the rows that always stand there
CALLED = {  # on the knob, and in a sentence
    "encoder": ("encoder", "the encoder's self-attention"),
    "decoder": ("decoder", "the decoder's self-attention"),
    "cross": ("cross", "the cross-attention"),
}
LABELS = {
    "window": "a window of {} on each side",
    "top keys": "the top {} keys",
    "rank": "the best rank {}",
    "features": "{} random features",
    "hashing, 1 round": "{} buckets, 1 round",
    "hashing, 4 rounds": "{} buckets, 4 rounds",
}
NEW = {"facecolor": MEANING["without"].fill}


@style()
def swap_attention(story: str = "") -> Live:
    """Replace an attention of the shipped summarizer, without training it again: what does it still write?

    Turn where, by what and how much, and read the headline anew, beside those with full attention, with none at all and
    with the plain mean of the values. Beside each stands the share of test stories that it writes exactly right, as
    `benchmarks/cheaper_attention/swapped_attention.py` has measured it. Raises ValueError for a story that the model
    cannot read.
    """
    model, vocabulary = newsroom_model()
    record = load_record(RECORD)
    measured = [[row["place"], row["name"], row["size"], row["exact"]["mean"]] for row in record["rows"]]
    desk = desk_data(model.config.max_length, story)
    data = desk | {"story": story or desk["stories"][EVENT], "most": MOST_TOKENS} | _knobs()
    data |= {"measured": measured, "count": record["draws"] * record["stories"]}
    data["begin"] = {"place": PLACE, "name": WAY, "step": STEP}
    sizes = dict.fromkeys(ALONE, 0) | {WAY: REPLACEMENTS[WAY].sizes[STEP]}
    label = LABELS[WAY].format(sizes[WAY])
    src = read_story(model, vocabulary, data["story"])  # (1, S)
    texts, shares = {}, {}
    for name, size in sizes.items():
        with swapped(model, PLACE, name, size):
            texts[name] = vocabulary.decode(greedy(model, src, MOST_TOKENS)[0])
        shares[name] = next(percent(exact) for *row, exact in measured if row == [PLACE, name, size])
    ways = (shares[way] for way in (WAY, "full", "none", "mean"))
    text, full = texts[WAY], texts["full"]
    compared = ", as with full attention"
    if text != full:
        compared = sentence("swap, new words", sum(new_words(text, full)), full)
    figure = Figure(sentence("swap", label, CALLED[PLACE][1], text, compared, data["count"], *ways))
    blocks = []
    for name, text in texts.items():
        looks = [NEW if new else {} for new in new_words(text, texts["full"])]
        blocks.append((f"{ALONE.get(name, label)}: {shares[name]} exact", story_tokens(text), looks))
    set_texts(figure, *blocks)
    return model_control("swapAttention", data, figure, model, vocabulary)


def _knobs() -> dict[str, list[dict[str, Any]]]:
    """The places and the ways to choose from."""
    places = [
        {"place": place, "name": name, "says": says, "begins": PLACES[place][0], "ends": PLACES[place][1]}
        for place, (name, says) in CALLED.items()
    ]
    ways = [
        {"name": name, "label": label, "sizes": way.sizes, "places": way.places, "random": way.random}
        for name, label in LABELS.items()
        if (way := REPLACEMENTS[name])
    ]
    return {"places": places, "ways": ways}


def new_words(text: str, other: str) -> list[bool]:
    """For each word of a text whether it is new: not, or not so often, in the other."""
    words, counts = story_tokens(text), Counter(story_tokens(other))
    return [words[: place + 1].count(word) > counts[word] for place, word in enumerate(words)]
