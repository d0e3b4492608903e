"""The exercises of lesson 13."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tfm_lib.ask.exercise import Draw, Inputs, exercise
from tfm_lib.checkup import checkup
from tfm_lib.practice.own_transformer import OwnTransformer
from tfm_lib.practice.patients import changed

Settings = dict[str, int]
ROWS, WORDS = 16, 6  # of the texts that a learner's model writes: few, as its seconds are counted
WORK = 5  # a milestone runs parts of the check-up, which takes most of three seconds on slow cores


def vocabulary(draw: Draw) -> Iterator[Inputs]:
    yield {"vocab_size": 24, "pad_id": 3, "start_id": 5, "eos_id": 4}


class Found(dict):
    """What comes of a model. The reference and the mistakes give it in the place of one, which would take seconds."""


def healthy(answer: Callable, parts: str, settings: Settings, *needed: str) -> dict[str, Any]:
    """What parts of the check-up find sick in the model that `answer` builds: their codes, none of them wanted."""
    torch.manual_seed(0)
    model = answer(**settings)
    if isinstance(model, Found):
        return model
    word = next(i for i in range(settings["vocab_size"]) if i not in list(settings.values())[1:])
    model(torch.tensor([[word, word]]), torch.tensor([[word]]))  # raises what is not written yet
    for name in needed:
        if not callable(getattr(model, name, None)):
            raise AttributeError(f"the model has no method {name}")
    given: dict[str, Any] = {**settings, **{name: getattr(model, name) for name in needed}}
    report = checkup(model, **given, parts=parts.split(), quick=True)
    if report.problem or report.not_tried:
        raise ValueError(report.problem or "; ".join(report.not_tried))
    return {"sick": sorted(finding.code for finding in report.findings if finding.severity == "sick")}


def sick_of(*codes: str, **more: str) -> Found:
    return Found({"sick": list(codes)} | more)


def first(answer: Callable, **settings: int) -> dict[str, Any]:
    return healthy(answer, "shapes", settings)


@exercise(
    difficulty=2,
    minutes=12,
    trains="ids in, logits out",
    right="The frame is there. From now on each new part shows in the logits.",
    cases=vocabulary,
    call=first,
    work=WORK,
)
def logits(**settings: int) -> Found:
    return sick_of()


@logits.mistake
def probabilities(**settings: int) -> Found:
    """Your model gives probabilities. The loss applies the softmax itself: return the logits."""
    return sick_of("output.probabilities")


@logits.mistake
def vectors(**settings: int) -> Found:
    """Your last axis has the width of the model; it lacks the projection from vectors to `vocab_size` logits."""
    return sick_of("shapes.not_vocab")


@logits.mistake
def dice(**settings: int) -> Found:
    """In eval mode your model is still random: use `nn.Dropout`, which `eval()` switches off."""
    return sick_of("dropout.eval")


def second(answer: Callable, **settings: int) -> dict[str, Any]:
    return healthy(answer, "shapes causality batch", settings)


@exercise(
    difficulty=3,
    minutes=25,
    trains="a decoder that sees its past and no more",
    right="All positions predict their next word at once, and none of them sees it.",
    cases=vocabulary,
    call=second,
    work=WORK,
)
def past(**settings: int) -> Found:
    return sick_of()


@past.mistake
def sees_itself_coming(**settings: int) -> Found:
    """Each position sees one word too many, the very next one: the diagonal is `tril(0)`."""
    return sick_of("causality.off_by_one")


@past.mistake
def no_mask(**settings: int) -> Found:
    """Your decoder sees the whole future: the causal mask is missing, or does not reach the softmax."""
    return sick_of("causality.leak")


@past.mistake
def upside_down(**settings: int) -> Found:
    """Your mask shows the future and hides the past: rows are queries, so the visible triangle is the lower one."""
    return sick_of("causality.inverted")


@past.mistake
def sees_one_word(**settings: int) -> Found:
    """A position uses its own word only. Does it look back, at all that comes before it?"""
    return sick_of("causality.blind")


@past.mistake
def heads_merged_across(**settings: int) -> Found:
    """Heads are split or merged by a bare view or reshape, and words mix: a `transpose(1, 2)` belongs between."""
    return sick_of("causality.axes")


def third(answer: Callable, **settings: int) -> dict[str, Any]:
    return healthy(answer, "shapes causality padding source positions", settings)


@exercise(
    difficulty=3,
    minutes=25,
    trains="an encoder and cross-attention",
    right="It reads the whole source, in its order, and no padding.",
    cases=vocabulary,
    call=third,
    work=WORK,
)
def reads(**settings: int) -> Found:
    return sick_of()


@reads.mistake
def source_ignored(**settings: int) -> Found:
    """Whatever the source says, the logits are the same: does the decoder attend to the output of the encoder?"""
    return sick_of("source.ignored")


@reads.mistake
def padding_seen(**settings: int) -> Found:
    """Padding changes what a text says: hide its keys, in the encoder and in cross-attention."""
    return sick_of("padding.source")


@reads.mistake
def words_hidden(**settings: int) -> Found:
    """Your mask hides the words and shows the padding: it should be the other way around."""
    return sick_of("padding.inverted")


@reads.mistake
def no_order(**settings: int) -> Found:
    """It cannot tell two orders of the same words apart: positions are missing on both sides."""
    return sick_of("positions.none", "positions.target_none")


def fourth(answer: Callable, **settings: int) -> dict[str, Any]:
    return healthy(answer, "shapes gradients loss", settings, "loss")


@exercise(
    difficulty=2,
    minutes=15,
    trains="a loss with its shift",
    right="It predicts the next token at each token, but not at padding, and every weight gets a gradient.",
    cases=vocabulary,
    call=fourth,
    work=WORK,
)
def learns(**settings: int) -> Found:
    return sick_of()


@learns.mistake
def no_shift(**settings: int) -> Found:
    """Each word is its own label: the decoder reads `tgt[:, :-1]`, and the labels are `tgt[:, 1:]`."""
    return sick_of("loss.no_shift")


@learns.mistake
def padding_counts(**settings: int) -> Found:
    """Your loss counts padding: `F.cross_entropy(..., ignore_index=pad_id)`."""
    return sick_of("loss.padding")


@learns.mistake
def end_left_out(**settings: int) -> Found:
    """Your loss leaves out the end token and counts padding: it should ignore `pad_id`."""
    return sick_of("loss.no_end", "loss.padding")


@learns.mistake
def cut_off(**settings: int) -> Found:
    """Some weights get no gradient: is there a `detach()`, a `no_grad`, or a part that is never used?"""
    return sick_of("gradients.unreached")


def fifth(answer: Callable, **settings: int) -> dict[str, Any]:
    found = healthy(answer, "shapes cache saving", settings, "generate")
    return found if isinstance(found, Found) else found | {"writes": how_it_writes(answer, settings)}


@torch.no_grad()
def how_it_writes(answer: Callable, settings: Settings) -> str:
    """Whether the texts of `generate` are those that the model's own logits give, or which wrong ones they are."""
    used = (settings["pad_id"], settings["start_id"])
    words = torch.tensor([i for i in range(settings["vocab_size"]) if i not in used])
    src = words[torch.randint(len(words), (ROWS, 4), generator=torch.Generator().manual_seed(1))]
    # An untrained model repeats itself. Of a few, take the one and the end token with which half of the texts end.
    best = (1.0, 0, settings["eos_id"])
    for seed in range(3):
        text = by_logits(shaken(answer, settings, seed), src, settings | {"eos_id": -1})
        shares = {word: (text == word).any(1).float().mean().item() for word in words.tolist()}
        best = min(best, *((abs(share - 0.5), seed, word) for word, share in shares.items()))
        if best[0] < 0.2:
            break
    settings = settings | {"eos_id": best[2]}
    model = shaken(answer, settings, best[1])
    written = model.generate(src, WORDS)  # type: ignore[operator]
    if not isinstance(written, Tensor) or written.dim() != 2 or len(written) != len(src):
        raise ValueError("generate(src, length) should give a tensor of ids, a row for each source")
    right = by_logits(model, src, settings)
    if torch.equal(written, right):
        return "as its logits say"
    if torch.equal(written, torch.cat([torch.full_like(src[:, :1], settings["start_id"]), right], 1)):
        return "start kept"
    wrong: dict[str, dict[str, Any]] = {
        "first place": {"place": 0}, "past the end": {"pads": False}, "until one ends": {"waits": False},
        "one word short": {"most": WORDS - 1},
    }  # fmt: skip
    found = (name for name, how in wrong.items() if torch.equal(written, by_logits(model, src, settings, **how)))
    return next(found, "something else")


