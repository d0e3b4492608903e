"""The shipped summarizer under control: where each word of a summary looks, and how a summary is written."""

import math

import torch
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer
from tfm_lib.show.control import Live, percent, sentence
from tfm_lib.show.figure import MEANING, QUIET, Figure, style
from tfm_lib.show.newsdesk import (
    CHOSEN,
    desk_data,
    fabrications,
    greedy_with_attention,
    read_story,
    set_choices,
    set_texts,
    story_tokens,
    token_texts,
)
from tfm_lib.show.weights import model_control
from tfm_lib.writing.decoding import evaluating
from tfm_lib.writing.next_token import log_softmax

MOST_TOKENS = 24  # of a summary, its end included
CHOICES = 5
WRITTEN = {"facecolor": MEANING["chosen"].fill}  # how words stand in their line
AHEAD = {"edgecolor": QUIET, "linestyle": ":"}
PLACE = 2  # of the word of the summary that the control begins with
SHADES = LinearSegmentedColormap.from_list("shades", ["#f7f7f7", "#6fb1e0"])  # under dark letters


@style()
def attention_control(model: Transformer, vocabulary: Vocabulary) -> Live:
    """Where the words of a summary look in their story: click a word, choose layer and head, on a story of your own.

    The words of the story are the darker, the more weight the decoder's cross-attention gave them while the word of
    the summary was written.
    """
    data = desk_data(model.config.max_length) | {"most": MOST_TOKENS, "place": PLACE}
    slots = vocabulary.slot_words(data["story"])
    src = read_story(model, vocabulary, data["story"], slots)  # (1, S)
    tokens, _, maps = greedy_with_attention(model, src, MOST_TOKENS)
    layer, place = model.config.num_decoder_layers, min(PLACE, tokens.shape[1] - 1)
    weights = maps["cross"][:, place].mean(0).tolist()  # (S,)
    story, summary = story_tokens(data["story"]), token_texts(vocabulary, tokens[0].tolist(), slots)
    best = sorted(range(len(weights)), key=lambda s: -weights[s])[:3]
    most = ", ".join(f"“{story[s]}” ({weights[s]:.2f})" for s in best)
    who, invented = "the mean of all heads", fabrications(data["story"], summary)
    figure = Figure(sentence("attention", place + 1, summary[place], who, layer, most, invented))
    shades = [{"facecolor": SHADES(weight)} for weight in weights]
    looks = [CHOSEN if t == place else {} for t in range(len(summary))]
    set_texts(figure, ("story: shaded by weight", story, shades), ("summary", summary, looks))
    return model_control("attentionControl", data, figure, model, vocabulary)


@torch.inference_mode()
def go_on(model: Transformer, src: Tensor, chosen: tuple[int, ...]) -> tuple[float, Tensor, list[int]]:
    """What follows the tokens that were chosen so far, for the source src (1, S).

    Returns the log-probability of the chosen tokens, the probabilities (V,) of the next, and the tokens with which
    greedy decoding goes on, up to MOST_TOKENS in all.
    """
    written = [model.config.start_id, *chosen]
    with evaluating(model):
        log_probs = following = log_softmax(model(src, src.new_tensor([written])))[0]  # (1 + T, V)
        while len(written) <= MOST_TOKENS and model.config.eos_id not in written[1:]:
            written.append(int(following[-1].argmax()))
            following = model(src, src.new_tensor([written]))[0]
    total = sum(row[token].item() for row, token in zip(log_probs, chosen, strict=False))
    return total, log_probs[-1].exp(), written[1 + len(chosen) :]


@style()
def decoding_control(model: Transformer, vocabulary: Vocabulary, story: str = "", written: str = "") -> Live:
    """Write a summary word by word: the five most probable words at its next place, and how the text would go on.

    A click on a word writes it. A text ends with [eos], or with MOST_TOKENS tokens. The control opens with `story` and
    the words `written`, where they are given. Raises ValueError if either is longer than it may be.
    """
    data = desk_data(model.config.max_length, story) | {"most": MOST_TOKENS, "choices": CHOICES}
    slots = vocabulary.slot_words(data["story"])
    chosen = data["written"] = vocabulary.encode(written, slots)
    if (length := len(chosen)) >= MOST_TOKENS:
        raise ValueError(f"written has {length} tokens; a summary has at most {MOST_TOKENS}: leave some for the model")
    src = read_story(model, vocabulary, data["story"], slots)  # (1, S)
    total, probs, rest = go_on(model, src, tuple(chosen))
    best = probs.topk(CHOICES)
    names, values = token_texts(vocabulary, best.indices.tolist(), slots), best.values.tolist()
    texts = token_texts(vocabulary, [*chosen, *rest], slots)
    first, second = (f"“{name}” with {percent(value)}" for name, value in zip(names[:2], values[:2], strict=True))
    count = f"{length} {'word' if length == 1 else 'words'}"
    so_far = sentence("decoding, written", count, percent(math.exp(total))) if length else ""
    more, invented = sentence("decoding, rest", len(rest)), fabrications(data["story"], texts)
    chances = length + 1, first, second, CHOICES, percent(sum(values))
    figure = Figure(sentence("decoding", *chances, so_far, more, invented))
    looks = [WRITTEN] * length + [AHEAD] * len(rest)
    summary = "summary: filled is written, dotted is to come", texts, looks
    set_choices(figure, f"word {length + 1}: the most probable", names, values, summary)
    return model_control("decodingControl", data, figure, model, vocabulary)
