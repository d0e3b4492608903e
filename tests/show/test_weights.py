"""A model on its way to the browser: which file it is, and which models are refused before they get there."""

import json
import re
from copy import deepcopy

import pytest
import torch
from safetensors.torch import load

from tfm_lib.data.batches import encode_pairs
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.data.pairs import Pair
from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained import COPYING, SHIPPED, newsroom_model
from tfm_lib.show.scripts import MODEL
from tfm_lib.show.weights import KIND, int8_weights, weights_of
from tfm_lib.writing.decoding import summarize

WORDS = Vocabulary.of_words(["heavy rain floods the old bridge"])
SMALL = dict(vocab_size=len(WORDS), d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1)


class Changed(Transformer):
    pass


@pytest.mark.parametrize("path", [SHIPPED, COPYING], ids=lambda path: path.stem)
def test_a_shipped_model_goes_as_its_file(path):
    assert weights_of(*newsroom_model(copying=path == COPYING)) == (path.stem, path.read_bytes())


def read_int8(content: bytes, model: Transformer) -> Transformer:
    """The same model with the weights of a page, each row times its step."""
    tensors = load(content)
    steps = {name: tensors.pop(f"{name}.steps") for name in [*tensors] if f"{name}.steps" in tensors}
    read = deepcopy(model)
    for name, one in tensors.items():  # the table of embeddings is there once, for all that share it
        row_steps = steps[name][:, None] if name in steps else 1
        read.get_parameter(name.removeprefix("model.")).data = one.float() * row_steps
    return read


def test_a_row_in_int8_is_off_by_half_a_step_at_most():
    model, _ = newsroom_model()
    content = int8_weights(SHIPPED)
    read = read_int8(content, model).state_dict()
    for name, weight in model.state_dict().items():
        step = weight.abs().amax(-1, keepdim=True) / 127 if weight.dim() == 2 else torch.zeros(1)
        assert ((read[name] - weight).abs() <= 0.501 * step).all(), name
    assert len(content) < 0.54 * SHIPPED.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("path", [SHIPPED, COPYING], ids=lambda path: path.stem)
def test_pages_write_the_same_headlines_but_for_one_in_a_hundred(path):
    model, vocabulary = newsroom_model(copying=path == COPYING)
    pairs = [Pair(story.article, story.summary) for story in make_newsroom(0).test[:600]]
    examples = encode_pairs(pairs, vocabulary, 72, 24)
    ours, theirs = (summarize(one, vocabulary, examples, 24) for one in (model, read_int8(int8_weights(path), model)))
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 594


def test_another_model_goes_in_half_precision(tmp_path):
    model = Transformer(TransformerConfig(**SMALL, norm_first=True))
    name, content = weights_of(model, WORDS)
    (tmp_path / "own.safetensors").write_bytes(content)
    sent = load_checkpoint(tmp_path / "own.safetensors").model.state_dict()
    assert name == "own" and all(torch.equal(sent[key], value.half()) for key, value in model.state_dict().items())
    assert next(model.parameters()).dtype == torch.float32  # the reader's own stays as it was


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"embed_scale": 1.0}, "got embed_scale=1.0; wanted a Transformer"),
        ({"positions": "learned", "activation": "gelu"}, "got activation='gelu', positions='learned'; wanted"),
        ({"tied": False}, "got tied=False; wanted .* with Vocabulary.of_words, trained with activation='relu'"),
    ],
)
def test_a_model_that_the_browser_does_not_compute_is_refused(change, got):
    with pytest.raises(ValueError, match=got):
        weights_of(Transformer(TransformerConfig(**SMALL | {"norm_first": True} | change)), WORDS)


def test_a_class_or_a_vocabulary_that_the_browser_does_not_know_is_refused():
    config = TransformerConfig(**SMALL | {"norm_first": True, "vocab_size": 300})
    with pytest.raises(ValueError, match="got model='Changed'; wanted"):
        weights_of(Changed(config), WORDS)
    with pytest.raises(ValueError, match="got vocabulary='not one of words'"):
        weights_of(Transformer(config), Vocabulary.of_byte_pairs(["rain " * 9], size=300))


def test_python_refuses_what_javascript_refuses():
    script = "".join(path.read_text(encoding="utf-8") for path in MODEL)
    [kind] = re.findall(r"^const KIND = (\{.*?\});", script, re.DOTALL | re.MULTILINE)
    assert json.loads(re.sub(r",(\s*\})", r"\1", re.sub(r"(\w+):", r'"\1":', kind))) == KIND
