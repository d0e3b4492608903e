"""A head start: what a text shows by counting alone need not be learned from nothing."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tfm_lib.attention import MultiHeadAttention
from tfm_lib.model import Transformer
from tfm_lib.writing.copying import Pointer

WINDOW = 5  # tokens on either side that count as neighbors
CONTEXTS = 4000  # the most frequent tokens, beside which all are counted


def word_vectors(texts: Sequence[Sequence[int]], vocab_size: int, size: int, seed: int = 0) -> Tensor:
    """Vectors of tokens by what stands near them: ids of texts -> (V, D), each of length 1, or 0 for the unknown.

    Counted is how often two tokens are neighbors, the nearer the more; positive pointwise mutual information says how
    much more often than by chance; the D directions that explain most of it are the vectors. Tokens without neighbors,
    or seen with them no more often than by chance, are unknown. More dimensions than the counts have are 0.
    Source: Levy et al. 2015, "Improving Distributional Similarity with Lessons Learned from Word Embeddings".
    """
    apart = [-1] * WINDOW  # nothing is a neighbor across two texts
    ids = torch.tensor([i for text in texts for i in [*text, *apart]], dtype=torch.int64)
    frequent = ids[ids >= 0].bincount(minlength=vocab_size).argsort(descending=True, stable=True)[:CONTEXTS]
    column = torch.full((vocab_size + 1,), -1)  # its last row is that of -1
    column[frequent] = torch.arange(len(frequent))
    context = column[ids]
    counts = torch.zeros(vocab_size * len(frequent))
    for distance in range(1, WINDOW + 1):
        for word, near in ((ids[:-distance], context[distance:]), (ids[distance:], context[:-distance])):
            pairs = (word * len(frequent) + near)[(word >= 0) & (near >= 0)]
            counts.index_add_(0, pairs, torch.full(pairs.shape, 1 / distance))
    counts = counts.view(vocab_size, -1)  # (V, contexts)
    chance = counts.sum(0) ** 0.75  # rare contexts would otherwise seem to say most
    expected = counts.sum(1, keepdim=True) * (chance / chance.sum())
    # In place, since a table of 16,000 tokens has 256 MB; pairs that never meet are -inf, or 0 / 0, and count as 0.
    information = counts.div_(expected).log_().nan_to_num_(neginf=0.0).clamp_(min=0)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        directions, strength, _ = torch.svd_lowrank(information, q=min(size + 10, *information.shape), niter=3)
    vectors, known = directions[:, :size] * strength[:size].sqrt(), information.any(1)
    vectors = torch.where(known[:, None], vectors - vectors[known].mean(0), 0.0)
    return F.normalize(F.pad(vectors, (0, size - vectors.shape[1])), dim=-1)


@torch.no_grad()
def begin_with(model: Transformer, vectors: Tensor) -> None:
    """Let the embeddings begin as these vectors (V, D), and attention as likeness: what is alike attends to each other.

    A token whose vector is 0 keeps what it has by chance. Key projections begin equal to query projections, so that a
    score is that of two vectors in one space.
    """
    for part in (model.encoder.embedding.tokens, model.decoder.embedding.tokens, model.output):  # or one, if tied
        part.weight.copy_(torch.where(vectors.any(1, keepdim=True), vectors.to(part.weight), part.weight))
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | Pointer):
            module.key_proj.weight.copy_(module.query_proj.weight)
