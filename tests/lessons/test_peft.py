"""LoRA as lesson 17 writes it is LoRA as `peft` computes it: numbers, what is trained, gradients, merged weights.

Prefixes can be compared by their number only: `peft` puts them before the self-attention of a decoder of transformers,
where the lesson's stand before each attention.
"""

from copy import deepcopy

import pytest
import torch
from torch import nn

from tests.lessons.test_adapt_and_compress import lesson  # noqa: F401 (a fixture)
from tfm_lib.attention import MultiHeadAttention
from tfm_lib.model import Transformer, TransformerConfig

peft = pytest.importorskip("peft", reason="peft is missing")
SIZES = dict(vocab_size=30, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0)
RANK, ALPHA = 3, 6
IDS = torch.arange(4, 24).view(2, 10)


@pytest.fixture
def both(lesson):  # noqa: F811
    """The same model with both, whose B is no longer zero, in double precision."""
    torch.manual_seed(0)
    base = Transformer(TransformerConfig(**SIZES)).double()
    ours = lesson["with_lora"](base, RANK, ALPHA).double()
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["query_proj", "value_proj"])
    theirs = peft.get_peft_model(deepcopy(base), config)
    layers = dict(theirs.base_model.model.named_modules())
    with torch.no_grad():
        for name, layer in ours.named_modules():
            if isinstance(layer, lesson["LoRA"]):
                layer.b.normal_()
                layers[name].lora_A["default"].weight.data = layer.a.detach().clone()
                layers[name].lora_B["default"].weight.data = layer.b.detach().clone()
    return base, ours, theirs


def test_the_same_numbers_and_as_many_that_are_trained(both, lesson):  # noqa: F811
    base, ours, theirs = both
    wanted = theirs(IDS, IDS)
    torch.testing.assert_close(ours(IDS, IDS), wanted, rtol=0, atol=1e-12)
    assert (wanted - base(IDS, IDS)).abs().max() > 0.1
    attentions = sum(isinstance(module, MultiHeadAttention) for module in base.modules())
    count, _ = theirs.get_nb_trainable_parameters()
    assert lesson["trained"](ours) == count == 2 * attentions * RANK * (16 + 16)


def test_the_same_gradients(both, lesson):  # noqa: F811
    _, ours, theirs = both
    upstream = torch.randn(2, 10, 30, dtype=torch.double)
    for model in (ours, theirs):
        model(IDS, IDS).backward(upstream)
    layers, compared = dict(theirs.base_model.model.named_modules()), 0
    for name, layer in ours.named_modules():
        if isinstance(layer, lesson["LoRA"]):
            torch.testing.assert_close(layer.a.grad, layers[name].lora_A["default"].weight.grad)
            torch.testing.assert_close(layer.b.grad, layers[name].lora_B["default"].weight.grad)
            compared += 1
    assert compared == 10


@torch.no_grad()
def test_merged_it_is_the_same_and_of_no_higher_rank(both, lesson):  # noqa: F811
    base, ours, theirs = both
    merged = theirs.merge_and_unload()
    torch.testing.assert_close(merged(IDS, IDS), ours(IDS, IDS), rtol=0, atol=1e-12)
    for name, layer in ours.named_modules():
        if isinstance(layer, lesson["LoRA"]):
            weight = merged.get_submodule(name).weight
            torch.testing.assert_close(lesson["merged"](layer).weight, weight, rtol=0, atol=1e-14)
            assert torch.linalg.matrix_rank(weight - base.get_submodule(name).weight) == RANK


@torch.no_grad()
def test_in_half_precision_merging_loses_a_part_of_the_change(both, lesson):  # noqa: F811
    """What is lost is not nothing, and of the size of the rounding of the weights."""
    _, ours, _ = both
    layer, lost = ours.decoder.layers[0].cross_attention.value_proj, {}
    x = torch.randn(500, 16, dtype=torch.double)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        one = deepcopy(layer).to(dtype)
        change = layer(x) - layer.linear(x)
        lost[dtype] = ((lesson["merged"](one)(x.to(dtype)) - layer(x)).norm() / change.norm()).item()
    assert lost[torch.float64] < 1e-13 < lost[torch.float32] < 1e-5 < 1e-3 < lost[torch.bfloat16] < 0.5


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_a_prefix_of_peft_has_as_many_numbers_a_layer(lesson):  # noqa: F811
    transformers = pytest.importorskip("transformers")
    sizes = dict(vocab_size=40, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64)
    heads = dict(encoder_attention_heads=2, decoder_attention_heads=2, max_position_embeddings=32)
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **heads))
    tokens = dict(num_virtual_tokens=3, num_layers=2, token_dim=32, num_attention_heads=2)
    model = peft.get_peft_model(bart, peft.PrefixTuningConfig(task_type="SEQ_2_SEQ_LM", **tokens))
    prefixed = lesson["Prefixed"].of(MultiHeadAttention(32, 2), 3)
    trained, _ = model.get_nb_trainable_parameters()
    assert trained == 2 * lesson["trained"](prefixed) == 2 * 2 * 3 * 32
    assert isinstance(prefixed.prefix, nn.Parameter)