def shaken(answer: Callable, settings: Settings, seed: int) -> nn.Module:
    """A model whose norms scale at random, so that it does not merely repeat its input."""
    torch.manual_seed(seed)
    model = answer(**settings).eval()
    for parameter in model.parameters():
        if bool((parameter == 1).all()):
            nn.init.normal_(parameter)
    return model


def by_logits(
    model: nn.Module,
    src: Tensor,
    settings: Settings,
    place: int = -1,
    pads: bool = True,
    waits: bool = True,
    most: int = WORDS,
) -> Tensor:
    """What greedy writing gives, a word at a time from the whole model; the options are what goes wrong in loops."""
    written, ended = torch.full_like(src[:, :1], settings["start_id"]), torch.zeros(len(src), dtype=torch.bool)
    while written.shape[1] <= most and not (ended.all() if waits else ended.any()):
        best = model(src, written)[:, place].argmax(-1)
        best = best.masked_fill(ended, settings["pad_id"]) if pads else best
        written, ended = torch.cat([written, best[:, None]], 1), ended | (best == settings["eos_id"])
    return written[:, 1:]


@exercise(
    difficulty=3,
    minutes=20,
    trains="greedy decoding",
    right="The model is whole: train it in section 5, with `MyModel` in place of ours.",
    cases=vocabulary,
    call=fifth,
    work=WORK,
)
def writes(**settings: int) -> Found:
    return sick_of(writes="as its logits say")


