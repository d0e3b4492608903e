"""Four bits a weight: by hand, there and back, as small as the formula says, and refused where they can't be."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from tests.learning.test_training import VOCABULARY, small_model
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.learning.checkpoints import State, save_checkpoint
from tfm_lib.learning.packed import GROUP, pack, unpack, unpack_all
from tfm_lib.learning.recipes import Recipe
from tfm_lib.learning.training import History
from tfm_lib.pretrained import SHIPPED, newsroom_model
from tfm_lib.pretrained.summarizer import Summarizer
from tfm_lib.writing.scoring import exact_match


def test_two_neighbors_share_a_byte_by_hand():
    weight = torch.zeros(1, GROUP)
    weight[0, :4] = torch.tensor([7.0, -7.0, 3.4, -0.6])  # the step is 1
    packed, steps = pack(weight)
    assert steps.tolist() == [[1.0]] and packed.shape == (1, GROUP // 2)
    assert [f"{byte:08b}" for byte in packed[0, :3].tolist()] == ["00011111", "01111011", "10001000"]
    assert unpack(packed, steps)[0, :5].tolist() == [7.0, -7.0, 3.0, -1.0, 0.0]


@given(
    rows=st.integers(1, 5),
    groups=st.integers(1, 4),
    seed=st.integers(0, 999),
    scale=st.sampled_from([1e-6, 1e-3, 1.0, 4e4]),  # beyond 11 deviations a step would be too large
)
def test_each_weight_goes_to_the_nearest_multiple_which_is_half_a_step_away_at_most(
    rows: int, groups: int, seed: int, scale: float
):
    weight = scale * torch.randn(rows, GROUP * groups, generator=torch.Generator().manual_seed(seed))
    packed, steps = pack(weight)
    moved = (unpack(packed, steps) - weight).abs().unflatten(1, (-1, GROUP))  # (N, groups, 32)
    multiples = torch.arange(-7, 8) * steps.float()[..., None, None]  # of the step that is stored: (N, groups, 1, 15)
    nearest = (weight.unflatten(1, (-1, GROUP))[..., None] - multiples).abs().amin(-1)
    assert torch.allclose(moved, nearest, rtol=1e-5, atol=0), "another multiple of the stored step is nearer"
    # A step is rounded to half precision, so that the largest weight of a group may lie beyond seven of them.
    slack = steps.float() * (0.5 + 7 * 2**-10) + 7 * 2**-25
    assert (moved <= slack[..., None]).all()


def test_a_group_of_zeros_and_a_constant_one_come_back():
    weight = torch.cat([torch.zeros(1, GROUP), torch.full((1, GROUP), -3.5)])
    assert torch.equal(unpack(*pack(weight)), weight)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.zeros(GROUP), "only matrices"),
        (torch.zeros(2, GROUP + 2), f"multiple of {GROUP} long"),
        (torch.zeros(2, GROUP, dtype=torch.long), "torch.int64"),
        (torch.full((1, GROUP), torch.nan), "look for NaN"),
        (torch.full((1, GROUP), 1e6), "scale them to at most 458,528"),
    ],
)
def test_what_cannot_be_packed_is_said(weight: Tensor, message: str):
    with pytest.raises(ValueError, match=message):
        pack(weight)


def test_the_shipped_summarizer_in_four_bits_is_as_small_as_the_formula_and_as_good(tmp_path):
    model, vocabulary = newsroom_model()
    path = tmp_path / "four_bits.safetensors"
    save_checkpoint(path, model, vocabulary, four_bits=True)
    sizes = [(p.numel(), p.dim() == 2) for p in model.parameters()]
    matrices = sum(count for count, matrix in sizes if matrix)
    vectors = sum(count for count, matrix in sizes if not matrix)
    content = sum(tensor.numel() * tensor.element_size() for tensor in load_file(path).values())
    assert content == matrices // 2 + 2 * (matrices // GROUP) + 2 * vectors
    assert path.stat().st_size < 0.32 * SHIPPED.stat().st_size

    light = Summarizer.load(path)
    assert all(p.dtype == torch.float32 for p in light.model.parameters())
    assert light.model.output.weight is light.model.encoder.embedding.tokens.weight, "what is tied stays tied"
    stories = make_newsroom(0, train=1).test[:100]
    summaries = [found[0].text for found in light.candidates([story.article for story in stories])]
    assert exact_match(summaries, [story.summary for story in stories]) >= 0.95


def test_a_run_that_goes_on_is_not_packed(tmp_path):
    state = State(Recipe(steps=1), History(), "", {})
    with pytest.raises(ValueError, match=r"leave its state out, or four_bits=True"):
        save_checkpoint(tmp_path / "a.safetensors", small_model(), VOCABULARY, state, four_bits=True)


def test_a_tensor_that_is_only_called_step_is_left_alone():
    alone = {"clock.step": torch.ones(2)}
    assert unpack_all(alone) == alone
