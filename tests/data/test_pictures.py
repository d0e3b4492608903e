"""Lesson 18's pictures, eyes and gates: by hand, beside libraries, and as the lesson and its benchmark have them."""

import json
from statistics import fmean

import pytest
import torch
from torch import nn

from benchmarks.pictures_and_text import pictures as benchmark
from benchmarks.pictures_and_text import projected
from tests.lessons.same_code import assert_same
from tests.model.references import copy_attention
from tfm_lib.data.pictures import CAPTIONS, COLORS, SEEN, SHAPES, SIDE, SIZES, UNSEEN, Shape, draw, make_pictures
from tfm_lib.lessons import course_file
from tfm_lib.pretrained import pictures
from tfm_lib.pretrained.pictures import VisionTransformer, patches, pictures_config, pictures_model

CONFIG = pictures_config(benchmark.VOCABULARY)
RECORD = json.loads(course_file("benchmarks/pictures_and_text/pictures.json").read_text(encoding="utf-8"))
SHARED = {
    benchmark: ("TwoTowers", "contrastive_loss", "fit", "next_words"),
    pictures: ("patches", "VisionTransformer", "GatedCrossAttention", "Describer"),
}


@pytest.fixture(scope="module")
def shipped():
    return pictures_model()


def random(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("script", SHARED, ids=["benchmark", "package"])
def test_the_lesson_defines_what_was_trained_and_what_ships(script):
    assert_same("18_pictures_and_text", script, SHARED[script])


def test_held_out_captions_are_new_and_each_of_their_words_and_pairs_of_words_is_not():
    assert len(CAPTIONS) == 72 and {*SEEN} | {*UNSEEN} == {*CAPTIONS} and len(SEEN) + len(UNSEEN) == 72
    seen = [caption.split()[1:] for caption in SEEN]
    for caption in UNSEEN:
        size, color, shape = caption.split()[1:]
        for pair in ({size, color}, {size, shape}, {color, shape}):
            assert any(pair <= {*words} for words in seen), (caption, pair)
    # No size and color lacks more than one shape, so that none is told by the others.
    lacking = [caption.rsplit(" ", 1)[0] for caption in UNSEEN]
    assert len({*lacking}) == len(lacking)


def test_shapes_by_hand():
    square = draw(Shape("small", "red", "square", x=12, y=8))
    red = (square - torch.tensor(COLORS["red"])[:, None, None]).abs().amax(0) < 1e-6
    assert red.nonzero().min(0).values.tolist() == [5, 9] and red.nonzero().max(0).values.tolist() == [10, 14]
    assert red.sum() == 36 and (square.amin(0) == 1).sum() == SIDE**2 - 36
    rows = (draw(Shape("big", "blue", "triangle"))[0] < 0.5).sum(-1)
    assert rows.tolist() == sorted(rows.tolist()[:19]) + [0] * 5 and rows[5] == 0 and rows[6] == 2 and rows[18] == 14
    ring, circle = (draw(Shape("big", "gray", shape))[0] < 0.5 for shape in ("ring", "circle"))
    assert not ring[12, 12] and circle[12, 12] and (ring <= circle).all()


def test_no_two_shapes_are_alike_and_none_touches_the_edge():
    for size, radius in SIZES.items():
        drawn = [draw(Shape(size, "red", shape, radius, radius)) for shape in SHAPES]
        for one, shape in enumerate(SHAPES):
            assert (drawn[one][1] < 0.5).sum() > 10, shape
            for other in range(one):
                assert ((drawn[one] != drawn[other]).any(0)).sum() >= 8, (shape, SHAPES[other], size)
            centered = draw(Shape(size, "red", shape))  # in the middle: nothing of it is cut off at the edge
            assert (centered[1] < 0.5).sum() == (drawn[one][1] < 0.5).sum()


def test_pictures_repeat_with_their_seed_and_their_patches_are_those_of_unfold():
    some, other, again = (make_pictures(SEEN[:4], torch.Generator().manual_seed(seed)) for seed in (0, 1, 0))
    assert torch.equal(some, again) and not torch.equal(some, other)
    assert some.shape == (4, 3, SIDE, SIDE) and some.min() >= 0 and some.max() <= 1
    theirs = nn.functional.unfold(some, 6, stride=6).transpose(1, 2)  # (B, P, C * 36)
    assert torch.equal(patches(some), theirs)


def test_the_eye_is_torchvisions():
    Theirs = pytest.importorskip("torchvision.models").VisionTransformer

    ours = VisionTransformer(benchmark.TransformerConfig(**{**CONFIG.__dict__, "activation": "gelu"})).double().eval()
    theirs = Theirs(SIDE, 6, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=5).double().eval()
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5
    with torch.no_grad():
        theirs.conv_proj.weight.copy_(ours.project.weight.view(64, 3, 6, 6))
        theirs.conv_proj.bias.copy_(ours.project.bias)
        theirs.class_token.copy_(ours.first[None, None])
        theirs.encoder.pos_embedding.copy_(ours.places[None])
        theirs.encoder.ln.load_state_dict(ours.norm.state_dict())
        theirs.heads = nn.Identity()
        for layer, other in zip(ours.layers, theirs.encoder.layers, strict=True):
            copy_attention(layer.self_attention, other.self_attention)
            other.ln_1.load_state_dict(layer.around_self_attention.norm.state_dict())
            other.ln_2.load_state_dict(layer.around_feed_forward.norm.state_dict())
            other.mlp[0].load_state_dict(layer.feed_forward.expand.state_dict())
            other.mlp[3].load_state_dict(layer.feed_forward.contract.state_dict())
        some = random(3, 3, SIDE, SIDE).double()
        torch.testing.assert_close(ours(some)[:, 0], theirs(some), rtol=0, atol=1e-12)


def test_the_contrastive_loss_by_hand():
    one = torch.eye(2)
    other = torch.tensor([[0.8, 0.6], [0.28, 0.96]])
    logits = torch.tensor([[0.8, 0.28], [0.6, 0.96]])
    rows = -(logits.log_softmax(1)[0, 0] + logits.log_softmax(1)[1, 1]) / 2
    columns = -(logits.log_softmax(0)[0, 0] + logits.log_softmax(0)[1, 1]) / 2
    torch.testing.assert_close(benchmark.contrastive_loss(one, other, torch.tensor(0.0)), (rows + columns) / 2)
    guess = benchmark.contrastive_loss(torch.ones(8, 4) / 2, torch.ones(8, 4) / 2, torch.tensor(1.0))
    assert guess.item() == pytest.approx(2.0794415)  # ln 8, whatever the scale


def test_shut_gates_are_the_text_model_to_the_last_bit_and_open_gates_learn():
    torch.manual_seed(0)
    describer = benchmark.Describer(CONFIG)
    tokens, memory = benchmark.encode(SEEN[:3]), random(3, 17, 64)
    x = describer.text(tokens, benchmark.causal_mask(tokens.shape[1]))
    alone = x @ describer.text.embedding.tokens.weight.T
    assert torch.equal(describer(tokens, memory), alone)
    benchmark.next_words(describer(tokens, memory), tokens).backward()
    for look in describer.looks:
        assert look.gates.grad.abs().min() > 0  # a gate at zero has a gradient
        assert look.cross_attention.query_proj.weight.grad.abs().max() == 0  # what stands behind it has none yet
    with torch.no_grad():
        for look in describer.looks:
            look.gates.fill_(0.7)
        assert (describer(tokens, memory) - alone).abs().max() > 1e-3
        describer.turned = 0.0
        assert torch.equal(describer(tokens, memory), alone)


def test_what_ships_scores_as_its_record_says(shipped):
    model, vocabulary = shipped
    every = range(len(vocabulary))
    assert vocabulary.pieces(every) == benchmark.VOCABULARY.pieces(range(len(benchmark.VOCABULARY)))
    rows = {(row["name"], row.get("read")): row for row in RECORD["rows"] if row["seed"] == 0}
    scores = benchmark.described(model.describer, model.eye)
    for kind, wanted in ((kind, rows["both", "seen"][kind]) for kind in ("seen", "unseen")):
        for part, share in wanted.items():
            assert scores[kind][part] == pytest.approx(share, abs=0.011), (kind, part)  # in half precision
    with torch.no_grad():
        for kind, group in (("seen", SEEN), ("unseen", UNSEEN)):
            shown, right = benchmark.test_pictures(group)
            named = model.head(model.shape_eye(shown)[:, 0]).argmax(-1).tolist()
            share = fmean(SHAPES[i] == caption.split()[-1] for i, caption in zip(named, right, strict=True))
            assert share == pytest.approx(rows["shapes", None][kind], abs=0.011)


def test_the_record_is_the_summary_of_its_rows():
    assert benchmark.summary(RECORD["rows"]) == RECORD["summary"]
    assert {row["seed"] for row in RECORD["rows"]} == {*benchmark.SEEDS}


def test_projected_patches_come_before_the_words_and_gates_leave_the_text_model_as_it_was(shipped, monkeypatch):
    for name in ("READ_STEPS", "TESTED"):
        monkeypatch.setattr(benchmark, name, 1)
    text, tokens, memory = benchmark.Describer(CONFIG).text, benchmark.encode(SEEN[:3]), random(3, 17, 64)
    model, later = projected.Projected(text, CONFIG.d_model), tokens.clone()
    later[:, 3] += 1
    one, other, unseen = model(tokens, memory), model(later, memory), model(tokens, memory.roll(1, 0))
    torch.testing.assert_close(one[:, :3], other[:, :3])
    assert (one - unseen).abs().amax(-1).min() > 1e-4  # each word sees the picture
    record = json.loads(course_file("benchmarks/pictures_and_text/projected.json").read_text(encoding="utf-8"))
    for row in record["rows"]:
        assert (row["loss"]["after"] > row["loss"]["before"]) == row["name"].endswith("text"), row["name"]
    assert [(row["seed"], row["name"]) for row in record["rows"]] == [(s, w) for s in (0, 1, 2) for w in projected.WAYS]
    assert record["summary"] == projected.summarized(record["rows"])
    assert projected.run("projector, then text", 0, shipped[0].eye, steps=2).keys() == record["rows"][0].keys()


@pytest.mark.slow
def test_training_it_anew_gives_what_its_record_says():
    """The two towers, 300 steps: rounding moves them as far as another seed does."""
    rows = [r for r in RECORD["rows"] if (r["name"], r.get("steps")) == ("towers", benchmark.SHORT)]
    scores = benchmark.found(benchmark.meet(0, benchmark.SHORT))
    for kind in ("seen", "unseen"):
        of_seeds = [row[kind]["all"] for row in rows]
        assert min(of_seeds) - 0.05 <= scores[kind]["all"] <= max(of_seeds) + 0.05
