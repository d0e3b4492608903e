"""Seven Transformers as strangers write them, and faults that were planted in them one at a time.

Each module has `build`, as `tfm checkup` wants it: the model, and a dict of its loss and its function that writes.
`faults.toml` has a list per module. What is of kind "healthy" there has no code: it looks odd, and is right.
"""

import tomllib
from pathlib import Path

from tests.checkup.sick_models import Plant

HERE = Path(__file__).parent
STYLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.py")) if path.stem != "__init__"}
IDS = {"vocab_size": 40, "pad_id": 0, "start_id": 1, "eos_id": 2, "time_limit": 10_000}
TWO = IDS | {"src_pad_id": 0, "pad_id": 1, "start_id": 2, "eos_id": 3}


def stranger(style: str, name: str = "", code: str = "", old: str = "", new: str = "") -> Plant:
    """The model of that module, with `old` replaced by `new`, or healthy."""
    return Plant(name or style, code, old, new, STYLES[style], TWO if style == "two_vocabularies" else IDS)


FAULTS = [
    stranger(style, fault["id"], fault.get("code", ""), fault["old"], fault["new"])
    for style, faults in tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8")).items()
    for fault in faults
]
