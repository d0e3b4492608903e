"""The planted strangers can be examined: each substitution applies once, builds and runs. No verdict is judged here."""

import pytest
import torch

from tests.checkup.strangers import FAULTS, STYLES, planted

IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 0, 0]])
# What torch says about its own default, (length, batch), in nn.Transformer.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


def test_there_are_60_faults_and_5_healthy_oddities_by_5_strangers():
    assert len({fault["id"] for fault in FAULTS}) == len(FAULTS) == 65
    assert sum(fault["kind"] == "healthy" for fault in FAULTS) == len(STYLES) == 5
    assert {fault["style"] for fault in FAULTS} == set(STYLES)


@pytest.mark.parametrize(
    "fault", [*({"style": style} for style in STYLES), *FAULTS], ids=lambda f: f.get("id", f["style"])
)
def test_it_builds_and_runs(fault):
    model, parts = planted(fault).build()
    out = model(IDS, IDS[:, :4])
    logits = getattr(out, "logits", out)
    assert logits.shape == (2, 4, 40)
    if "loss" in parts:
        loss = parts["loss"](logits, IDS[:, 1:])
        assert torch.as_tensor(loss[0] if isinstance(loss, tuple) else loss).shape == ()
    else:
        assert model(IDS, labels=IDS).loss.shape == ()


@pytest.mark.parametrize("old", ["no such text", "nn."])
def test_a_text_that_does_not_occur_exactly_once_is_an_error(old):
    with pytest.raises(ValueError, match="times in einsum.py, not once"):
        planted({"id": "x", "style": "einsum", "old": old, "new": ""})
