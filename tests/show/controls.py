"""The controls in a page of their own, as a browser test opens them, and a reader's hands on them."""

import json
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import torch

from tfm_lib.ask.quiz import filled_in
from tfm_lib.data.newsroom import make_newsroom
from tfm_lib.pretrained import COPYING, SHIPPED, newsroom_model
from tfm_lib.pretrained.pictures import SHIPPED as PICTURES
from tfm_lib.show.architecture_control import architecture_control
from tfm_lib.show.beam_control import beam_control
from tfm_lib.show.bits_control import bits_control
from tfm_lib.show.bottleneck_control import bottleneck_control
from tfm_lib.show.cache_control import cache_control
from tfm_lib.show.heads_control import heads_control
from tfm_lib.show.live import ON_PAGES, Live
from tfm_lib.show.machine import machine
from tfm_lib.show.mask_control import mask_control, prefix_control
from tfm_lib.show.picture_control import picture_control
from tfm_lib.show.scripts import CSS, classic_script, scripts_of, weights_script
from tfm_lib.show.sinusoid_control import sinusoid_control
from tfm_lib.show.softmax_controls import query_among_keys, softmax_temperature
from tfm_lib.show.steps_control import steps_control
from tfm_lib.show.summarizer_controls import attention_control, decoding_control
from tfm_lib.show.swap_attention import swap_attention
from tfm_lib.show.translator_control import NAME, page_file, translator_control
from tfm_lib.show.two_summarizers import two_summarizers

ROOT = Path(__file__).resolve().parents[2]
INNS = (
    "After a year of work, thirteen inns were ready in Dresden. Builder Bruno Ferrari handed over the keys on Monday."
)
WEIGHTS = {path.stem: path.read_bytes for path in (SHIPPED, COPYING, PICTURES)} | {NAME: cache(page_file)}
# Of a city that the vocabulary lacks.
TAMPA = "Boats brought fourteen tenants to dry ground in Tampa on Tuesday, said rescue leader Anna Weber."
MASKED = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
CONTROLS: dict[str, Callable[[], Live]] = {
    "machine": machine,
    "architecture_control": lambda: architecture_control(*newsroom_model()),
    "heads_control": lambda: heads_control(*newsroom_model()),
    "query_among_keys": query_among_keys,
    "sinusoid_control": sinusoid_control,
    "mask_control": lambda: mask_control(MASKED, ["heavy", "rain", "floods", "the", "bridge", "[pad]"]),
    "softmax_temperature": softmax_temperature,
    "attention_control": lambda: attention_control(*newsroom_model()),
    "decoding_control": lambda: decoding_control(*newsroom_model(), TAMPA, "flood displaces 14 residents in"),
    "two_summarizers": lambda: two_summarizers(newsroom_model(), newsroom_model(copying=True)),
    "beam_control": lambda: beam_control(*newsroom_model(), INNS),
    "cache_control": lambda: cache_control(*newsroom_model(), make_newsroom(0, train=1).test[0].article),
    "steps_control": steps_control,
    "bottleneck_control": bottleneck_control,
    "bits_control": bits_control,
    "prefix_control": prefix_control,
    "picture_control": picture_control,
    "picture_control, describing": lambda: picture_control(describes=True),
    "swap_attention": swap_attention,
    "translator_control": translator_control,
}
LAPTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
TURNS = 4  # of each knob
# All that Tab reaches in the control (of a choice only what is chosen), and what can be said of it.
REACH = """root => [...root.querySelectorAll("input, select, textarea, button, [tabindex]")]
    .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && (e.type !== "radio" || e.checked))
    .map((e, number) => { e.dataset.knob = number; return number; })"""
CALLED = "e => e.ariaLabel || e.getAttribute('aria-label') || e.closest('label')?.innerText || e.innerText || e.name"
# What a slider says to a screen reader, and the words beside it; other knobs have neither.
SAID = """e => e.type !== "range" ? ["", ""]
    : [e.getAttribute("aria-valuetext"), e.parentElement.querySelector(".tfm-said").textContent]"""