@writes.mistake
def first_place(**settings: int) -> Found:
    """You choose from the logits of the first position; those of the last one say what comes next."""
    return sick_of("generate.choice", writes="first place")


@writes.mistake
def start_kept(**settings: int) -> Found:
    """Your texts begin with the start token; they should contain only what the model wrote."""
    return sick_of(writes="start kept")


@writes.mistake
def past_the_end(**settings: int) -> Found:
    """A text that has ended goes on: after its end token there should be padding."""
    return sick_of(writes="past the end")


@writes.mistake
def ends_forgotten(**settings: int) -> Found:
    """All texts stop when one of them ends: the loop should end when `all` have ended."""
    return sick_of("generate.batch", writes="until one ends")


@writes.mistake
def one_word_short(**settings: int) -> Found:
    """Your texts are a word too short: `length` tokens may be written, and the start token does not count."""
    return sick_of(writes="one word short")


def models_to_ask(draw: Draw) -> Iterator[Inputs]:
    src, tgt = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 7, 8, 9, 10]])
    for fault in ("none", "future", "everything", "late", "dice"):
        yield {"fault": fault, "src": src, "tgt": tgt}


def box(fault: str) -> nn.Module:
    """A model with this fault of its causal mask, or none; `dice`: a healthy one, in training mode."""
    torch.manual_seed(0)
    masks = {"everything": ".fill_(True)", "future": ".tril(1)", "late": ".tril(3)"}
    kind = changed(((".tril()", masks[fault]),)) if fault in masks else OwnTransformer
    return kind(24, 0, 1, 2, d=32, dropout=0.5 if fault == "dice" else 0.0).train(fault == "dice")


def asked(answer: Callable, fault: str, src: Tensor, tgt: Tensor) -> bool:
    torch.manual_seed(0)
    came = answer(box(fault), src, tgt)
    return bool(came) if isinstance(came, Tensor) and came.dim() == 0 else came


