"""A reader's hands on a control in the browser: every knob moves by keyboard, and picture and words must follow.

A knob is whatever the Tab key reaches. One of a kind that no hand here knows is an error, so that none is forgotten.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from playwright.sync_api import Locator, expect

TURNS = 6  # of each knob; an even number, so that most end where they began
LETTERS = "bcdfghjklmnpqrtuvwxyz"  # none of which is a word
ANSWERING = 30_000  # milliseconds that a loaded machine may take for one answer
# Numbers what the Tab key reaches in a control, and returns how many there are. (The text beside a SelectionSlider is
# none: ipywidgets lets one write there and takes no notice. Such a slider lacks the class of the other widgets.)
REACH = """cell => [...cell.querySelectorAll(".jupyter-widgets *, .jupyter-widgets")]
    .filter(e => (e.tabIndex >= 0 || e.contentEditable === "true") && e.checkVisibility())
    .filter(e => !e.matches(":not(.jupyter-widgets) > .widget-readout"))
    .map((e, number) => { e.dataset.knob = number; }).length"""
NAME = """e => [
    ...[...e.closest(".widget-inline-hbox")?.querySelectorAll("label") ?? []].map(label => label.innerText),
    e.matches("button") ? e.title || e.innerText : e.matches(".widget-readout") ? "written" : ""
].filter(text => /\\w/.test(text)).join(", ")"""
# From the last key (in an open list the page sees only the choice) until the answer, a picture decoded, is painted.
WATCH = """answer => {
    let turned;
    const turn = event => {
        if (event.type === "keydown" || event.target.matches("select")) turned = performance.now();
    };
    const kinds = ["keydown", "change"];
    kinds.forEach(kind => addEventListener(kind, turn, true));
    window.answer = new Promise(resolve => {
        new MutationObserver(async (_, observer) => {
            observer.disconnect();
            kinds.forEach(kind => removeEventListener(kind, turn, true));
            if (answer.decode) while (!await answer.decode().then(() => true, () => false)) {}  // replaced meanwhile
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - turned)));
        }).observe(answer, {attributeFilter: ["src"], childList: true});
    });
}"""
ANSWER = "limit => Promise.race([window.answer, new Promise(resolve => setTimeout(resolve, limit))])"
# A number that depends on every pixel, and how many colors there are.
LOOK = """async picture => {
    await picture.decode();
    const {naturalWidth: width, naturalHeight: height} = picture;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    return [pixels.reduce((sum, pixel) => (31 * sum + pixel) | 0, 0), new Set(pixels).size];
}"""


class Seen(NamedTuple):
    """What a reader of a control has before the eyes."""

    pixels: int
    words: list[str]  # under the picture, and the story that it is about


class Control:
    """A control in a cell of a notebook, which answers a key with another picture and other words."""

    def __init__(self, cell: Locator) -> None:
        self.cell, self.page = cell, cell.page
        self.picture = cell.locator("img")
        expect(self.picture, "the live picture alone, not the stored one beside it").to_have_count(1)
        expect(cell.locator("[title='null']:visible"), "ipywidgets' word where there is no tooltip").to_have_count(0)
        self.seen = self.look()

    def look(self) -> Seen:
        """What it shows now; AssertionError unless it is drawn, and its name for screen readers is what is written."""
        pixels, colors = self.picture.evaluate(LOOK)
        words = self.cell.locator("p").last.inner_text()
        assert colors > 10, f"a picture of {colors} colors"
        assert words.strip() and words == self.picture.get_attribute("title")
        return Seen(pixels, [words, *(story.input_value() for story in self.cell.locator("textarea").all())])

    def press(self, knob: Locator, keys: Sequence[str], answer: Locator) -> float:
        """Press keys on a knob; the milliseconds until the answer stood there."""
        answer.evaluate(WATCH)
        knob.focus()
        for key in keys:
            self.page.keyboard.press(key)
        waited = self.page.evaluate(ANSWER, ANSWERING)
        assert waited is not None, f"{keys} on {knob.evaluate(NAME)} changes nothing"
        return waited

    def turn(self, knob: Locator, *keys: str) -> float:
        """Press keys on a knob whose answer is another picture and other words."""
        waited = self.press(knob, keys, self.picture)
        before, self.seen = self.seen, self.look()
        assert self.seen.pixels != before.pixels, f"{keys} on {knob.evaluate(NAME)} leaves the picture as it was"
        assert self.seen.words != before.words, f"{keys} on {knob.evaluate(NAME)} leaves the words: {before.words}"
        return waited


def slide(control: Control, handle: Locator) -> float:
    at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
    return control.turn(handle, "ArrowLeft" if at_end else "ArrowRight")


def write_number(control: Control, readout: Locator) -> float:
    """Replace the number beside a slider by the least that it may be; where it is that already, by the largest."""
    handle = readout.locator("xpath=..").locator(".noUi-handle")
    low, now, high = (float(handle.get_attribute(f"aria-value{which}")) for which in ("min", "now", "max"))
    return control.turn(readout, "ControlOrMeta+a", *f"{high if now == low else low:g}", "Enter")


def switch(control: Control, box: Locator) -> float:
    return control.turn(box, "Space")


def choose(control: Control, button: Locator) -> float:
    """Choose one of several; another first, where this one is the choice."""
    if "mod-active" in button.get_attribute("class"):
        control.turn(button.locator("xpath=following-sibling::button | preceding-sibling::button").first, "Space")
    return control.turn(button, "Space")


def pick(control: Control, field: Locator) -> float:
    """Open a list and take the next; the first, where the last one is chosen."""
    at_end = field.evaluate("field => field.selectedIndex === field.length - 1")
    return control.turn(field, "Space", "Home" if at_end else "ArrowDown", "Enter")


def write_word(control: Control, button: Locator) -> float:
    """Press a button that writes; where the text has ended, take the last word back first."""
    if button.is_disabled():
        control.turn(control.cell.get_by_title("Take the last word back"), "Space")
    return control.turn(button, "Space")


def take_back(control: Control, button: Locator) -> float:
    if button.is_disabled():
        control.turn(control.cell.get_by_title("Write all that the model would write"), "Space")
    return control.turn(button, "Space")


def type_word(control: Control, field: Locator) -> float:
    """Type a word that the vocabulary lacks, a letter; it is marked at once."""
    note = control.cell.locator(".widget-html-content", has=control.page.locator("[role=status]"))
    marks = note.locator("mark")
    letter = LETTERS[marks.count()]
    waited = control.press(field, ["ControlOrMeta+End", "Space", letter], note)
    expect(marks.last).to_have_text(letter)
    return waited


def read_story(control: Control, button: Locator) -> float:
    type_word(control, control.cell.locator("textarea"))
    return control.turn(button, "Space")


HANDS: dict[str, Callable[[Control, Locator], float]] = {
    ".noUi-handle": slide,
    ".widget-readout": write_number,
    "input[type=checkbox]": switch,
    ".widget-toggle-button": choose,
    "select": pick,
    "textarea": type_word,
    "[title='Read this story']": read_story,
    "[title='Take the last word back']": take_back,
    "[title^='Write '], [title='The text has ended']": write_word,
}


def move_every_knob(cell: Locator) -> dict[str, list[float]]:
    """Turn every knob of a control TURNS times; by the knob's name, the milliseconds that its answers took.

    AssertionError for a knob that no hand knows, or more than one.
    """
    control, waited = Control(cell), {}
    knobs = [cell.locator(f"[data-knob='{number}']") for number in range(cell.evaluate(REACH))]
    for name, knob in [(knob.evaluate(NAME), knob) for knob in knobs]:
        hands = [hand for kind, hand in HANDS.items() if knob.evaluate("(knob, kind) => knob.matches(kind)", kind)]
        assert len(hands) == 1, f"{len(hands)} hands know how to move {knob.evaluate('knob => knob.outerHTML')}"
        waited[name] = [hands[0](control, knob) for _ in range(TURNS)]
    assert len(waited) == len(knobs) > 0, f"{len(knobs)} knobs with the names {list(waited)}"
    return waited
