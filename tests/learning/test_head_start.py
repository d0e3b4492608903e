"""Word vectors that are counted, against loops and a whole decomposition, and models that begin with them."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.test_model import small
from tests.writing.test_copying import copying
from tfm_lib.learning import head_start
from tfm_lib.learning.head_start import begin_with, word_vectors


def by_loops(texts: list[list[int]], vocab_size: int) -> np.ndarray:
    """The products of all word vectors with each other, (V, V): a rotation of the vectors changes nothing in them."""
    counts = np.zeros((vocab_size, vocab_size))
    for text in texts:
        for i, word in enumerate(text):
            for j, near in enumerate(text):
                if i != j and abs(i - j) <= head_start.WINDOW:
                    counts[word, near] += 1 / abs(i - j)
    tokens = [token for text in texts for token in text]
    frequent = sorted(range(vocab_size), key=lambda token: (-tokens.count(token), token))
    counts[:, frequent[head_start.CONTEXTS :]] = 0
    chance = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    information = np.zeros_like(counts)
    for word, near in zip(*counts.nonzero(), strict=True):
        information[word, near] = max(0.0, math.log(counts[word, near] / (counts[word].sum() * chance[near])))
    directions, strength, _ = np.linalg.svd(information)
    vectors = directions * np.sqrt(strength)
    seen = information.any(1)
    vectors = np.where(seen[:, None], vectors - vectors[seen].mean(0), 0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors @ vectors.T


TEXTS = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=6)


@pytest.mark.parametrize(("contexts", "window"), [(4000, 5), (4, 2)], ids=["as it is", "where its limits bind"])
@settings(max_examples=40, deadline=None)
@given(texts=TEXTS)
def test_word_vectors_are_those_of_loops_and_of_the_whole_decomposition(texts, contexts, window):
    texts = [[0, 1, 2, 1, 3], *texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_start, "CONTEXTS", contexts)
        patch.setattr(head_start, "WINDOW", window)
        vectors, expected = word_vectors(texts, 10, 16), by_loops(texts, 10)
    assert vectors.shape == (10, 16) and vectors.isfinite().all()
    assert np.allclose((vectors @ vectors.T).numpy(), expected, atol=2e-3)


@pytest.mark.parametrize("texts", [[], [[]], [[3]], [[3], [4]]])
def test_what_has_no_neighbors_has_no_vector(texts):
    assert not word_vectors(texts, 6, 4).any()
    assert not word_vectors([*texts, [0, 1, 0, 2, 1]], 6, 4)[3:].any(), "not across two texts either"


def test_chance_is_its_own():
    before = torch.get_rng_state()
    first = word_vectors([[0, 1, 2, 3, 1]], 5, 2, seed=1)
    assert torch.equal(torch.get_rng_state(), before) and torch.equal(first, word_vectors([[0, 1, 2, 3, 1]], 5, 2, 1))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("build", [small, copying])
def test_a_model_begins_with_the_vectors_and_with_likeness_and_else_as_before(build, tied):
    model, before = build(tied=tied), build(tied=tied)
    vectors = torch.randn(30, model.config.d_model)
    vectors[:4] = 0
    begin_with(model, vectors)
    of_before = dict(before.named_modules())
    for name, old in before.state_dict(keep_vars=True).items():
        now = model.state_dict()[name]
        if len(old) == 30 and old.dim() == 2:
            assert torch.equal(now[4:], vectors[4:]) and torch.equal(now[:4], old[:4])
        elif name.endswith("key_proj.weight"):
            query = of_before[name.removesuffix(".key_proj.weight")].query_proj.weight
            assert torch.equal(now, query) and not torch.equal(old, query)
        else:
            assert torch.equal(now, old)
    assert not tied or model.output.weight is model.encoder.embedding.tokens.weight
    x = torch.randn(1, 5, model.config.d_model)
    attention = copy.deepcopy(model.encoder.layers[0].self_attention)
    products = attention.query_proj(x) @ attention.key_proj(x).transpose(1, 2)
    assert torch.allclose(products, products.transpose(1, 2), atol=1e-5), "alike goes both ways"
