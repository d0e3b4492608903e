"""The model in JavaScript is the model in Python: in a real browser, the same numbers, words and choices.

How long it takes, test_controls.py measures: in each control that has a model.
"""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.pages.browser.reader import alone, near
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import COPYING, SHIPPED, newsroom_model
from tfm_lib.show.scripts import MODEL, classic_script, weights_script
from tfm_lib.writing.beam import beam_hypotheses
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import after_the_end, greedy
from tfm_lib.writing.next_token import NO_RULES, Rules, next_token_probs

pytestmark = pytest.mark.browser
LONGEST = 72  # positions of the shipped models
NEAR = 1e-4  # by how much a logit, or a logarithm of a probability, may differ
MODELS = {"plain": SHIPPED, "copying": COPYING}
each_model = pytest.mark.parametrize("name", MODELS)
LOAD = """const shipped = {
    plain: tfm.loadCheckpoint(tfm.fromBase64(plain)), copying: tfm.loadCheckpoint(tfm.fromBase64(copying)),
}"""
# Writes a text as `greedy` does, and keeps all on the way.
WRITE = """([name, article]) => {
    const {model, vocabulary} = shipped[name];
    const words = vocabulary.slotWords(article), src = vocabulary.encode(article, words);
    const writer = new tfm.Writer(model, model.encode(src)), tokens = [], logits = [];
    for (const token of tfm.write(writer, 72, all => (logits.push(all), all.indexOf(Math.max(...all))))) {
        tokens.push(token);
    }
    const base64 = btoa(logits.map(all => String.fromCharCode(...new Uint8Array(all.buffer))).join(""));
    return {src, words, tokens, base64, text: vocabulary.decode(tokens, words)};
}"""


class Story(NamedTuple):
    """A story as the models read it."""

    article: str
    words: list[str]  # of the slots
    src: Tensor  # (1, S)


@cache
def shipped(name: str) -> tuple[Any, Vocabulary]:
    return newsroom_model(copying=name == "copying")


@cache
def stories(name: str) -> list[Story]:
    """200 stories of the test sets; the names of every other one are in no vocabulary."""
    newsroom, (_, vocabulary) = make_newsroom(train=1, dev=1, test=100), shipped(name)
    articles = [story.article for pair in zip(newsroom.test, newsroom.unseen_names, strict=True) for story in pair]
    words = {article: vocabulary.slot_words(article) for article in articles}
    return [Story(text, words[text], torch.tensor([vocabulary.encode(text, words[text])])) for text in articles]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory) -> Iterator:
    """A page with classic scripts alone: the functions are in `tfm`, the models in `shipped`."""
    empty = tmp_path_factory.mktemp("page") / "page.html"
    empty.write_text("<!doctype html>")
    weights = [weights_script(name, file.read_bytes()) for name, file in MODELS.items()]
    with alone(browser) as context:
        tab = context.new_page()
        tab.goto(empty.as_uri())
        for script in (classic_script("tfm", MODEL), *weights, LOAD):
            tab.add_script_tag(content=script)
        yield tab


@torch.inference_mode()
def expected_logits(model: Transformer, src: Tensor, tokens: list[int]) -> Tensor:
    """(T, V), as Python computes them."""
    before = torch.tensor([[model.config.start_id, *tokens[:-1]]])
    return model.decode(before, model.encode(src), src_mask=None)[0]


@each_model
def test_200_stories_have_the_same_logits_and_the_same_headlines(page, name):
    model, vocabulary = shipped(name)
    for story in stories(name):
        output = page.evaluate(WRITE, [name, story.article])
        assert (output["src"], output["words"]) == (story.src[0].tolist(), story.words)
        assert output["tokens"] == greedy(model, story.src, LONGEST)[0].tolist(), story.article
        logits = torch.frombuffer(bytearray(b64decode(output["base64"])), dtype=torch.float32)
        expected = expected_logits(model, story.src, output["tokens"])
        near(logits.view_as(expected), expected, NEAR)
        assert output["text"] == vocabulary.decode(output["tokens"], story.words)
    assert sum(bool(story.words) for story in stories(name)) > 90 or name == "plain"


GREEDY = """([name, src, rules]) => src.map(ids => tfm.greedy(shipped[name].model, ids, 72, {rules}))"""
BEAM = """([name, src, longest, options]) =>
    src.map(ids => tfm.beamHypotheses(shipped[name].model, ids, longest, options))"""


