"""The model in JavaScript is the model in Python: in a real browser, the same numbers, words and choices, in time.

Where the environment variable SCREENSHOTS names a folder, a table of its times is left there.
"""

import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tests.times import Answer, report
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import COPYING, SHIPPED, newsroom_model, ship
from tfm_lib.show.scripts import MODEL, classic_script, module, weights_script
from tfm_lib.writing.beam import beam_hypotheses
from tfm_lib.writing.copying import CopyingTransformer
from tfm_lib.writing.decoding import after_the_end, greedy
from tfm_lib.writing.next_token import NO_RULES, Rules, next_token_probs
from tfm_lib.writing.tracing import record_attention

pytestmark = pytest.mark.browser
LONGEST = 72  # positions of the shipped models
NEAR = 1e-4  # by how much a logit, or a logarithm of a probability, may differ
MODELS = {"plain": SHIPPED, "copying": COPYING}
GOALS = {  # milliseconds, by how many times slower the processor is made
    1: {"a word": 2, "a story": 60, "being ready": 250},
    4: {"a word": 10, "a story": 300, "being ready": 1000},
}
TIMED = 40  # stories whose time is taken
# `make` has the text of a script run, as the browser does when a script has come.
MAKE = """text => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
}"""
LOAD = """shipped = {
    plain: tfm.loadCheckpoint(tfm.fromBase64(plain)), copying: tfm.loadCheckpoint(tfm.fromBase64(copying)),
}"""
# Writes a text as `greedy` does, and keeps all on the way.
WRITE = """([name, article]) => {
    const {model, vocabulary} = shipped[name], ticks = [performance.now()];
    const words = vocabulary.slotWords(article), src = vocabulary.encode(article, words);
    const writer = new tfm.Writer(model, model.encode(src)), tokens = [], logits = [];
    ticks.push(performance.now());
    for (const token of tfm.write(writer, 72, all => (logits.push(all), all.indexOf(Math.max(...all))))) {
        tokens.push(token);
        ticks.push(performance.now());
    }
    const base64 = btoa(logits.map(all => String.fromCharCode(...new Uint8Array(all.buffer))).join(""));
    return {src, words, tokens, base64, ticks, text: vocabulary.decode(tokens, words)};
}"""


class Told(NamedTuple):
    """A story as the models read it."""

    article: str
    words: list[str]  # of the slots
    src: Tensor  # (1, S)


@cache
def shipped(name: str) -> tuple[Any, Vocabulary]:
    return newsroom_model(copying=name == "copying")


@cache
def stories(name: str) -> list[Told]:
    """200 stories of the test sets; the names of every other one are in no vocabulary."""
    made, (_, vocabulary) = make_newsroom(train=1, dev=1, test=100), shipped(name)
    told = [story.article for pair in zip(made.test, made.unseen_names, strict=True) for story in pair]
    words = [vocabulary.slot_words(article) for article in told]
    src = [torch.tensor([vocabulary.encode(*of)]) for of in zip(told, words, strict=True)]
    return [Told(*of) for of in zip(told, words, src, strict=True)]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory) -> Iterator:
    """A page in a folder, with classic scripts alone: the functions are in `tfm`, the models in `shipped`."""
    folder = tmp_path_factory.mktemp("page")
    scripts = {"tfm": classic_script("tfm", MODEL)} | {name: weights_script(name, of) for name, of in MODELS.items()}
    for name, text in scripts.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    loads = "".join(f'<script src="{name}.js"></script>' for name in scripts)
    (folder / "page.html").write_text(f"<!doctype html><meta charset='utf-8'>{loads}<script>const {LOAD}</script>")
    with browser.new_context() as context:
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        opened = context.new_page()
        opened.goto((folder / "page.html").as_uri())
        yield opened
        assert len(asked) >= 4 and all(url.startswith(("file:", "blob:")) for url in asked)


def logits_of(written: dict[str, Any]) -> Tensor:
    """(T, V), as JavaScript computed them."""
    return torch.frombuffer(bytearray(b64decode(written["base64"])), dtype=torch.float32).view(
        len(written["tokens"]), -1
    )


@torch.inference_mode()
def expected_logits(model: Transformer, src: Tensor, tokens: list[int]) -> Tensor:
    """(T, V), as Python computes them."""
    before = torch.tensor([[model.config.start_id, *tokens[:-1]]])
    return model.decode(before, model.encode(src), src_mask=None)[0]


