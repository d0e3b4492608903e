"""`export`: a run as a folder that transformers opens, with a model card."""

import argparse
from pathlib import Path

from tfm_lib.errors import CourseError, option


def export(args: argparse.Namespace) -> None:
    """Write a run as a folder that transformers opens, with a model card."""
    import json

    from tfm_lib import pretrained
    from tfm_lib.commands import results, tasks
    from tfm_lib.learning.checkpoints import load_checkpoint
    from tfm_lib.lessons import course_file
    from tfm_lib.pretrained.summarizer import SHIP, find_checkpoint
    from tfm_lib.writing.copying import CopyingTransformer

    path = find_checkpoint(args.model)
    model, vocabulary, state, rules = load_checkpoint(path)
    name = next((name for name, file in SHIP.items() if file == path), path.parent.name)
    scores, remark = path.with_name("scores.json"), ""
    if args.head == "0":
        if not isinstance(model, CopyingTransformer):
            raise CourseError(f"{name} does not copy, so it has no head to leave out; drop {option('head', 0)}")
        if args.task is None and args.data is None:
            raise CourseError(
                f"what {option('head', 0)} costs is measured on the development set: say which pairs it learned from, "
                f"by {option('data', 'FILE')} or {option('task', 'newsroom')}"
            )
        task = tasks.choose(args.task, args.data, args.seed, copying=True, fields=args.fields)
        whole = results.development_score(task, model, vocabulary, rules)
        model, vocabulary = pretrained.without_head(model, vocabulary)
        left = results.development_score(task, model, vocabulary, rules)
        remark = (
            f"It was trained with a head that copies, which is left out here. ROUGE-L on the development set, in "
            f"percent: {100 * left:.1f}, with the head {100 * whole:.1f}."
        )
        name += "-without-head"
        print(remark)
    folder = args.out or Path("exported") / name
    told = {}
    if args.head != "0" and path == pretrained.SHIPPED:
        told = json.loads(course_file("benchmarks/newsroom.json").read_text(encoding="utf-8"))["runs"][0]["test_sets"]
    elif args.head != "0" and scores.exists():
        told = json.loads(scores.read_text(encoding="utf-8"))
    generation = pretrained.Generation(max_new_tokens=model.config.max_length - 1, rules=rules)
    card = pretrained.card(name, str(folder), model, state, told, remark)
    pretrained.export(model, vocabulary, folder, generation=generation, card=card)
    print(f"{folder} opens in transformers: its README.md says how")