def same_hypotheses(page, name: str, some: list[Story], longest: int, rules: Rules = NO_RULES, **options: Any) -> None:
    """Both find the same texts, in the same order, with the same scores."""
    model, _ = shipped(name)
    given = {re.sub("_(.)", lambda m: m[1].upper(), option): value for option, value in options.items()}
    given["rules"] = vars(rules)
    found = page.evaluate(BEAM, [name, [story.src[0].tolist() for story in some], longest, given])
    for story, texts in zip(some, found, strict=True):
        tokens, scores = beam_hypotheses(model, story.src, longest, rules=rules, **options)
        scores = scores[0][scores[0] > -torch.inf]
        ends = after_the_end(tokens[0], model.config.eos_id)
        rows = [row[~ended].tolist() for row, ended in zip(tokens[0], ends, strict=True)]
        assert [text["tokens"] for text in texts] == rows[: len(scores)]
        assert torch.allclose(torch.tensor([text["score"] for text in texts]), scores, atol=NEAR)


@each_model
def test_beam_search_finds_the_same_hypotheses_with_the_same_options_and_rules(page, name):
    same_hypotheses(page, name, stories(name), LONGEST, num_beams=4, length_penalty=0.0)
    some = stories(name)[:3]
    for early_stopping in (False, True):
        for num_beams, penalty, longest in product((1, 2, 5), (0.0, 1.0, 2.5), (1, 7, 20)):
            options = {"num_beams": num_beams, "length_penalty": penalty, "early_stopping": early_stopping}
            same_hypotheses(page, name, some, longest, **options)
        for shortest, n in product((0, 16), (0, 1, 2)):
            rules = Rules(min_new_tokens=shortest, no_repeat_ngram_size=n)
            same_hypotheses(page, name, some, 20, rules, early_stopping=early_stopping)


@each_model
def test_greedy_obeys_the_same_rules(page, name):
    (model, _), some = shipped(name), stories(name)[:5]
    for shortest, n in product((0, 20), (0, 1, 2, 3)):
        rules = Rules(min_new_tokens=shortest, no_repeat_ngram_size=n)
        output = page.evaluate(GREEDY, [name, [story.src[0].tolist() for story in some], vars(rules)])
        assert output == [greedy(model, story.src, LONGEST, rules=rules)[0].tolist() for story in some], rules


PROBS = "([logits, options]) => [...tfm.nextTokenProbs(Float32Array.from(logits), options)]"


@each_model
def test_samples_are_drawn_from_the_same_probabilities(page, name):
    model, _ = shipped(name)
    for _, _, src in stories(name)[:4]:
        for logits in expected_logits(model, src, greedy(model, src, LONGEST)[0].tolist())[::3]:
            for temperature, top_k, top_p in product((0.3, 1.0, 2.0), (None, 1, 5, 10_000), (None, 0.5, 0.95)):
                options = {"temperature": temperature, "topK": top_k, "topP": top_p}
                probs = torch.tensor(page.evaluate(PROBS, [logits.tolist(), options]), dtype=torch.float32)
                expected = next_token_probs(logits, temperature, top_k, top_p)
                assert torch.allclose(probs, expected, atol=1e-6) and torch.equal(probs > 0, expected > 0), options


def test_chance_has_a_seed_of_its_own_and_keeps_to_the_probabilities(page):
    drawn = """([probs, seed, times]) => {
        const random = tfm.randomNumbers(seed);
        return Array.from({length: times}, () => tfm.draw(probs, random));
    }"""
    probs, times = [0.5, 0.0, 0.3, 0.15, 0.05], 20_000
    first = page.evaluate(drawn, [probs, 0, times])
    assert first == page.evaluate(drawn, [probs, 0, times]) != page.evaluate(drawn, [probs, 1, times])
    assert [Counter(first)[token] / times for token in range(5)] == pytest.approx(probs, abs=0.01)
    assert page.evaluate("tfm.draw([0, 0.5, 0], () => 0.999999)") == 1, "probabilities may miss 1 by their rounding"
    sample = """([src, seed, options]) => Array.from({length: 5}, (_, i) => tfm.sample(
        shipped.plain.model, src, 72, {random: tfm.randomNumbers(seed + i), ...options}))"""
    src = stories("plain")[1].src
    most_probable, ids = greedy(shipped("plain")[0], src, LONGEST)[0].tolist(), src[0].tolist()
    assert page.evaluate(sample, [ids, 0, {"topK": 1}]) == [most_probable] * 5
    assert len({*map(tuple, page.evaluate(sample, [ids, 0, {"temperature": 3}]))}) == 5


