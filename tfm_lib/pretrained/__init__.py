"""Models that were trained before: those that ship, other people's in our class, and ours in other people's library."""

from tfm_lib.pretrained.exporting import export
from tfm_lib.pretrained.loading import Pretrained, from_pretrained
from tfm_lib.pretrained.newsroom import newsroom_model, ship

__all__ = ["Pretrained", "export", "from_pretrained", "newsroom_model", "ship"]
