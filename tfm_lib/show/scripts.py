"""The course's JavaScript, one source for two places: a module for notebooks, classic scripts for pages.

The files of `js/` are plain scripts. Each uses what those before it declare, and none imports or exports: that is added
here, since a page that is opened from a folder can load neither modules nor weights in any other way.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

JS = Path(__file__).with_name("js")
MODEL = (JS / "model.js", JS / "decoding.js")
CSS = JS / "control.css"
DECLARED = re.compile(r"^(?:async )?(?:function\*?|class) (\w+)", re.MULTILINE)


def module(files: Sequence[Path]) -> str:
    """The files as one module, which exports every function and class that they declare."""
    source = _joined(files)
    return f"{source}\nexport {{ {_declared(source)} }};\n"


def all_scripts() -> tuple[Path, ...]:
    """The model, what controls are made of, and the controls and the quiz."""
    base = (*MODEL, JS / "control.js")
    others = {*JS.glob("*.js"), *JS.parents[1].glob("ask/js/*.js")} - {*base}
    return (*base, *sorted(others))


def widget_module() -> str:
    """All of it as the module that anywidget loads."""
    source = module(all_scripts())
    return f"{source}export default inNotebook({{ {_declared(source)} }});\n"


def classic_script(name: str, files: Sequence[Path]) -> str:
    """The files as one classic script: its functions and classes are properties of the constant `name`."""
    source = _joined(files)
    return f'const {name} = (() => {{\n"use strict";\n{source}\nreturn {{ {_declared(source)} }};\n}})();\n'


def weights_script(name: str, checkpoint: Path) -> str:
    """A checkpoint as a classic script: `globalThis[name]` holds the bytes of the file in base64."""
    return f'var {name} = "{b64encode(checkpoint.read_bytes()).decode()}";\n'


def _joined(files: Sequence[Path]) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def _declared(source: str) -> str:
    return ", ".join(DECLARED.findall(source))
