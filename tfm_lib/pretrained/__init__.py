"""Models that were trained before: those that ship, other people's in our class, and ours in other people's library."""

from tfm_lib.pretrained.exporting import card as card
from tfm_lib.pretrained.exporting import export as export
from tfm_lib.pretrained.exporting import without_head as without_head
from tfm_lib.pretrained.generation import Generation as Generation
from tfm_lib.pretrained.loading import Pretrained as Pretrained
from tfm_lib.pretrained.loading import from_pretrained as from_pretrained
from tfm_lib.pretrained.newsroom import COPYING as COPYING
from tfm_lib.pretrained.newsroom import SHIPPED as SHIPPED
from tfm_lib.pretrained.newsroom import newsroom_model as newsroom_model
from tfm_lib.pretrained.newsroom import ship as ship
