"""Models that were trained before: those that ship, other people's in our class, and ours in other people's library."""

from tfm_lib.pretrained.card import card
from tfm_lib.pretrained.exporting import export, without_head
from tfm_lib.pretrained.generation import Generation
from tfm_lib.pretrained.loading import Pretrained, from_pretrained
from tfm_lib.pretrained.newsroom import COPYING, SHIPPED, newsroom_model, ship

__all__ = [
    "COPYING",
    "SHIPPED",
    "Generation",
    "Pretrained",
    "card",
    "export",
    "from_pretrained",
    "newsroom_model",
    "ship",
    "without_head",
]
