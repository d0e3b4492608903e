"""The sinusoids against their formula, and where positions end."""

from math import cos, sin

import pytest
import torch

from tfm_lib.positions import LearnedPositions, SinusoidalPositions, sinusoidal_table


def test_table_by_hand():
    table = sinusoidal_table(3, 4)
    expected = [[sin(p), cos(p), sin(p / 100), cos(p / 100)] for p in range(3)]
    assert torch.allclose(table, torch.tensor(expected))
    assert torch.allclose(sinusoidal_table(5, 2), torch.tensor([[sin(p), cos(p)] for p in range(5)]))


def test_with_an_endpoint_the_last_pair_turns_by_one_ten_thousandth():
    table = sinusoidal_table(3, 6, endpoint=True)
    expected = [[f(p / 100**i) for i in range(3) for f in (sin, cos)] for p in range(3)]
    assert torch.allclose(table, torch.tensor(expected))


def test_halves_are_the_same_columns_in_another_order():
    interleaved, halves = sinusoidal_table(7, 6), sinusoidal_table(7, 6, interleaved=False)
    assert torch.equal(halves, interleaved[:, [0, 2, 4, 1, 3, 5]])


def test_far_positions_are_as_exact_as_near_ones():
    position, pair, d_model = 4999, 3, 512
    angle = position * 10000 ** (-2 * pair / d_model)
    row = sinusoidal_table(5000, d_model)[position]
    assert abs(row[2 * pair].item() - sin(angle)) < 1e-6


@pytest.mark.parametrize("make", [SinusoidalPositions, LearnedPositions])
def test_positions_are_added_from_the_right_row(make):
    positions, x = make(6, max_length=10, offset=2), torch.randn(2, 3, 6)
    assert torch.equal(positions(x, past=4), x + positions.table[6:9])
    assert positions.table.shape == (12, 6) and positions(torch.zeros(1, 10, 6)).shape == (1, 10, 6)
    with pytest.raises(ValueError, match="11 positions.*only 10.*max_length=11"):
        positions(x, past=8)
    by_default = make(6)
    assert by_default.table.shape == (512, 6) and torch.equal(by_default(0 * x)[0], by_default.table[:3])


def test_learned_rows_start_about_as_long_as_one():
    table = LearnedPositions(64).table
    assert table.std().item() == pytest.approx(1 / 8, rel=0.05)
    assert abs(table.mean().item()) < 0.01


def test_a_width_without_whole_pairs_or_two_ends_is_refused_with_one_that_works():
    for d_model in (7, 0):
        with pytest.raises(ValueError, match=f"even, got {d_model}; use {d_model + 1}"):
            sinusoidal_table(4, d_model)
    with pytest.raises(ValueError, match="a first and a last pair, got d_model 2; use 4, or endpoint=False"):
        sinusoidal_table(4, 2, endpoint=True)


def test_the_fixed_table_moves_with_the_module_but_is_not_saved():
    positions = SinusoidalPositions(6)
    assert torch.equal(positions.table, sinusoidal_table(512, 6, interleaved=True))
    assert not positions.state_dict() and not list(positions.parameters())
    assert positions.to("meta").table.device.type == "meta"
    assert [name for name, _ in LearnedPositions(6).named_parameters()] == ["table"]