STATE = "root => JSON.stringify([root.shown, root.querySelector('.tfm-words').textContent])"
# How long the page is busy with a turn, its new layout included.
TIMED = """(knob, [kind, key]) => {
    const root = knob.closest(".tfm-control"), about = {bubbles: true}, tell = kind => new Event(kind, about);
    const turns = {
        range() {
            knob.stepUp(knob.value === knob.max ? -1 : 1);
            knob.dispatchEvent(tell("input"));
        },
        select() {
            knob.selectedIndex = (knob.selectedIndex + 1) % knob.length;
            knob.dispatchEvent(tell("change"));
        },
        press: () => knob.dispatchEvent(new MouseEvent("click", about)),
        key: () => knob.dispatchEvent(new KeyboardEvent("keydown", {key, ...about})),
    }, begin = performance.now();
    turns[kind]();
    root.getBoundingClientRect();
    return performance.now() - begin;
}"""


def write_page(folder: Path, live: Live) -> Path:
    """A page with one control, in a folder, with classic scripts alone: those that a notebook gets with it."""
    about = filled_in(live.data[ON_PAGES])
    sources = {"tfm": classic_script("tfm", scripts_of(about["name"]))}
    sources |= {name: weights_script(name, WEIGHTS[name]()) for name in about["weights"]}
    sources["controls"] = (ROOT / "docs/_static/controls.js").read_text(encoding="utf-8")
    for name, text in sources.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    (folder / "control.css").write_bytes(CSS.read_bytes())
    data = json.dumps(about).replace("<", "\\u003c")
    page = folder / "page.html"
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(about["name"])}</title>'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="control.css">'
        '<script src="tfm.js"></script><script src="controls.js"></script>'
        '<body data-theme="auto" style="color: light-dark(#000, #fff); background: light-dark(#fff, #171b20)">'
        "<main><h1>Control</h1>"
        f'<div class="tfm-control" id="one"><script type="application/json">{data}</script></div></main>',
        encoding="utf-8",
    )
    return page


def turn(root: Any, knob: Any) -> None:
    """Turn it by keyboard, whatever it is."""
    keyboard, kind = root.page.keyboard, knob.evaluate("e => e.type || e.tagName.toLowerCase()")
    knob.focus()
    if kind == "range":
        at_end = knob.evaluate("e => e.value === e.max")
        keyboard.press("ArrowLeft" if at_end else "ArrowRight")
    elif kind == "checkbox":
        keyboard.press("Space")
    elif kind == "radio":
        keyboard.press("ArrowDown" if knob.is_checked() else "Space")
    elif kind == "select-one":
        at_end = knob.evaluate("e => e.selectedIndex === e.length - 1")
        keyboard.press("ArrowUp" if at_end else "ArrowDown")
    elif kind in ("textarea", "text"):
        keyboard.press("ControlOrMeta+End")
        keyboard.type(" x")
    elif knob.get_attribute("role") == "slider":
        at_end = knob.get_attribute("aria-valuenow") == knob.get_attribute("aria-valuemax")
        keyboard.press("ArrowLeft" if at_end else "ArrowRight")
    else:
        keyboard.press("Enter")


def turn_every_knob(root: Any) -> dict[str, list[float]]:
    """Turn each knob a few times by keyboard: each must change what is shown. Milliseconds by knob."""
    waited: dict[str, list[float]] = {}
    for number in root.evaluate(REACH):
        knob = root.locator(f"[data-knob='{number}']")
        if not knob.count() or knob.is_disabled():  # what another knob has taken away
            continue
        name = " ".join((knob.evaluate(CALLED) or "").split())[:40]
        assert name, f"without a name: {knob.evaluate('e => e.outerHTML')[:200]}"
        changed = knob.get_attribute("aria-pressed") == "true"  # a word that is chosen stays so
        for _ in range(TURNS):
            if not knob.count() or knob.is_disabled():
                break
            before = root.evaluate(STATE)
            turn(root, knob)
            changed += root.evaluate(STATE) != before
            heard, seen = knob.evaluate(SAID)
            assert heard == seen, f"{name} says {heard} to a screen reader, and {seen} to the eye"
        assert changed, f"{name} changes nothing"
        waited[name] = answer_times(knob) if knob.count() and not knob.is_disabled() else []
    assert waited, "no knob"
    return {name: times for name, times in waited.items() if times}


def answer_times(knob: Any) -> list[float]:
    """How long the page takes to answer a few turns of a knob."""
    kind = knob.evaluate("e => e.type || e.tagName.toLowerCase()")
    how = {"range": "range", "select-one": "select", "textarea": "", "text": ""}.get(kind, "press")
    if knob.get_attribute("role") == "slider":
        how = "key"
    return [knob.evaluate(TIMED, [how, "ArrowRight" if n % 2 else "ArrowLeft"]) for n in range(5)] if how else []
