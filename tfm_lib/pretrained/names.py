"""What transformers calls the parts and sizes of our Transformer: one table of names, one of sizes, three families."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tfm_lib.errors import CourseError
from tfm_lib.model import TransformerConfig

# Ours, theirs. A name of ours becomes theirs by replacing what stands on the left, from top to bottom.
NAMES = {
    "embedding.tokens": "embed_tokens",
    "embedding.positions.table": "embed_positions.weight",
    "embedding.norm": "layernorm_embedding",
    "around_self_attention.norm": "self_attn_layer_norm",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "query_proj": "q_proj",
    "key_proj": "k_proj",
    "value_proj": "v_proj",
    "output_proj": "out_proj",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "coder.norm": "coder.layer_norm",
    "output.weight": "lm_head.weight",
    "output.bias": "final_logits_bias",
}
SHARED = "model.shared.weight"  # their name of the table that source, target and output share
TABLES = {SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
SINUSOIDS = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}

# Sizes, ours and theirs: encoder and decoder have their own of some, which have to be equal.
SIZES = {
    "vocab_size": ("vocab_size",),
    "d_model": ("d_model",),
    "num_heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "d_ff": ("encoder_ffn_dim", "decoder_ffn_dim"),
    "num_encoder_layers": ("encoder_layers",),
    "num_decoder_layers": ("decoder_layers",),
    "dropout": ("dropout",),
    "max_length": ("max_position_embeddings",),
    "pad_id": ("pad_token_id",),
    "start_id": ("decoder_start_token_id",),
    "eos_id": ("eos_token_id",),
}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}  # theirs, ours

# In what else the families differ from the paper's model, as arguments of TransformerConfig.
FAMILIES: dict[str, dict[str, Any]] = {
    "bart": {"positions": "learned", "position_offset": 2, "embed_norm": True},
    "marian": {"interleaved": False},
    "pegasus": {"interleaved": False, "norm_first": True},
}
PAPER = {"tied": True, "position_offset": 0, "embed_norm": False, "norm_first": False, "endpoint": False}
ARCHITECTURES = {
    "bart": "BartForConditionalGeneration",
    "marian": "MarianMTModel",
    "pegasus": "PegasusForConditionalGeneration",
}
# Relatives that one might expect here: what each is, and the lesson that explains the difference.
OTHERS = {
    "t5": "T5ForConditionalGeneration, with relative positions and other norms: lesson 16",
    "mt5": "MT5ForConditionalGeneration, with relative positions and gated layers: lesson 16",
    "umt5": "UMT5ForConditionalGeneration, with relative positions in each layer: lesson 16",
    "longt5": "LongT5ForConditionalGeneration, with relative positions and local attention: lessons 15 and 16",
    "mbart": "MBartForConditionalGeneration, a BART with the norm first and a token for each language: lesson 12",
    "m2m_100": "M2M100ForConditionalGeneration (NLLB), with the norm first and a token for each language: lesson 12",
    "pegasus_x": "PegasusXForConditionalGeneration, whose attention is local in blocks: lesson 15",
    "bigbird_pegasus": "BigBirdPegasusForConditionalGeneration, whose attention is sparse: lesson 15",
    "led": "LEDForConditionalGeneration, a BART whose encoder looks through a window: lesson 15",
}
# Options of theirs that our Transformer does not have, and the only value that it can do with.
NEUTRAL = {"tie_word_embeddings": True, "share_encoder_decoder_embeddings": True}


def theirs(name: str) -> str:
    """What transformers calls the weight that our Transformer calls `name`."""
    for ours, other in NAMES.items():
        name = name.replace(ours, other)
    return f"model.{name}" if name.startswith(("encoder.", "decoder.")) else name


def our_config(their_config: Mapping[str, Any]) -> TransformerConfig:
    """The configuration that says in our words what a config.json says.

    Raises ValueError for another family of models, and for options that our Transformer doesn't have.
    """
    if (other := OTHERS.get(their_config.get("model_type", ""))) is not None:
        raise CourseError(f"a {other}; from_pretrained takes {', '.join(FAMILIES)}, and transformers this one")
    tables: dict[str, Mapping[str, Any]] = {"model_type": FAMILIES, "activation_function": ACTIVATIONS}
    for name, choices in tables.items():
        if their_config.get(name) not in choices:
            raise CourseError(f"{name} must be one of {', '.join(choices)}, got {their_config.get(name)!r}")
    for name, value in NEUTRAL.items():
        if (found := their_config.get(name, value)) != value:
            raise CourseError(f"{name} must be {value} in this Transformer, got {found}")
    options: dict[str, Any] = {
        "activation": ACTIVATIONS[their_config["activation_function"]],
        "embed_scale": None if their_config.get("scale_embedding") else 1.0,
        "logits_bias": True,
        **FAMILIES[their_config["model_type"]],
    }
    for ours, names in SIZES.items():
        sizes = {name: their_config.get(name) for name in names}
        if missing := [name for name, size in sizes.items() if size is None]:
            raise CourseError(f"the config has no {missing[0]}; take config.json from where the model was published")
        if len(set(map(str, sizes.values()))) > 1:
            raise CourseError(f"encoder and decoder must agree, got {sizes}")
        options[ours] = sizes[names[0]]
    try:
        return TransformerConfig(**options)
    except (ValueError, TypeError) as error:  # what the model itself refuses is theirs, and not a bug of ours
        raise CourseError(f"config.json: {error}") from error


def family_of(config: TransformerConfig) -> str:
    """The family in which a model of this configuration can be written. Raises ValueError where there is none.

    Whether sinusoids interleave doesn't matter, see `halves`.
    """
    family = "bart" if config.positions == "learned" else "pegasus" if config.norm_first else "marian"
    wanted = PAPER | FAMILIES[family] | {"interleaved": config.interleaved}
    for name, value in wanted.items():
        if (found := getattr(config, name)) != value:
            nearest = f"with {config.positions} positions and norm_first={config.norm_first} it is {family}"
            fix = f"{name} must be {value}, got {found}; train a model with {name}={value}"
            raise CourseError(f"transformers has no such model: {nearest}, and {fix}")
    if config.embed_scale not in (None, 1.0):
        raise CourseError(f"transformers scales embeddings by 1 or by sqrt(d_model), not by {config.embed_scale}")
    return family


def their_config(config: TransformerConfig) -> dict[str, Any]:
    """The config.json of a model of this configuration. Raises ValueError as `family_of` does."""
    family = family_of(config)
    return {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "is_encoder_decoder": True,
        **{name: getattr(config, ours) for ours, names in SIZES.items() for name in names},
        "activation_function": config.activation,
        "scale_embedding": config.embed_scale is None,
        **dict.fromkeys(("attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop"), 0.0),
        "tie_word_embeddings": True,
        "bos_token_id": config.start_id,
        **dict.fromkeys(("forced_eos_token_id", "forced_bos_token_id")),
    }


def halves(d_model: int) -> Tensor:
    """The order of the residual stream in which interleaved sinusoids stand in halves: all sines, then all cosines."""
    return torch.arange(d_model).view(-1, 2).T.flatten()  # 0, 2, 4, ..., 1, 3, 5, ...


READS = ("tokens.weight", "table", "query_proj.weight", "key_proj.weight", "value_proj.weight", "expand.weight")
WRITES = ("output_proj.weight", "output_proj.bias", "contract.weight", "contract.bias", "norm.weight", "norm.bias")


def reordered(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """A Transformer's weights, with the entries of the residual stream in another order; it computes the same.

    Weights that read the stream have it along their last axis, those that write it along their first one; the others
    only meet the width of a head or of a hidden layer. `order.argsort()` undoes it.
    """
    read = {name: weight[..., order] for name, weight in weights.items() if name.endswith((*READS, "output.weight"))}
    written = {name: weight[order] for name, weight in weights.items() if name.endswith(WRITES)}
    return {**weights, **written, **read}
