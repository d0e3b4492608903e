"""`export`: a run as a folder that transformers opens, with a model card."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from tfm_lib.commands.options import USUAL, Fields, Seed, expanded, names
from tfm_lib.errors import CourseError, option

if TYPE_CHECKING:  # torch loads only in the commands that need it
    from tfm_lib.learning.checkpoints import Checkpoint

Head = Annotated[Literal["0"] | None, Option(help="0: leave the head of a copying model out")]
Learned = Annotated[Literal["newsroom"] | None, Option(help="what a copying model learned, to score it without head")]


def export(
    model: Annotated[str | None, Option(help="as for write", show_default="the newest run")] = None,
    out: Annotated[Path | None, Option(parser=expanded, help="the folder", show_default="exported/NAME")] = None,
    head: Head = None,
    task: Learned = None,
    data: Annotated[Path | None, Option(parser=expanded, help="or the file that it learned from")] = None,
    fields: Fields = None,
    seed: Seed = 0,
) -> None:
    """A trained model as a folder for transformers."""
    if head is None and (task, data, fields) != (None, None, None):
        measures = (
            f"{option('task', 'newsroom')} and {option('data', 'FILE')} say what to measure a model on that loses"
        )
        raise CourseError(f"{measures} its head: add {option('head', 0)}, or leave them out")
    from tfm_lib import pretrained
    from tfm_lib.learning.checkpoints import load_checkpoint
    from tfm_lib.lessons import course_file
    from tfm_lib.pretrained.summarizer import SHIP, find_checkpoint, results_of

    path = find_checkpoint(model)
    checkpoint, remark, scores = load_checkpoint(path), "", results_of(path)
    longest = scores.get("length", checkpoint.model.config.max_length - 1)
    settings = {"fields": names(fields, scores.get("fields", USUAL)), "length": scores.get("length")}
    name = next((name for name, file in SHIP.items() if file == path), path.parent.name)
    if head == "0":
        checkpoint, remark = _without_head(checkpoint, name, task, data, seed, settings)
        name, scores = f"{name}-without-head", {}
        print(remark)
    elif path == pretrained.SHIPPED:
        shipped = course_file("benchmarks/training_on_toy_summaries/newsroom.json")
        scores = json.loads(shipped.read_text(encoding="utf-8"))["runs"][0]["test_sets"]
    folder, (trained, vocabulary, state, rules) = out or Path("exported") / name, checkpoint
    generation = pretrained.Generation(max_new_tokens=longest, rules=rules)
    card = pretrained.card(name, str(folder), trained, vocabulary, state, scores, remark)
    pretrained.export(trained, vocabulary, folder, generation=generation, card=card)
    print(f"{folder} opens in transformers: its README.md says how")


def _without_head(
    checkpoint: "Checkpoint", name: str, task: str | None, data: Path | None, seed: int, own: dict[str, Any]
) -> "tuple[Checkpoint, str]":
    """What is left of a model that copies, and in words what that costs."""
    from tfm_lib import pretrained
    from tfm_lib.commands import results, tasks
    from tfm_lib.writing.copying import CopyingTransformer

    model, vocabulary, _, rules = checkpoint
    if not isinstance(model, CopyingTransformer):
        raise CourseError(f"{name} does not copy, so it has no head to leave out; drop {option('head', 0)}")
    if task is None and data is None:
        raise CourseError(
            f"what {option('head', 0)} costs is measured on the development set: say which pairs it learned from, "
            f"by {option('data', 'FILE')} or {option('task', 'newsroom')}"
        )
    learned = tasks.choose(task, data, seed, copying=True, **own)
    rest = pretrained.without_head(model, vocabulary)
    scores = [100 * results.development_score(learned, *both, rules) for both in (rest, (model, vocabulary))]
    return checkpoint._replace(model=rest[0], vocabulary=rest[1]), (
        "It was trained with a head that copies, which is left out here. ROUGE-L on the development set, in "
        "percent: {:.1f}, with the head {:.1f}.".format(*scores)
    )
