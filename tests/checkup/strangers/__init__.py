"""Seven Transformers as strangers write them, and faults that were planted in them one at a time.

Each module has `build`, as `tfm checkup` wants it: the model, and a dict of its loss and its function that writes.
`faults.toml` has a list per module. What is of kind "healthy" there looks odd, and is right.
"""

import tomllib
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
FAULTS = [
    {"style": style, **fault}
    for style, faults in tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8")).items()
    for fault in faults
]
STYLES = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "__init__")


def planted(fault: dict[str, str]) -> ModuleType:
    """The module `fault["style"]` with `old` replaced by `new`; a fault of a style alone is the healthy module.

    Raises:
        ValueError: `old` does not occur exactly once in its source.
    """
    source = (HERE / f"{fault['style']}.py").read_text(encoding="utf-8")
    if "old" in fault:
        if (times := source.count(fault["old"])) != 1:
            raise ValueError(f"{fault['id']}: its old text occurs {times} times in {fault['style']}.py, not once")
        source = source.replace(fault["old"], fault["new"])
    module = ModuleType(fault.get("id", fault["style"]))
    exec(compile(source, f"{module.__name__}.py", "exec", dont_inherit=True), vars(module))
    return module
