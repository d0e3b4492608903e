"""The course's JavaScript as notebooks and pages get it. What it computes is proven in test_browser_model.py."""

import re
from base64 import b64decode

import pytest

from tfm_lib.pretrained import SHIPPED
from tfm_lib.show.scripts import (
    CSS,
    DECLARED,
    MODEL,
    all_scripts,
    classic_script,
    module,
    scripts_of,
    weights_script,
    widget_module,
)


def test_files_become_one_module_or_one_script_that_keeps_all_names_but_one_to_itself(tmp_path):
    sources = {
        "a.js": "// A file.\nconst own = 1;\nfunction one() {\n  function inner() {}\n}\n",
        "b.js": "class Two {\n}\nfunction* three() {}\n",
    }
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    files, source = [tmp_path / name for name in sources], "\n".join(sources.values())
    assert module(files) == f"{source}\nexport {{ one, Two, three }};\n"
    wrapped = f'const course = (() => {{\n"use strict";\n{source}\nreturn {{ one, Two, three }};\n}})();\n'
    assert classic_script("course", files) == wrapped


def test_a_script_of_weights_holds_the_file():
    name, text = weights_script("newsroom", SHIPPED.read_bytes()).removesuffix('";\n').split(' = "')
    assert name == "var newsroom" and b64decode(text, validate=True) == SHIPPED.read_bytes()


def test_the_scripts_can_be_joined_and_ask_nobody():
    sources = {file.name: file.read_text(encoding="utf-8") for file in all_scripts()}
    assert {*(file.name for file in MODEL), "quiz.js"} <= sources.keys()
    names = [name for source in sources.values() for name in DECLARED.findall(source)]
    constants = [
        name for source in sources.values() for name in re.findall(r"^(?:const|let) (\w+)", source, re.MULTILINE)
    ]
    assert len(names + constants) == len({*names, *constants})
    for name, source in sources.items():
        source = source.replace("http://www.w3.org/", "")  # names of SVG and HTML, which nobody asks for
        found = re.findall(r"^(?:import|export)\b|\b(?:fetch|XMLHttpRequest|WebSocket|https?)\b|import\(", source, re.M)
        assert found == [], name


def test_a_widget_brings_the_scripts_that_it_needs_and_no_others():
    """That they are enough, `make test-browser` proves: there each control works with its own scripts alone."""
    names = {name: [file.stem for file in scripts_of(name)] for name in ("prefixControl", "lessonQuiz")}
    assert names["prefixControl"] == ["model", "decoding", "control", "mask_control", "pictures", "prefix_control"]
    assert "quiz" in names["lessonQuiz"] and not any(stem.endswith("_control") for stem in names["lessonQuiz"])
    assert len(widget_module("lessonQuiz")) < sum(file.stat().st_size for file in all_scripts()) / 3
    with pytest.raises(KeyError, match="nowhere"):
        widget_module("nowhere")


def test_every_rule_of_the_style_sheet_ends_before_the_next_begins():
    """A browser says nothing where a brace is missing, and all that follows is lost."""
    source, inside = re.sub(r"/\*.*?\*/", "", CSS.read_text(encoding="utf-8"), flags=re.DOTALL), []
    for head, brace in re.findall(r"([^{}]*)([{}])", source):
        if brace == "{":
            assert all(outer.startswith("@") for outer in inside), f"{head.strip()} begins within {inside[-1]}"
            inside.append(head.strip())
        else:
            assert inside, "a brace closes nothing"
            inside.pop()
    assert inside == []
