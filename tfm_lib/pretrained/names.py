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
ARCHITECTURES = {
    "bart": "BartForConditionalGeneration",
    "marian": "MarianMTModel",
    "pegasus": "PegasusForConditionalGeneration",
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
    family = their_config.get("model_type")
    if family not in FAMILIES:
        raise CourseError(f"model_type must be one of {', '.join(FAMILIES)}, got {family!r}; others differ in more")
    for option, value in NEUTRAL.items():
        if (found := their_config.get(option, value)) != value:
            raise CourseError(f"{option} must be {value} in this Transformer, got {found}")
    sizes: dict[str, Any] = {}
    for ours, names in SIZES.items():
        missing = [name for name in names if their_config.get(name) is None]
        if missing:
            raise CourseError(f"the config has no {missing[0]}; take config.json from where the model was published")
        values = {name: their_config[name] for name in names}
        if len(set(map(str, values.values()))) > 1:
            raise CourseError(f"encoder and decoder must agree, got {values}")
        sizes[ours] = values[names[0]]
    activation = their_config.get("activation_function")
    if activation not in ACTIVATIONS:
        raise CourseError(f"activation_function must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    scale = None if their_config.get("scale_embedding") else 1.0
    try:
        return TransformerConfig(
            **sizes, activation=ACTIVATIONS[activation], embed_scale=scale, logits_bias=True, **FAMILIES[family]
        )
    except (ValueError, TypeError) as error:  # what the model itself refuses is theirs, and not a bug of ours
        raise CourseError(f"config.json: {error}") from error


def family_of(config: TransformerConfig) -> str:
    """The family that a model of this configuration can be written as.

    Sinusoids that interleave don't matter, see `halves`. Raises ValueError where there is none.
    """
    if not config.tied:
        raise CourseError("only a tied model can be exported, and this one has a table each; train it with tied=True")
    if config.positions == "learned":
        family = "bart"
        wanted = {"norm_first": False, "embed_norm": True, "position_offset": 2}
    else:
        family = "pegasus" if config.norm_first else "marian"
        wanted = {"embed_norm": False, "position_offset": 0}
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise CourseError(
                f"transformers has no such model: with {config.positions} positions and norm_first="
                f"{config.norm_first}, {name} must be {value}, got {getattr(config, name)}"
            )
    if config.embed_scale not in (None, 1.0):
        raise CourseError(f"transformers scales embeddings by 1 or by sqrt(d_model), not by {config.embed_scale}")
    return family


def their_config(config: TransformerConfig) -> dict[str, Any]:
    """The config.json of a model of this configuration. Raises ValueError as `family_of` does."""
    family = family_of(config)
    sizes = {name: getattr(config, ours) for ours, names in SIZES.items() for name in names}
    return {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "is_encoder_decoder": True,
        **sizes,
        "activation_function": config.activation,
        "scale_embedding": config.embed_scale is None,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": config.start_id,
        "forced_eos_token_id": None,
        "forced_bos_token_id": None,
    }


def halves(d_model: int) -> Tensor:
    """The order of the residual stream in which interleaved sinusoids stand in halves: all sines, then all cosines."""
    return torch.arange(d_model).view(-1, 2).T.flatten()  # 0, 2, 4, ..., 1, 3, 5, ...


def reordered(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """A Transformer's weights, with the entries of the residual stream in another order; it computes the same.

    What reads the stream has it along its last axis, what writes it along its first one. `order.argsort()` undoes it.
    """
    return {name: _along(name, weight, order) for name, weight in weights.items()}


READS = ("tokens.weight", "table", "query_proj.weight", "key_proj.weight", "value_proj.weight", "expand.weight")
WRITES = ("output_proj.weight", "output_proj.bias", "contract.weight", "contract.bias", "norm.weight", "norm.bias")


def _along(name: str, weight: Tensor, order: Tensor) -> Tensor:
    if name.endswith(READS) or name == "output.weight":
        return weight[..., order]
    return weight[order] if name.endswith(WRITES) else weight  # the others only meet a head's or a hidden layer's width
