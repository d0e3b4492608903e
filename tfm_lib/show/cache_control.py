"""The decoder's cache, word by word: what it keeps, and which work it saves."""

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.show.control import Live, control, sentence
from tfm_lib.show.figure import MEANING, Figure, style
from tfm_lib.show.newsdesk import read_story
from tfm_lib.writing.decoding import greedy

MOST_TOKENS = 16  # of a text, its end included


def multiplications(config: TransformerConfig, source: int, past: int, new: int) -> dict[str, int]:
    """By part, how many numbers are multiplied while `new` tokens go through the decoder.

    Keys and values of `past` tokens are kept, and with them those of the memory of `source` tokens. Norms, softmaxes
    and biases are left out, as torch's counter leaves them out, which counts two FLOPs for a multiplication. Pairs that
    the causal mask hides are computed like the others.
    """
    layers, width = config.num_decoder_layers, config.d_model
    return {
        "story's keys and values": 0 if past else layers * 2 * source * width**2,
        "other projections": layers * 6 * new * width**2,  # four of self-attention, two of cross-attention
        "scores": layers * new * (past + new + source) * width,
        "mixtures": layers * new * (past + new + source) * width,
        "feed-forward": layers * 2 * new * width * config.d_ff,
        "output": new * width * config.vocab_size,
    }


@style()
def cache_control(model: Transformer, vocabulary: Vocabulary, story: str) -> Live:
    """A summary of the story, word by word, with a cache and without: what is kept, and how much is multiplied.

    The encoder has run before, in both ways. Raises ValueError for a story that the model cannot read.
    """
    src = read_story(model, vocabulary, story)  # (1, S)
    words = vocabulary.pieces(greedy(model, src, min(MOST_TOKENS, model.config.max_length))[0])
    source = src.shape[1]
    steps = range(1, len(words) + 1)
    cached = [multiplications(model.config, source, past=step - 1, new=1) for step in steps]
    anew = [multiplications(model.config, source, past=0, new=step) for step in steps]
    row = 2 * model.config.num_decoder_layers * model.config.d_model  # numbers that a token leaves in the cache
    size = next(model.parameters()).element_size()
    last, read = len(words), ["[start]", *words][-2]
    few, many = sum(cached[-1].values()), sum(anew[-1].values())
    text, memory = (f"{count * row:,} numbers in {count * row * size / 1024:.1f} KiB" for count in (last, source))
    less = sentence("cache, less", f"{many:,}", f"{many / few:.1f}")
    figure = Figure(
        f"{sentence('cache, step', last, read, words[-1])} "
        f"{sentence('cache', f'{last} tokens', text, source, memory, f'{few:,}', less)}",
        2.3,
    )
    left, right = figure.subplots(1, 2)
    for name, role, tokens in (("of the story", "aside", [source] * last), ("of the text", "chosen", steps)):
        left.plot(steps, [row * size / 1024 * count for count in tokens], marker="o", label=name, **MEANING[role].line)
    left.set(title="kept after the step, KiB", xlabel="step", ylim=(0, None), xticks=steps)
    for name, role, parts in (("without a cache", "aside", anew), ("with a cache", "chosen", cached)):
        right.plot(steps, [sum(one.values()) / 1e6 for one in parts], marker="o", label=name, **MEANING[role].line)
    right.set(title="million multiplications of the step", xlabel="step", ylim=(0, None), xticks=steps)
    for axes in (left, right):
        axes.legend(frameon=False)
    data = {"words": words, "source": source, "row": row, "size": size, "kept": cached, "anew": anew}
    return control("cacheControl", data, figure)