# Each may be in a text: what one language takes for white space and another does not, marks, letters whose lower
# case has another length or hangs on their neighbors, signs of two code units, signs that join, names of properties.
ODD = [chr(code) for code in (*range(1, 33), 0x7F, 0x85, 0xA0, 0xAD, 0x1680, 0x180E, *range(0x2000, 0x2011), 0x2028)]
ODD += "\u2029\u202f\u205f\u2060\u3000\ufeff\u2013\u0301\u200f[].,!?;:()'\"-…¿¡#/\\ΣσςİıßẞÅǅῼＡ９٣你א😀"
ODD += ["👩\u200d💻"]
AROUND = ("{0}", "a{0}fire", "{0} The Fire{0}", "ΟΔΟ{0} in{0}{0}on {0}")
ODD_TEXTS = [text.format(odd) for odd in ODD for text in AROUND]
ODD_TEXTS += ["", "[eos]", "[unk] [unk1][unk16]", "constructor __proto__ toString", "don't 'tis rock'n'roll ##s"]
ODD_TEXTS += ["X" * 999, " ".join(f"new{number}" for number in range(20))]
READ = """([name, texts]) => {
    const {vocabulary} = shipped[name];
    return texts.map(text => {
        const words = vocabulary.slotWords(text), ids = vocabulary.encode(text, words);
        const unknown = [vocabulary.unknownWords(text), vocabulary.unknownWords(text, words)];
        return [words, vocabulary.encode(text), ids, unknown, vocabulary.decode(ids, words), vocabulary.decode(ids)];
    });
}"""


@each_model
def test_texts_are_read_in_the_same_way(page, name):
    _, vocabulary = shipped(name)
    texts = [story.article for story in stories(name)] + ODD_TEXTS
    for text, found in zip(texts, page.evaluate(READ, [name, texts]), strict=True):
        words = vocabulary.slot_words(text)
        ids = vocabulary.encode(text, words)
        unknown = [vocabulary.unknown_words(text), vocabulary.unknown_words(text, words)]
        decoded = vocabulary.decode(ids, words), vocabulary.decode(ids)
        assert found == [words, vocabulary.encode(text), ids, unknown, *decoded], repr(text)
    every = list(range(len(vocabulary)))
    both = "([name, ids]) => [shipped[name].vocabulary.decode(ids), shipped[name].vocabulary.pieces]"
    assert page.evaluate(both, [name, every]) == [vocabulary.decode(every), vocabulary.pieces(every)]


RECORD = """ids => {
    const {model} = shipped.plain, outputs = tfm.record(() => model.encode(ids));
    model.encode(ids);
    return outputs.encoder.length;
}"""


def test_what_is_computed_after_a_recording_is_not_in_it(page):
    """That what is recorded is right, the control of the whole model proves for each of its boxes."""
    assert page.evaluate(RECORD, [4, 5, 6]) == 3


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("tfm.greedy(shipped.plain.model, [], 72)", "a text must have 1 to 72 tokens, got 0"),
        ("tfm.greedy(shipped.plain.model, Array(73).fill(7), 72)", "a text must have 1 to 72 tokens, got 73"),
        ("tfm.nextTokenProbs([0, 1], {temperature: 0})", "temperature must be positive"),
        ("tfm.nextTokenProbs([0, 1], {topK: 0})", "topK at least 1"),
        ("tfm.nextTokenProbs([0, 1], {topP: 1.5})", "got 1, null and 1.5; leave out"),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(page, call, complaint):
    with pytest.raises(Exception, match=re.escape(complaint)):
        page.evaluate(f"() => {{ {call}; }}")


LOADED = """text => {
    const {model} = tfm.loadCheckpoint(tfm.fromBase64(text));
    return model.decode([1, 5, 6], model.encode([4, 7, 8, 5])).map(logits => [...logits]);
}"""


def loaded(page, file) -> Tensor:
    """Logits that the model of a file gives in the browser, (T, V)."""
    return torch.tensor(page.evaluate(LOADED, weights_script("x", file.read_bytes()).split('"')[1]))


def small_model(**options: Any) -> tuple[Transformer, Vocabulary]:
    vocabulary = Vocabulary.of_words(["a fire in oslo", "a flood in lyon"])
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 2, "num_decoder_layers": 2}
    kind = options.pop("kind", Transformer)
    torch.manual_seed(0)
    model = kind(TransformerConfig(vocab_size=len(vocabulary), **sizes, **options)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model, vocabulary


def test_another_kind_of_model_is_refused(page, tmp_path):
    save_checkpoint(tmp_path / "other.safetensors", *small_model(activation="gelu"))
    with pytest.raises(Exception, match="activation is gelu"):
        loaded(page, tmp_path / "other.safetensors")


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"kind": CopyingTransformer}])
def test_what_is_shipped_is_loaded_with_the_norm_in_either_place(page, tmp_path, options):
    file = tmp_path / "own.safetensors"
    model, vocabulary = small_model(**options)
    save_checkpoint(file, model.half(), vocabulary)  # as `ship` does
    logits = loaded(page, file)
    if "kind" not in options:
        with torch.inference_mode():
            expected = load_checkpoint(file).model.eval()(torch.tensor([[4, 7, 8, 5]]), torch.tensor([[1, 5, 6]]))
        near(logits[None], expected, 5e-4)
