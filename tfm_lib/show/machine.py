"""The shipped summarizer at work, and broken: what the first page and lesson 00 open with."""

from typing import Any

import torch

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.layers import DecoderLayer, EncoderLayer
from tfm_lib.model import Transformer
from tfm_lib.pretrained import COPYING, SHIPPED, newsroom_model
from tfm_lib.show.control import Live, control, load_record, percent, sentence
from tfm_lib.show.model_boxes import FILES
from tfm_lib.show.newsdesk import desk_data, fabrications, greedy_with_attention, story_tokens, token_texts
from tfm_lib.show.ribbons import ribbons
from tfm_lib.show.summarizer_controls import CHOICES, MOST_TOKENS
from tfm_lib.show.weights import int8_weights, weights_of
from tfm_lib.writing.next_token import log_softmax

RECORD = "benchmarks/start_here/broken_machine.json"
NOBODY = (
    "Burglar Ottilie Zwack broke into a shop in Ulm on Friday and left with six bicycles. The police found the door "
    "wide open."
)
# Of the test set. Each single part but the causal mask is missed in it.
BREAKABLE = (
    "Builder Emma Virtanen welcomed the first guests to seven new inns on Saturday. People in Lima had waited for them "
    "for years."
)
PARTS = ("positions", "causal", "scaling", "residuals")  # what is switched off everywhere at once
# What can be switched off: on its knob, in a sentence, its lesson, and what it was there for.
SWITCHED = {
    "": ("nothing", "", "06", "Take a part away, and see what it was there for: the trained model is run without it."),
    "positions": ("positions", "positions", "04", "Now it sees which words stand there, and not in what order."),
    "causal": (
        "causal mask",
        "the causal mask",
        "02",
        "Hardly anything: while it writes, no later words are there to hide. (With a cache there is nothing to mask at "
        "all; here it reads the whole headline anew at each step.) Training needs the mask, since the answer stands to "
        "the right.",
    ),
    "scaling": ("scaling", "scaling", "01", "Scores are four times as large now, so each head looks at fewer words."),
    "residuals": ("residuals", "residuals", "05", "Each layer now replaces what came in, instead of adding to it."),
    "layer": ("a layer", "", "05", "The layer hands on what it was given."),
    "head": ("a head", "", "03", "It adds nothing now. Most heads are hardly missed when one goes alone; a few are."),
}


def machine() -> Live:
    """The newsroom's summarizer: tell it a story, watch it write, and switch a part of it off.

    A page fetches its weights when it is idle; until they are there it shows a run that is stored with it.
    """
    model, vocabulary = newsroom_model()
    record = load_record(RECORD)
    shipped = dict([weights_of(model, vocabulary), weights_of(*newsroom_model(copying=True))])
    plain, copying = shipped
    desk, story = desk_data(model.config.max_length), BREAKABLE
    desk["stories"], desk["story"] = {"opening": story} | desk["stories"] | {"opening": story}, story
    measured = {row["off"]: row["exact"]["mean"] for row in record["rows"]}
    run, weights = _run(story)
    place = min(range(len(run["steps"])), key=lambda t: run["steps"][t]["p"])  # where there is most to choose
    step, texts = run["steps"][place], run["texts"]
    data = desk | {
        "pieces": vocabulary.pieces(range(len(vocabulary))),
        "most": MOST_TOKENS,
        "choices": CHOICES,
        "place": place,
        "models": [[plain, "plain"], [copying, "copying"]],
        "name": NOBODY,
        "parts": _parts(measured),
        "measured": measured,
        "size": {file.stem: round(len(int8_weights(file)) / 1e6, 1) for file in (SHIPPED, COPYING)},  # on pages
        "count": record["draws"] * record["stories"],
        "lessons": {"read": FILES["07"], "write": FILES["08"], "copy": FILES["11"]},
        "run": run,
    }
    best = max(range(len(step["weights"])), key=lambda s: step["weights"][s])
    word = sentence("machine, word", place + 1, texts[place], ",", percent(step["p"]))
    looks = sentence("machine, looks", story_tokens(story)[best], f"{step['weights'][best]:.2f}")
    caption = f"{sentence('machine', run['text'])}.{word}{looks}{fabrications(story, texts)}"
    figure = ribbons(weights, texts, story_tokens(story), caption=caption)
    return control("machine", data, figure, shipped, later=True)


@torch.inference_mode()
def _run(story: str) -> tuple[dict[str, Any], torch.Tensor]:
    """What `headlineRun` in js/machine.js gives for the plain model, rounded; and the weights (T, S)."""
    model, vocabulary = newsroom_model()
    src = torch.tensor([vocabulary.encode(story)])  # (1, S)
    tokens, logits, maps = greedy_with_attention(model, src, MOST_TOKENS)
    probs, weights = log_softmax(logits).exp(), maps["cross"].mean(0)  # (T, V), (T, S)
    texts = token_texts(vocabulary, tokens[0].tolist(), [])
    steps = []
    for row, token, looks in zip(probs, tokens[0], weights.double().round(decimals=5), strict=True):
        best = row.topk(CHOICES)
        most = best.values.double().round(decimals=5)
        step = {"best": best.indices.tolist(), "names": token_texts(vocabulary, best.indices.tolist(), [])}
        step |= {"probs": most.tolist(), "p": round(row[token].item(), 5), "weights": looks.tolist()}
        steps.append(step | {"copied": False})
    run = {"tokens": tokens[0].tolist(), "texts": texts, "text": vocabulary.decode(tokens[0]), "steps": steps}
    return run, weights


def _parts(measured: dict[str, float]) -> list[dict[str, Any]]:
    """What can be switched off, by the names that `breaking` in js/model.js knows, first what is missed most."""
    model, _ = newsroom_model()
    names = {kind: [[kind, ""]] for kind in ("", *PARTS)}
    names["layer"] = [[name, _called(name)] for name in sorted(layer_names(model), key=measured.__getitem__)]
    alone_first = sorted(head_names(model), key=lambda name: (name.endswith("attention"), measured[name]))
    names["head"] = [[name, _called(name)] for name in alone_first]
    return [
        {"kind": kind, "label": label, "says": says, "lesson": FILES[lesson], "why": why, "names": names[kind]}
        for kind, (label, says, lesson, why) in SWITCHED.items()
    ]


def layer_names(model: Transformer) -> list[str]:
    """encoder.layers.0, ..., decoder.layers.1."""
    return [name for name, module in model.named_modules() if isinstance(module, (EncoderLayer, DecoderLayer))]


def head_names(model: Transformer) -> list[str]:
    """encoder.layers.0.self_attention, which is all of its heads, encoder.layers.0.self_attention.0, ..."""
    found = [(name, one.num_heads) for name, one in model.named_modules() if isinstance(one, MultiHeadAttention)]
    return [name + head for name, heads in found for head in ("", *(f".{n}" for n in range(heads)))]


def _called(name: str) -> str:
    """decoder.layers.1.cross_attention.3 -> cross-attention of decoder layer 2, head 4."""
    stack, _, layer, *attention = name.split(".")
    words = f"{stack} layer {int(layer) + 1}"
    if attention:
        head = f"head {int(attention[1]) + 1}" if len(attention) > 1 else "all heads"
        words = f"{words}, {attention[0].replace('_', '-')}, {head}"
    return words
