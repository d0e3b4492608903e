"""Fine-tuning: a published model goes on with pairs of yours."""

from dataclasses import replace
from pathlib import Path

from tfm_lib.commands.tasks import Start, Task
from tfm_lib.data.pairs import stem
from tfm_lib.errors import CourseError
from tfm_lib.pretrained import from_pretrained
from tfm_lib.pretrained.firefox import FIREFOX

RATE = 0.05  # the highest learning rate, times the width of the model: 5e-5 for BART


def tuned(task: Task, name: str) -> Task:
    """The same pairs for a published model, or one that `export` wrote: its tokens, its lengths, and small steps.

    name: its folder, or its name on the hub. Raises ValueError and OSError as `from_pretrained` does.
    """
    if name.startswith(FIREFOX):
        raise CourseError(f"{name} only translates; models that go on with pairs are BART, Marian and Pegasus")
    published = from_pretrained(name)
    config, rules, vocabulary = published.model.config, published.generation.rules, published.tokenizer
    del published  # each run makes its own
    return replace(
        task,
        name=f"{stem(Path(name))}-on-{task.name}",
        vocabulary=lambda: vocabulary,
        max_article=config.max_length,
        max_summary=config.max_length - 1,
        start=Start({}, published=lambda: from_pretrained(name).model),
        recipe=replace(
            task.recipe,
            peak_rate=RATE / config.d_model,
            label_smoothing=0.1,
            max_tokens=max(task.recipe.max_tokens, 2 * config.max_length),  # at least one pair fits
        ),
        by_passes=False,
        # What the model asks of every text, whatever it is about; lengths and repetition are those of other texts.
        rules=tuple(
            replace(x, first=rules.first, banned=rules.banned, renormalized=rules.renormalized) for x in task.rules
        ),
    )