def texts_of(tokens: Tensor, eos_id: int) -> list[list[int]]:
    """The rows (B, T) without what follows their ends."""
    return [row[~ended].tolist() for row, ended in zip(tokens, after_the_end(tokens, eos_id), strict=True)]


@pytest.mark.parametrize("name", MODELS)
def test_200_stories_have_the_same_logits_and_the_same_headlines(page, name, capsys):
    (model, vocabulary), worst = shipped(name), 0.0
    for article, words, src in stories(name):
        written = page.evaluate(WRITE, [name, article])
        assert (written["src"], written["words"]) == (src[0].tolist(), words)
        assert written["tokens"] == greedy(model, src, LONGEST)[0].tolist(), article
        assert written["text"] == vocabulary.decode(written["tokens"], words)
        ours = expected_logits(model, src, written["tokens"])
        worst = max(worst, (logits_of(written) - ours).abs().max().item())
    with capsys.disabled():
        print(f"\n{name}: logits differ by {worst:.1e} at most")
    assert worst < NEAR
    if name == "copying":
        assert sum(bool(words) for _, words, _ in stories(name)) > 90


@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_four_bits_a_weight_writes_what_python_writes(page, name, tmp_path):
    model, vocabulary = shipped(name)
    file = tmp_path / "four_bits.safetensors"
    save_checkpoint(file, model, vocabulary, four_bits=True)
    light = load_checkpoint(file).model.eval()
    page.evaluate(
        "text => { shipped.light = tfm.loadCheckpoint(tfm.fromBase64(text)); }", b64encode(file.read_bytes()).decode()
    )
    for article, _, src in stories(name)[:40]:
        written = page.evaluate(WRITE, ["light", article])
        assert written["tokens"] == greedy(light, src, LONGEST)[0].tolist(), article
        assert (logits_of(written) - expected_logits(light, src, written["tokens"])).abs().max() < NEAR


GREEDY = """([name, src, rules]) => src.map(ids => tfm.greedy(shipped[name].model, ids, 72, {rules}))"""
BEAM = """([name, src, longest, options]) =>
    src.map(ids => tfm.beamHypotheses(shipped[name].model, ids, longest, options))"""


def same_hypotheses(page, name: str, told: list[Told], longest: int, rules: Rules = NO_RULES, **options: Any) -> None:
    """Both find the same texts, in the same order, with the same scores."""
    model, _ = shipped(name)
    camel = {"numBeams": "num_beams", "lengthPenalty": "length_penalty", "earlyStopping": "early_stopping"}
    given = {theirs: options[ours] for theirs, ours in camel.items() if ours in options} | {"rules": vars(rules)}
    found = page.evaluate(BEAM, [name, [story.src[0].tolist() for story in told], longest, given])
    for story, theirs in zip(told, found, strict=True):
        tokens, scores = beam_hypotheses(model, story.src, longest, rules=rules, **options)
        scores = scores[0][scores[0] > -torch.inf]
        assert [text["tokens"] for text in theirs] == texts_of(tokens[0], model.config.eos_id)[: len(scores)]
        assert torch.allclose(torch.tensor([text["score"] for text in theirs]), scores, atol=NEAR)


