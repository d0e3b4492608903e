"""The course's JavaScript, one source for two places: a module for notebooks, classic scripts for pages.

The files of `js/` are plain scripts. Each uses what those before it declare, and none imports or exports: that is added
here, since a page that is opened from a folder can load neither modules nor weights in any other way.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path

JS = Path(__file__).with_name("js")
MODEL = (JS / "model.js", JS / "decoding.js")
CSS = JS / "control.css"
SENTENCES = JS / "words.json"  # what controls and their stored pictures say, by name
TOP_LEVEL = re.compile(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"(?m)^ *(?://.*|/\*.*?\*/|\*.*)$")
DECLARED = re.compile(r"^(?:async )?(?:function\*?|class) (\w+)", re.MULTILINE)


def module(files: Sequence[Path]) -> str:
    """The files as one module, which exports every function and class that they declare."""
    source = _joined(files)
    return f"{source}\nexport {{ {_declared(source)} }};\n"


def all_scripts() -> tuple[Path, ...]:
    """The model, what controls are made of, and the controls and the quiz."""
    base = (*MODEL, JS / "control.js")
    controls = {*JS.glob("*.js"), *JS.parents[1].glob("ask/js/*.js")} - {*base}
    return (*base, *sorted(controls))


def scripts_of(function: str) -> tuple[Path, ...]:
    """What a function needs in a notebook: its file, and each that declares what a needed file names."""
    code = {file: COMMENT.sub("", file.read_text(encoding="utf-8")) for file in all_scripts()}
    home = {name: file for file, text in code.items() for name in TOP_LEVEL.findall(text)}
    needed, waiting = set[Path](), [home[function], home["inNotebook"]]
    while waiting:
        file = waiting.pop()
        if file not in needed:
            needed.add(file)
            waiting += [home[name] for name in home.keys() & {*re.findall(r"\w+", code[file])}]
    return tuple(file for file in code if file in needed)


@cache
def widget_module(function: str) -> str:
    """The module that anywidget loads for a control or the quiz."""
    source = module(scripts_of(function))
    return f"{source}export default inNotebook({{ {_declared(source)} }});\n"


def classic_script(name: str, files: Sequence[Path]) -> str:
    """The files as one classic script: its functions and classes are properties of the constant `name`."""
    source = _joined(files)
    return f'const {name} = (() => {{\n"use strict";\n{source}\nreturn {{ {_declared(source)} }};\n}})();\n'


def weights_script(name: str, checkpoint: bytes) -> str:
    """A checkpoint as a classic script: `globalThis[name]` holds its bytes in base64."""
    return f'var {name} = "{b64encode(checkpoint).decode()}";\n'


def _joined(files: Sequence[Path]) -> str:
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return f"const SENTENCES = {SENTENCES.read_text(encoding='utf-8')};\n{source}" if "SENTENCES" in source else source


def _declared(source: str) -> str:
    return ", ".join(DECLARED.findall(source))
