"""A translator of Firefox under control: where each word of a translation looks, and what else might stand there."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import save
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from tfm_lib.pretrained.firefox import package_files
from tfm_lib.pretrained.translator import Translator, read_translator
from tfm_lib.show.control import Live, control, load_record, percent, sentence
from tfm_lib.show.figure import Figure, style
from tfm_lib.show.newsdesk import CHOSEN, greedy_with_attention, set_choices
from tfm_lib.show.summarizer_controls import SHADES

NAME = "firefox_en_pt"  # of the model on pages, which `make site` makes of the package's files
RECORDED = "benchmarks/translator_shown.json"  # by benchmarks/translator.py
LONGEST, CHOICES, PLACE = 60, 5, 2  # subwords of a sentence, bars, and the word that the control begins with


@style()
def translator_control() -> Live:
    """Twenty sentences with their recorded translations; on pages that have the model, a sentence of the reader's.

    Click a word of the translation: the words of the sentence are the darker, the more weight the aligned head gave
    them, and the bars are the most probable subwords in its place.
    """
    record = load_record(RECORDED)
    first: dict[str, Any] = record["recorded"][0]
    piece, looks, following = (first["words"][PLACE][name] for name in ("piece", "looks", "next"))
    best = max(range(len(looks)), key=looks.__getitem__)
    names, probs = zip(*following, strict=True)
    likely = piece, percent(probs[0]), names[1], percent(probs[1])
    looked = first["source"][best], f"{looks[best]:.2f}"
    figure = Figure(sentence("translator", first["translation"], PLACE + 1, *likely, *looked))
    shades = [{"facecolor": SHADES(weight)} for weight in looks]
    frames = [CHOSEN if t == PLACE else {} for t in range(len(first["words"]))]
    source = "sentence: shaded by weight", first["source"], shades
    written = "translation", [word["piece"] for word in first["words"]], frames
    set_choices(figure, "most probable subwords", names, probs, source, written)
    data = record | {"name": NAME, "longest": LONGEST, "choices": CHOICES, "place": PLACE}
    return control("translatorControl", data, figure, {NAME: b""}, later=True)  # no kernel sends so many bytes


def translation(translator: Translator, text: str) -> dict[str, Any]:
    """What `translated` of js/translator.js gives of a text, in the same form."""
    src = translator.encode([text])  # (1, S)
    model, longest = translator.shortened(src)
    tokens, logits, maps = greedy_with_attention(model, src, longest)
    best = logits.softmax(-1).topk(CHOICES)  # (T, CHOICES)
    probs, looks = (of.double().round(decimals=4).tolist() for of in (best.values, maps["cross"][0, :, :-1]))
    words = []
    for t, token in enumerate(tokens[0].tolist()):
        following = list(zip(_plain(translator, best.indices[t]), probs[t], strict=True))
        if token != model.config.eos_id:
            words.append({"piece": _plain(translator, [token])[0], "looks": looks[t], "next": following})
    source = _plain(translator, src[0, :-1])
    return {"text": text, "translation": translator.tokenizer.decode(tokens[0]), "source": source, "words": words}


def page_file(name: str = "firefox/en-pt") -> bytes:
    """A translator, its pieces and its shortlist in one file for js/translator.js, matrices as int8 as they came.

    Raises ValueError as `read_translator` does.
    """
    translator, steps, tensors = read_translator(name), dict[str, float](), dict[str, Tensor]()
    for part, weight in translator.model.state_dict().items():
        if part in ("decoder.embedding.tokens.weight", "output.weight"):
            continue  # the encoder's, once more
        tensors[f"model.{part}"] = weight
        if weight.dim() == 2:
            steps[part] = weight.abs().max().item() / 127
            tensors[f"model.{part}"] = (weight / steps[part]).round().to(torch.int8)
    processor = SentencePieceProcessor(model_proto=package_files(name)[2])
    ids, config = range(len(processor)), translator.model.config
    tensors["model.pieces.scores"] = torch.tensor([processor.get_score(i) for i in ids])
    tensors["model.shortlist.offsets"] = translator.shortlist.offsets.int()
    tensors["model.shortlist.ids"] = translator.shortlist.ids.short()
    more = {"ssru": True, "norm_eps": 1e-6, "unknown_id": translator.tokenizer.unknown_id}
    about = {"pieces": [processor.id_to_piece(i) for i in ids], "steps": steps, "config": asdict(config) | more}
    return save(tensors, {"translator": json.dumps(about | {"first": translator.shortlist.first}, ensure_ascii=False)})


def _plain(translator: Translator, ids: Iterable[int]) -> list[str]:
    """Subwords as they are shown, without the mark of a word's beginning unless they are no more than that."""
    return [piece or "▁" for piece in translator.tokenizer.pieces(ids)]