@pytest.mark.parametrize("name", MODELS)
def test_200_stories_have_the_same_hypotheses_of_four_beams(page, name):
    same_hypotheses(page, name, stories(name), LONGEST, num_beams=4, length_penalty=0.0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("early_stopping", [False, True])
def test_beam_search_obeys_the_same_options_and_rules(page, name, early_stopping):
    some = stories(name)[:3]
    for num_beams, length_penalty, longest in product((1, 2, 5), (0.0, 1.0, 2.5), (1, 7, 20)):
        options = {"num_beams": num_beams, "length_penalty": length_penalty, "early_stopping": early_stopping}
        same_hypotheses(page, name, some, longest, **options)
    for shortest, n in product((0, 16), (0, 1, 2)):
        rules = Rules(min_new_tokens=shortest, no_repeat_ngram_size=n)
        same_hypotheses(page, name, some, 20, rules, early_stopping=early_stopping)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_obeys_the_same_rules(page, name):
    model, _ = shipped(name)
    some = stories(name)[:5]
    for shortest, n in product((0, 20), (0, 1, 2, 3)):
        rules = Rules(min_new_tokens=shortest, no_repeat_ngram_size=n)
        theirs = page.evaluate(GREEDY, [name, [story.src[0].tolist() for story in some], vars(rules)])
        ours = [greedy(model, story.src, LONGEST, rules=rules)[0].tolist() for story in some]
        assert theirs == ours, rules


def test_where_a_rule_leaves_nothing_the_text_may_end(page):
    forbid = "([size, rules]) => [...tfm.forbid(new Float32Array(size), [1, 3, 0, 2], 2, rules)].map(Number.isFinite)"
    assert page.evaluate(forbid, [4, {"no_repeat_ngram_size": 1}]) == [False, False, True, False]
    assert page.evaluate(forbid, [5, {"no_repeat_ngram_size": 1}]) == [False, False, False, False, True]


STEPS = """([name, src]) => [...tfm.beamSteps(shipped[name].model, src, 72)].map(({beams, candidates, ...step}) => ({
    ...step, beams: beams.map(beam => beam.tokens), from: candidates.map(one => beams.indexOf(one.beam)),
    candidates: candidates.map(({beam, ...one}) => one), goesOn: step.goesOn.map(one => one.tokens),
}))"""


def test_beam_search_can_be_followed_step_by_step(page):
    model, _ = shipped("plain")
    [_, _, src] = stories("plain")[0]
    steps = page.evaluate(STEPS, ["plain", src[0].tolist()])
    assert steps[0]["beams"] == [[]] and len(steps) > 5 and steps[-1]["goesOn"] == []
    assert all(after["beams"] == step["goesOn"] for step, after in pairwise(steps))
    for step in steps:
        totals = [candidate["total"] for candidate in step["candidates"]]
        assert len(totals) == 8 and totals == sorted(totals, reverse=True)
        for candidate, place in zip(step["candidates"], step["from"], strict=True):
            assert candidate["tokens"] == [*step["beams"][place], candidate["token"]]
            assert candidate["ended"] == (candidate["token"] == model.config.eos_id)
    chosen = steps[4]["candidates"][3]
    logits = expected_logits(model, src, chosen["tokens"]).log_softmax(-1)
    log_probs = logits.gather(1, torch.tensor(chosen["tokens"])[:, None])
    assert chosen["total"] == pytest.approx(log_probs.sum().item(), abs=NEAR)


def test_a_writer_and_its_copy_go_on_apart_from_each_other(page):
    """Also where nothing is written yet."""
    apart = """src => {
        const {model} = shipped.plain, likeliest = logits => logits.indexOf(Math.max(...logits));
        const first = new tfm.Writer(model, model.encode(src)), second = first.copy();
        const logits = first.nextLogits(1), third = first.copy();
        first.nextLogits(likeliest(logits));
        third.nextLogits(500);
        let tokens;
        const seen = tfm.record(() => { tokens = [...tfm.write(second, 71, likeliest)]; });
        return [tokens, seen["decoder.layers.0.cross_attention.weights"][0][0].length];
    }"""
    model, _ = shipped("plain")
    src = stories("plain")[0].src
    assert page.evaluate(apart, src[0].tolist()) == [greedy(model, src, LONGEST)[0].tolist(), src.shape[1]]


PROBS = "([logits, options]) => [...tfm.nextTokenProbs(Float32Array.from(logits), options)]"


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_drawn_from_the_same_probabilities(page, name):
    model, _ = shipped(name)
    for _, _, src in stories(name)[:4]:
        for logits in expected_logits(model, src, greedy(model, src, LONGEST)[0].tolist())[::3]:
            for temperature, top_k, top_p in product((0.3, 1.0, 2.0), (None, 1, 5, 10_000), (None, 0.5, 0.95)):
                options = {"temperature": temperature, "topK": top_k, "topP": top_p}
                theirs = torch.tensor(page.evaluate(PROBS, [logits.tolist(), options]), dtype=torch.float32)
                ours = next_token_probs(logits, temperature, top_k, top_p)
                assert torch.allclose(theirs, ours, atol=1e-6) and torch.equal(theirs > 0, ours > 0), options


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
    model, _ = shipped("plain")
    src = stories("plain")[1].src
    ids = src[0].tolist()
    assert page.evaluate(sample, [ids, 0, {"topK": 1}]) == [greedy(model, src, LONGEST)[0].tolist()] * 5
    wild = page.evaluate(sample, [ids, 0, {"temperature": 3}])
    assert wild == page.evaluate(sample, [ids, 0, {"temperature": 3}]) != page.evaluate(sample, [ids, 9, {}])
    assert len({*map(tuple, wild)}) == 5


# Each may stand in a text: what one language takes for white space and another does not, marks, letters whose lower
# case has another length or hangs on their neighbors, signs of two code units, signs that join, names of properties.
ODD = [chr(code) for code in (*range(1, 33), 0x7F, 0x85, 0xA0, 0xAD, 0x1680, 0x180E, *range(0x2000, 0x2011), 0x2028)]
ODD += [
    *"\u2029\u202f\u205f\u2060\u3000\ufeff\u2013\u0301\u200f[].,!?;:()'\"-…¿¡#/\\ΣσςİıßẞÅǅῼＡ９٣你א😀",
    "👩\u200d💻",
]
ODD_TEXTS = [
    text.format(odd) for odd in ODD for text in ("{0}", "a{0}fire", "{0} The Fire{0}", "ΟΔΟ{0} in{0}{0}on {0}")
]
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


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_read_in_the_same_way(page, name):
    _, vocabulary = shipped(name)
    texts = [story.article for story in stories(name)] + ODD_TEXTS
    for text, theirs in zip(texts, page.evaluate(READ, [name, texts]), strict=True):
        words = vocabulary.slot_words(text)
        ids = vocabulary.encode(text, words)
        unknown = [vocabulary.unknown_words(text), vocabulary.unknown_words(text, words)]
        ours = [words, vocabulary.encode(text), ids, unknown, vocabulary.decode(ids, words), vocabulary.decode(ids)]
        assert theirs == ours, repr(text)
    every = list(range(len(vocabulary)))
    both = "([name, ids]) => [shipped[name].vocabulary.decode(ids), shipped[name].vocabulary.pieces]"
    assert page.evaluate(both, [name, every]) == [vocabulary.decode(every), vocabulary.pieces(every)]


RECORD = """([name, src, tgt]) => {
    const {model} = shipped[name], plain = rows => rows.map(row => row.weights ? {...row} : Array.from(row));
    const outputs = tfm.record(() => model.decode(tgt, model.encode(src)));
    model.encode(src);  // what comes after is not seen
    const parts = Object.entries(outputs).map(([name, rows]) => [name, plain(rows)]);
    return Object.fromEntries(parts);
}"""


def outputs(model: Transformer, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
    """What each module of the model gives, (rows, ...), and the weights of each attention."""
    seen: dict[str, Any] = {}
    hooks = [
        part.register_forward_hook(lambda _, args, out, name=name: seen.update({name: out}))
        for name, part in model.named_modules()
    ]
    with torch.inference_mode(), record_attention(model) as weights:
        model(src, tgt)
    for hook in hooks:
        hook.remove()
    seen |= {f"{name}.weights": of.transpose(1, 2) for name, of in weights.items()}  # (1, T, H, S)
    return {name: out[0] for name, out in seen.items() if isinstance(out, Tensor)}


@pytest.mark.parametrize("name", MODELS)
def test_what_each_part_computes_can_be_seen_and_is_the_same(page, name):
    model, _ = shipped(name)
    _, _, src = stories(name)[1]
    tgt = torch.tensor([[model.config.start_id, *greedy(model, src, LONGEST)[0].tolist()]])
    theirs = page.evaluate(RECORD, [name, src[0].tolist(), tgt[0].tolist()])
    ours = outputs(model, src, tgt)
    if name == "copying":
        pointed = theirs.pop("pointer")
        assert all(sum(one["weights"]) == pytest.approx(1, abs=NEAR) for one in pointed)
    computes = {part for part, kind in model.named_modules() if isinstance(kind, nn.Linear | nn.LayerNorm)} - {"output"}
    assert computes < theirs.keys() <= ours.keys()
    for part, rows in theirs.items():
        if part.startswith("decoder") and part.endswith("self_attention.weights"):  # those of the past; the rest is 0
            rows = [[head + [0.0] * (len(rows) - len(head)) for head in row] for row in rows]
        assert torch.allclose(torch.tensor(rows), ours[part], atol=NEAR), part


def test_as_a_module_it_exports_all_that_the_page_has(page):
    imported = """async text => {
        const found = await import(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
        const bytes = found.fromBase64(plain), view = new Uint8Array(1 + bytes.length).subarray(1);
        view.set(bytes);  // a kernel's bytes come at any place of a message
        const {model, vocabulary} = found.loadCheckpoint(view);
        const write = (of, lib) => lib.greedy(of, vocabulary.encode("A fire in Oslo on Monday."), 72);
        const same = JSON.stringify(write(model, found)) === JSON.stringify(write(shipped.plain.model, tfm));
        return [Object.keys(found).sort(), Object.keys(tfm).sort(), same];
    }"""
    names, of_page, same = page.evaluate(imported, module(MODEL))
    assert names == of_page and {"loadCheckpoint", "Vocabulary", "beamSteps", "record"} < {*names} and same


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
    said = page.evaluate(f"() => {{ try {{ {call}; }} catch (error) {{ return error.message; }} }}")
    assert complaint in said


@pytest.mark.parametrize(("changes", "complaint"), [({}, "is F32"), ({"activation": "gelu"}, "activation is gelu")])
def test_another_kind_of_model_is_refused(page, tmp_path, changes, complaint):
    vocabulary = Vocabulary.of_words(["a fire in oslo"])
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = TransformerConfig(vocab_size=len(vocabulary), **{**sizes, "norm_first": True, **changes})
    file = tmp_path / "other.safetensors"
    load = "text => { try { tfm.loadCheckpoint(tfm.fromBase64(text)); } catch (error) { return error.message; } }"
    save_checkpoint(file, Transformer(config), vocabulary)
    assert complaint in page.evaluate(load, weights_script("x", file).split('"')[1])
    if not changes:
        for kind in (Transformer, CopyingTransformer):
            ship(kind(config), vocabulary, file)
            assert page.evaluate(load, weights_script("x", file).split('"')[1]) is None


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_norm_may_stand_in_either_place(page, tmp_path, norm_first):
    vocabulary = Vocabulary.of_words(["a fire in oslo", "a flood in lyon"])
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 2, "num_decoder_layers": 2}
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=len(vocabulary), norm_first=norm_first, **sizes)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ship(model, vocabulary, tmp_path / "own.safetensors")
    text = weights_script("x", tmp_path / "own.safetensors").split('"')[1]
    came = page.evaluate(
        """text => {
            const {model} = tfm.loadCheckpoint(tfm.fromBase64(text));
            return model.decode([1, 5, 6], model.encode([4, 7, 8, 5])).map(logits => [...logits]);
        }""",
        text,
    )
    with torch.inference_mode():
        ours = load_checkpoint(tmp_path / "own.safetensors").model.eval()(
            torch.tensor([[4, 7, 8, 5]]), torch.tensor([[1, 5, 6]])
        )
    torch.testing.assert_close(torch.tensor(came)[None], ours, atol=1e-4, rtol=1e-4)