@exercise(
    difficulty=3,
    minutes=12,
    trains="the leak test",
    right="Twenty lines of masks, and one question that finds out whether they are right.",
    cases=models_to_ask,
    call=asked,
)
def leaks(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    was = model.training
    model.eval()
    apart = largest_change(model, src, tgt, tgt.shape[1] - 1)
    model.train(was)
    return apart > 1e-5


@torch.no_grad()
def largest_change(model: nn.Module, src: Tensor, tgt: Tensor, upto: int) -> float:
    """How far the logits of the places before `upto` move at most when the last word is another one."""
    other = tgt.clone()
    other[:, -1] = 11
    return (model(src, tgt) - model(src, other))[:, :upto].abs().max().item()


@leaks.mistake
def the_word_itself(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    """You compare the changed position, too, which may see itself: compare those before it."""
    return largest_change(model.eval(), src, tgt, tgt.shape[1]) > 1e-5


@leaks.mistake
def with_dice(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    """You test the model in training mode, where dropout moves everything: `model.eval()` first."""
    return largest_change(model, src, tgt, tgt.shape[1] - 1) > 1e-5


@leaks.mistake
def first_place_alone(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    """You look at the first position alone, but a later one may see a word too many."""
    return largest_change(model.eval(), src, tgt, 1) > 1e-5


@leaks.mistake
def other_way_round(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    """Your answer is the wrong way around: a leak is where something moves."""
    return not leaks.reference(model, src, tgt)


@leaks.mistake
def always_well(model: nn.Module, src: Tensor, tgt: Tensor) -> bool:
    """You missed a leak: is the changed word really different? Which positions do you compare?"""
    return False


Diagnoses = dict[int, str]


@exercise(difficulty=2, minutes=8, trains="reading a report", right="A code, what was seen, and one line to look at.")
def with_report() -> Diagnoses:
    return {1: "decode", 2: "encode", 3: "decode", 4: "embed"}


@with_report.mistake
def masks_in_attention() -> Diagnoses:
    """The mask of patient 1 is made elsewhere: `attend` only uses the mask that it gets."""
    return {1: "attend", 2: "encode", 3: "decode", 4: "embed"}


@with_report.mistake
def padding_in_attention() -> Diagnoses:
    """The padding of patient 2 is told from words where the ids are still known."""
    return {1: "decode", 2: "attend", 3: "decode", 4: "embed"}


@with_report.mistake
def softmax_of_attention() -> Diagnoses:
    """The softmax of attention is right; patient 3 has one too many, after the last projection."""
    return {1: "decode", 2: "encode", 3: "attend", 4: "embed"}


@with_report.mistake
def dropout_of_layers() -> Diagnoses:
    """The dropout of the layers is switched off by `eval()`; patient 4 drops out where the embeddings are made."""
    return {1: "decode", 2: "encode", 3: "decode", 4: "Layer"}


@exercise(
    difficulty=4,
    minutes=25,
    trains="diagnosis without a report",
    right="You need no tool for it, but a tool asks all of these questions every time.",
)
def without_report() -> Diagnoses:
    return {5: "no positions", 6: "source ignored", 7: "shared layers", 8: "no shift"}


@without_report.mistake
def five_and_six() -> Diagnoses:
    """Look at 5 and 6 again. Another source moves the logits of one of them; another order of it moves neither."""
    return {5: "source ignored", 6: "no positions", 7: "shared layers", 8: "no shift"}


@without_report.mistake
def seven_and_eight() -> Diagnoses:
    """Look at 7 and 8 again. Count the parameters of one, and train the other for a few steps."""
    return {5: "no positions", 6: "source ignored", 7: "no shift", 8: "shared layers"}


@without_report.mistake
def a_leak_in_eight() -> Diagnoses:
    """The loss of patient 8 falls as if the answer were in the question, and yet no logit sees the future."""
    return {5: "no positions", 6: "source ignored", 7: "shared layers", 8: "future seen"}


@without_report.mistake
def padding_in_five() -> Diagnoses:
    """Patient 5 takes no notice of padding, as it should; ask it for two sources with the same words."""
    return {5: "padding seen", 6: "source ignored", 7: "shared layers", 8: "no shift"}


def states(draw: Draw) -> Iterator[Inputs]:
    torch.manual_seed(0)
    model = OwnTransformer(10, 0, 1, 2, d=8, heads=2, d_ff=12, layers=1)
    yield {"state": {name: tensor for name, tensor in model.state_dict().items() if name.startswith("encoder.0.it")}}
    yield {"state": {name: tensor for name, tensor in model.state_dict().items() if "norms" not in name}}


OURS = {
    "itself": "self_attention", "other": "cross_attention", "q": "query_proj", "k": "key_proj", "v": "value_proj",
    "o": "output_proj", "ff": "feed_forward", "0": "expand", "2": "contract",
}  # fmt: skip
TABLES = ("encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight", "output.weight")


def renamed(state: dict[str, Tensor], names: dict[str, str], tables: tuple[str, ...]) -> dict[str, Tensor]:
    """The tensors of a stack's layers and of the one table, under other names."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name == "words.weight":
            found |= dict.fromkeys(tables, tensor)
        elif name != "out.weight":
            side, number, *rest = name.split(".")
            found[".".join([side, "layers", number, *(names.get(part, part) for part in rest)])] = tensor
    return found


@exercise(
    difficulty=3,
    minutes=15,
    trains="weights under other names",
    right="With the norms it is whole, and then everything that reads our models reads yours.",
    cases=states,
)
def names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return renamed(state, OURS, TABLES)


@names.mistake
def table_once(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Your one table has three names there: both embeddings and the output."""
    return renamed(state, OURS, TABLES[:1])


@names.mistake
def layers_left_out(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Between the side and the number of the layer comes the word `layers`."""
    return {name.replace(".layers.", "."): tensor for name, tensor in renamed(state, OURS, TABLES).items()}


@names.mistake
def keys_and_queries(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Queries and keys have changed places."""
    return renamed(state, OURS | {"q": "key_proj", "k": "query_proj"}, TABLES)


@names.mistake
def network_kept(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of the feed-forward network the first map is `expand` and the second one `contract`."""
    return renamed(state, {name: other for name, other in OURS.items() if name not in "02"}, TABLES)
