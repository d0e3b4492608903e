"""Models that were trained before: the newsroom summarizer of seed 0 comes with the package."""

from copy import deepcopy
from pathlib import Path

from tfm_lib.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer
from tfm_lib.vocabulary import Vocabulary

SHIPPED = Path(__file__).with_name("newsroom.safetensors")


def newsroom_model() -> tuple[Transformer, Vocabulary]:
    """The shipped newsroom summarizer, ready to decode on the CPU, and its vocabulary.

    `make train TASK=newsroom SHIP=1` rebuilds it. Its weights are stored in half precision and computed with in full.
    """
    checkpoint = load_checkpoint(SHIPPED)
    return checkpoint.model.eval(), checkpoint.vocabulary


def ship(model: Transformer, vocabulary: Vocabulary, path: Path = SHIPPED) -> None:
    """Make this the model that comes with the package, in half precision."""
    save_checkpoint(path, deepcopy(model).half(), vocabulary)