def processor(page) -> Callable[[int], None]:
    """Makes the page's processor so many times slower, from the call on."""
    session = page.context.new_cdp_session(page)
    return lambda rate: session.send("Emulation.setCPUThrottlingRate", {"rate": rate})


READY = f"""texts => {{
    const make = {MAKE};
    const began = performance.now();
    texts.forEach(make);
    make("const {{model}} = tfm.loadCheckpoint(tfm.fromBase64(weights))");
    return performance.now() - began;
}}"""


def ready(browser, name: str, rate: int) -> float:
    """Milliseconds from when the scripts have come to a page until the model can write."""
    with browser.new_page() as page:
        processor(page)(rate)
        return page.evaluate(READY, [classic_script("tfm", MODEL), weights_script("weights", MODELS[name])])


def test_it_answers_in_time(page, browser, tmp_path):
    answers, slow_down = [], processor(page)
    for name, (rate, goals) in product(MODELS, GOALS.items()):
        slow_down(rate)
        ticks = [page.evaluate(WRITE, [name, story.article])["ticks"] for story in stories(name)[:TIMED]]
        times = {
            "a word": [after - before for told in ticks for before, after in pairwise(told[1:])],
            "a story": [told[-1] - told[0] for told in ticks],
            "being ready": [ready(browser, name, rate) for _ in range(5)],
        }
        control = f"the {name} model" + f", {rate} times slower" * (rate > 1)
        answers += [Answer(control, knob, times[knob], goal) for knob, goal in goals.items()]
    slow_down(1)
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    report(answers, folder / "model_answers.md")
