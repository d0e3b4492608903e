"""What the shipped summarizer still writes where one of its attentions is replaced, without training it again.

    OMP_NUM_THREADS=1 python -m benchmarks.cheaper_attention.swapped_attention

It takes some five CPU minutes, and writes swapped_attention.json, which lesson 15 draws and its control quotes.
"""

from collections.abc import Sequence
from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.turns import machine, write_record
from tfm_lib.data.batches import pad_rows
from tfm_lib.data.newsroom import Story, make_newsroom
from tfm_lib.pretrained import newsroom_model
from tfm_lib.show.replacements import PLACES, REPLACEMENTS, swapped
from tfm_lib.writing.decoding import greedy

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.cheaper_attention.swapped_attention"
DRAWS, STORIES = 3, 200  # of the test set, one after the other; a draw's number is the seed of its random features


class Batch:
    """Stories as the model reads them, and what it should write."""

    def __init__(self, stories: Sequence[Story]) -> None:
        self.model, vocabulary = newsroom_model()
        config = self.model.config
        self.src = pad_rows([vocabulary.encode(story.article) for story in stories], config.pad_id)  # (B, S)
        right = [[*vocabulary.encode(story.summary), config.eos_id] for story in stories]
        self.right = pad_rows(right, config.pad_id)  # (B, T)

    @torch.inference_mode()
    def shares(self) -> dict[str, float]:
        """Of headlines that are exact, written greedily; of words that come first where the right ones stand before."""
        pad, start = self.model.config.pad_id, self.model.config.start_id
        before = torch.cat([torch.full_like(self.right[:, :1], start), self.right[:, :-1]], dim=1)
        first, words = self.model(self.src, before).argmax(-1), self.right != pad
        written = greedy(self.model, self.src, self.right.shape[1])
        written = F.pad(written, (0, self.right.shape[1] - written.shape[1]), value=pad)
        return {
            "exact": _share((written == self.right).all(-1)),
            "tokens": _share((first == self.right)[words]),
        }


def _share(right: Tensor) -> float:
    return round(right.float().mean().item(), 4)


def measure(names: Sequence[str] = tuple(REPLACEMENTS), draws: int = DRAWS, stories: int = STORIES) -> dict:
    """Every size of these replacements wherever there are any, over so many draws of so many stories."""
    test = make_newsroom(0).test
    batches = [Batch(test[draw * stories : (draw + 1) * stories]) for draw in range(draws)]
    rows = []
    for place in PLACES:
        for name in names:
            replacement = REPLACEMENTS[name]
            for size in replacement.sizes if place in replacement.places else ():
                found = []
                for seed, batch in enumerate(batches):
                    with swapped(batch.model, place, name, size, seed):
                        found.append(batch.shares())
                rows.append({"place": place, "name": name, "size": size} | _spread(found))
                print(*rows[-1].values(), flush=True)
    return {
        "command": COMMAND,
        "machine": machine("torch"),
        "draws": draws,
        "stories": stories,
        "seeds": [*range(draws)],
        "rows": rows,
    }


def _spread(found: Sequence[dict[str, float]]) -> dict[str, dict]:
    """The mean of each share over the draws, its standard deviation, and the shares themselves."""
    rows = {}
    for measured in found[0]:
        shares = [one[measured] for one in found]
        rows[measured] = {"mean": round(fmean(shares), 4), "spread": round(stdev(shares), 4), "draws": shares}
    return rows


def main() -> None:
    torch.set_num_threads(1)
    write_record(__file__, measure(), "place")


if __name__ == "__main__":
    main()
