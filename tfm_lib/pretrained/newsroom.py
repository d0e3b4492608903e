"""The two newsroom summarizers that come with the package, a plain one and one that copies."""

from copy import deepcopy
from pathlib import Path

from tfm_lib.data.vocabulary import Vocabulary
from tfm_lib.learning.checkpoints import load_checkpoint, save_checkpoint
from tfm_lib.model import Transformer
from tfm_lib.writing.copying import CopyingTransformer

SHIPPED = Path(__file__).with_name("newsroom.safetensors")
COPYING = Path(__file__).with_name("newsroom_copying.safetensors")


def newsroom_model(*, copying: bool = False) -> tuple[Transformer, Vocabulary]:
    """The shipped newsroom summarizer of seed 0, or the copying summarizer, ready to decode on the CPU; its vocabulary.

    `make train TASK=newsroom SHIP=1`, with COPY=1 for the copying one, rebuilds it. The weights are stored in half
    precision and computed with in full.
    """
    checkpoint = load_checkpoint(COPYING if copying else SHIPPED)
    return checkpoint.model.eval(), checkpoint.vocabulary


def ship(model: Transformer, vocabulary: Vocabulary) -> Path:
    """Make this the model that comes with the package, in half precision; returns its file."""
    path = COPYING if isinstance(model, CopyingTransformer) else SHIPPED
    save_checkpoint(path, deepcopy(model).half(), vocabulary)
    return path
