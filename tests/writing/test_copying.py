"""A model that copies: its probabilities against a loop, its limits, every way to write with it, and its slots."""

import copy
from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.learning.test_training import same_weights
from tests.model.references import randomize
from tests.model.test_model import SMALL, random_ids, small
from tests.writing.test_beam_search import assert_plain
from tests.writing.test_decoding import lively, plain_greedy, ragged
from tfm_lib.data.batches import encode_pairs, hide_words
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning import checkpoints, training
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import newsroom_model
from tfm_lib.pretrained.summarizer import Summarizer
from tfm_lib.writing.beam import beam_search
from tfm_lib.writing.copying import CopyingTransformer, log_mixture
from tfm_lib.writing.decoding import greedy, summarize
from tfm_lib.writing.tracing import copied_from


def copying(**changes: object) -> CopyingTransformer:
    torch.manual_seed(0)
    return CopyingTransformer(TransformerConfig(**{**SMALL, **changes}))


def lively_copying(seed: int, **changes: object) -> CopyingTransformer:
    """As `lively`, with a pointer that looks at one word here and at another there. Pre-norm texts are the livelier."""
    changes["norm_first"] = True
    model = copying(vocab_size=8, tied=False, positions="learned", embed_scale=1.0, **changes)
    model.load_state_dict(lively(seed, **changes).state_dict(), strict=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.pointer.parameters():
            parameter.normal_(std=0.7, generator=generator)
    return model.double().eval()


def gated(model: CopyingTransformer, gate: float) -> CopyingTransformer:
    """The model with its gate set, whatever it reads."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.pointer.gate.weight.zero_()
        model.pointer.gate.bias.fill_(gate)
    return model


def loop(model: CopyingTransformer, src: list[int], tgt: list[int]) -> Tensor:
    """The probabilities of every next token (T, V), for one text without padding, a token at a time."""
    pointer, ids = model.pointer, torch.tensor([src])
    memory = model.encoder(ids)
    states = model.decoder(torch.tensor([tgt]), memory)[0]
    rows = []
    for state in states:
        query = pointer.query_proj(state)
        scores = [query @ pointer.key_proj(word) / len(query) ** 0.5 for word in memory[0]]
        weights = torch.stack(scores).softmax(0)
        g = 1 / (1 + torch.exp(-pointer.gate(state)[0]))
        p = [(1 - g) * of_vocabulary for of_vocabulary in model.output(state).softmax(0)]
        for word, weight in zip(src, weights, strict=True):
            p[word] = p[word] + g * weight
        rows.append(torch.stack(p))
    return torch.stack(rows)


@settings(max_examples=25, deadline=None)
@given(
    src=st.lists(st.integers(3, 29), min_size=1, max_size=8),
    tgt=st.lists(st.integers(0, 29), min_size=1, max_size=5),
    padding=st.integers(0, 3),
    seed=st.integers(0, 9),
)
def test_probabilities_are_those_of_a_plain_loop_and_sum_to_one(src, tgt, padding, seed):
    model = randomize(copying(), seed).double().eval()
    logits = model(torch.tensor([src + [0] * padding]), torch.tensor([tgt]))
    assert torch.allclose(logits.exp()[0], loop(model, src, tgt), atol=1e-12)
    assert torch.allclose(logits.exp().sum(-1), torch.ones(1, len(tgt)).double())
    assert torch.allclose(logits.log_softmax(-1), logits), "as logits, they are their own log-softmax"


def test_a_source_that_is_hidden_whole_leaves_the_plain_model_behind_the_gate():
    model = randomize(copying()).double()
    src, tgt = random_ids(2, 5), random_ids(2, 3)
    hidden = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    logits = model.decode(tgt, model.encode(src, hidden), src_mask=hidden)
    plain = model.output(model.decoder(tgt, model.encoder(src, hidden), memory_mask=hidden))
    assert torch.allclose(logits.log_softmax(-1), plain.log_softmax(-1))
    logits.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_pointer_starts_as_every_linear_layer_of_the_model_and_draws_its_weights_last():
    model, plain = copying(), small().state_dict()
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in plain.items())
    for name, parameter in model.pointer.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            most = (6 / sum(parameter.shape)) ** 0.5  # Xavier uniform
            assert 0.7 * most < parameter.abs().max() <= most


@pytest.mark.parametrize("tied", [True, False])
def test_slots_start_alike_and_all_else_as_before(tied):
    before, model, slots = copying(tied=tied).state_dict(), copying(tied=tied), [4, 5, 6]
    model.start_alike([])
    assert all(torch.equal(weights, before[name]) for name, weights in model.state_dict().items())
    model.start_alike(slots)
    for name, weights in model.state_dict().items():
        table = len(weights) == 30
        assert torch.equal(weights[7:], before[name][7:]) and torch.equal(weights[:4], before[name][:4])
        assert torch.equal(weights, before[name]) != table
        if table:
            distances, length = torch.cdist(weights[slots], weights[slots]), before[name].norm(dim=1).mean()
            assert 0.03 * length < distances[~torch.eye(3).bool()].min() and distances.max() < 0.3 * length
            assert torch.allclose(weights[slots].norm(dim=1), before[name][4].norm(), rtol=0.3)


def test_gradients_are_right():
    ids = torch.tensor([[1, 3, 1, 0], [2, 2, 4, 4]])
    torch.manual_seed(0)
    logits, gate = torch.randn(2, 3, 5).double().requires_grad_(), torch.randn(2, 3, 1).double().requires_grad_()
    scores = torch.randn(2, 3, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda logits, gate, scores: log_mixture(logits, gate, scores.softmax(-1), ids), (logits, gate, scores)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("gate", [-60.0, 0.0, 60.0])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_what_is_extreme_stays_finite_in_every_precision(dtype, gate, scale):
    """Logits far apart, a pointer that is sure of one word, a gate that is shut or open: each log p, each gradient."""
    torch.manual_seed(0)
    model = gated(copying(), gate).to(dtype)
    with torch.no_grad():
        model.output.weight.mul_(scale)
        model.pointer.query_proj.weight.mul_(scale)
    src, tgt = ragged(high=30), random_ids(5, 4)
    logits = model(src, tgt)
    assert logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    training.sequence_loss(logits, random_ids(5, 4), 0, 0.1).backward()
    assert logits.isfinite().all() and torch.allclose(logits.exp().sum(-1).float(), torch.ones(5, 4), atol=1e-5)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_weights_too_small_for_a_gradient_count_as_none():
    """1e-40 is a number in float32, and 1 / 1e-40 is none."""
    weights = torch.tensor([[[1.0, 1e-40, 0.0]]], requires_grad=True)
    logits = torch.tensor([[[0.0, -200.0, -200.0, 0.0]]], requires_grad=True)
    gate = torch.full((1, 1, 1), 50.0, requires_grad=True)
    mixed = log_mixture(logits, gate, weights, torch.tensor([[0, 1, 2]]))
    mixed.sum().backward()
    assert mixed.isfinite().all() and all(x.grad.isfinite().all() for x in (weights, logits, gate))


def test_the_keys_of_a_source_are_computed_once():
    model, src, calls = lively_copying(0), ragged(), []
    model.pointer.key_proj.register_forward_hook(lambda *_: calls.append(1))
    greedy(model, src, 8)
    beam_search(model, src, 8)
    assert len(calls) == 2
    with pytest.raises(FrozenInstanceError):  # or a search that shares it with another would change it
        model.encode(src).keys = None


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3, "length_penalty": 0.0}, {"early_stopping": True}])
def test_it_is_written_with_as_without_the_cache(settings):
    for seed in range(2):
        model, src = lively_copying(seed), ragged(seed=seed)
        assert torch.equal(greedy(model, src, 8), plain_greedy(model, src, 8))
        assert_plain(model, src, 8, **settings)


def test_what_was_copied_is_told_with_its_place():
    """The pointer is made to look at one word; two of the same word share, and the nearer to its liking is named."""
    model = gated(lively_copying(0), 1.0)
    src, tokens = torch.tensor([[5, 3, 4, 3, 6], [4, 4, 0, 0, 0]]), torch.tensor([[3, 7, 2], [4, 3, 2]])
    gate, share, position = copied_from(model, src, tokens)
    g = 1 / (1 + torch.exp(torch.tensor(-1.0)).double())
    assert torch.allclose(gate, g.expand(2, 3))
    assert position[:, 1:].tolist() == [[-1, -1]] * 2, "7 and the end stand in no source, nor 3 in the second one"
    assert share[:, 1:].tolist() == [[0.0, 0.0]] * 2
    for row, length in ((0, 5), (1, 2)):
        mixed = loop(model, src[row, :length].tolist(), [1])[0]
        plain = loop(gated(model, -80.0), src[row, :length].tolist(), [1])[0]
        word = tokens[row, 0]
        assert torch.isclose(share[row, 0], 1 - (1 - g) * plain[word] / mixed[word])
    memory = model.encode(src)
    x = model.decoder(torch.tensor([[1]]), memory.states[:1])
    _, weights = model.pointer(x, memory.keys[:1])
    assert position[0, 0] == max((1, 3), key=lambda i: weights[0, 0, i].item())


PAIRS = [
    Pair("Rain in Oslo and Lima. Oslo is wet.", "oslo wet, says lima"),
    Pair("Anna Weber saw rain in Rome", "Weber saw Riga"),
    Pair("rain is wet", "rain"),
]
KNOWN = Vocabulary.of_words(["rain in and is wet. saw, says"], slots=3)


def test_a_slot_stands_for_the_same_word_in_article_and_summary():
    examples = encode_pairs(PAIRS, KNOWN, 20, 20)
    first, second, third = KNOWN.slots
    assert (first, third) == (4, 6) and KNOWN.pieces([first, third]) == ["[unk1]", "[unk3]"]
    assert examples.words == [["oslo", "lima"], ["anna", "weber", "rome"], []]
    assert [i for i in examples.articles[0] if i in KNOWN.slots] == [first, second, first]
    assert [i for i in examples.summaries[0] if i in KNOWN.slots] == [first, second]
    assert [i for i in examples.summaries[1] if i != KNOWN.encode("saw")[0]] == [second, KNOWN.unknown_id]
    decoded = [KNOWN.decode(ids, words) for ids, words in zip(examples.summaries, examples.words, strict=True)]
    assert decoded == ["oslo wet, says lima", "weber saw [unk]", "rain"]
    assert KNOWN.decode(examples.articles[0], ["oslo"]) == "rain in oslo and [unk]. oslo is wet."
    cut = encode_pairs(PAIRS[:1], KNOWN, 4, 20)  # before Lima, which then has no slot in the summary either
    assert cut.words == [["oslo"]] and cut.cut_articles == 1
    assert KNOWN.decode(cut.summaries[0], cut.words[0]) == "oslo wet, says [unk]"


def test_more_unknown_words_than_slots_are_unknown():
    text = "Anna Weber saw Oslo, Lima, anna"
    assert KNOWN.slot_words(text) == ["anna", "weber", "oslo"]
    ids = KNOWN.encode(text, KNOWN.slot_words(text))
    assert KNOWN.decode(ids, KNOWN.slot_words(text)) == "anna weber saw oslo, [unk], anna"
    assert KNOWN.unknown_words(text, KNOWN.slot_words(text)) == ["Lima"]
    assert Vocabulary.from_json(KNOWN.to_json()).slot_words(text) == ["anna", "weber", "oslo"]
    plain = Vocabulary.of_words(["rain in and is wet. saw, says"])
    assert plain.slots == plain.slot_words("Oslo") == [] and len(KNOWN) == 3 + len(plain)


WRITABLE = ["rain", "in", "and", "is", "wet", "saw", "."]
words = st.lists(st.sampled_from([*WRITABLE, "Oslo", "Lima", "Anna", "oslo", "rome", "x", "unk2"]), min_size=1)


@given(article=words, summary=words)
def test_names_come_back(article, summary):
    """What a summary says in known words, or in those of its article, comes back, in lower case."""
    article, summary = " ".join(article), " ".join(summary)
    slots = KNOWN.slot_words(article)
    back = KNOWN.decode(KNOWN.encode(summary, slots), slots)
    expected = [word if word in {*slots, *WRITABLE} else "[unk]" for word in summary.lower().split()]
    assert back == " ".join(expected).replace(" .", ".")


def test_hidden_words_get_slots_in_their_order_with_those_that_are_unknown():
    examples = encode_pairs(PAIRS, KNOWN, 20, 20)
    hidden = hide_words(examples, KNOWN, 1.0)
    assert hidden.words[0] == ["rain", "in", "oslo"], "the first three; Lima's slot is taken, and it is unknown again"
    assert KNOWN.decode(hidden.articles[0], hidden.words[0]) == "rain in oslo and [unk]. oslo is wet."
    assert KNOWN.decode(hidden.summaries[0], hidden.words[0]) == "oslo wet, says [unk]"
    assert hidden.articles[0][:3] == KNOWN.slots
    assert hide_words(examples, KNOWN, 0.0) == examples
    assert hide_words(examples, KNOWN, 0.5, seed=1) == hide_words(examples, KNOWN, 0.5, seed=1) != examples


def test_only_rare_words_are_hidden():
    vocabulary = Vocabulary.of_words(["in oslo lima rome bonn"], slots=4)
    pairs = [Pair(f"in {place}", place) for place in ("oslo", "lima", "rome", "rome")]
    examples = encode_pairs(pairs, vocabulary, 9, 9)
    assert hide_words(examples, vocabulary, 1.0, rare=0.25).words == [["oslo"], ["lima"], [], []]
    assert hide_words(examples, vocabulary, 1.0, rare=0.5).words == [["oslo"], ["lima"], ["rome"], ["rome"]]


def test_names_that_were_never_seen_are_written():
    summarizer = Summarizer(*newsroom_model(copying=True))
    story = "Boats brought fourteen tenants to dry ground in {} on Tuesday, said rescue leader {}."
    stories = [story.format("Zanzibar", "Fatima Quentin"), story.format("Oslo", "Ada Lovelace")]
    headline = "flood displaces 14 residents in {} on tuesday, says {}"
    wanted = [headline.format("zanzibar", "quentin"), headline.format("oslo", "lovelace")]
    for beams in (1, 3):
        assert [found.text for [found] in summarizer.candidates(stories, 1, beams)] == wanted
    examples = encode_pairs([Pair(article, "?") for article in stories], summarizer.vocabulary, 72, 24)
    assert summarize(summarizer.model, summarizer.vocabulary, examples, 24) == wanted
    assert summarizer.remarks(stories[0]) == []
    assert summarizer.remarks(" ".join(f"w{n}" for n in range(18))) == ["unknown words, read as [unk]: w16, w17"]


def test_a_checkpoint_knows_that_its_model_copies(tmp_path):
    model = copying(vocab_size=len(KNOWN))
    for kept, file in ((Transformer(model.config), "b"), (model, "a")):
        checkpoints.save_checkpoint(tmp_path / file, kept, KNOWN)
        loaded = checkpoints.load_checkpoint(tmp_path / file)
        assert type(loaded.model) is type(kept) and same_weights(loaded.model, kept)
        assert loaded.vocabulary.slots == KNOWN.slots
    with pytest.raises(ValueError, match="only the model has pointer.gate.bias"):
        checkpoints.load_checkpoint(tmp_path / "b", build=CopyingTransformer)
