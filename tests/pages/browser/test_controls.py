"""Every control in a real browser: it can be turned by keyboard, fits its screens, says what it shows, answers at once.

What each computes is held against `tfm_lib` in the tests named after it. Where the environment variable SCREENSHOTS
names a folder, pictures and a table of times are left there.
"""

import os
from pathlib import Path

import pytest

from tests.show.controls import CONTROLS, LAPTOP, PHONE, opened, turn_every_knob, write_page
from tests.times import Answer, report
from tfm_lib.show.live import ON_PAGES

pytestmark = pytest.mark.browser
FRAME, WITH_MODEL = 16, 50  # milliseconds, the goals of a median
every_control = pytest.mark.parametrize("name", CONTROLS)


@pytest.fixture
def pictures(tmp_path) -> Path:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@every_control
def test_every_knob_answers_by_keyboard_and_at_once(browser, tmp_path, pictures, name):
    live = CONTROLS[name]()
    with opened(browser, tmp_path, live) as root:
        goal = WITH_MODEL if live.data[ON_PAGES]["weights"] else FRAME
        report(
            [Answer(name, knob, times, goal) for knob, times in turn_every_knob(root).items()],
            pictures / f"{name}_answers.md",
        )


@every_control
def test_it_begins_with_what_the_stored_picture_says(browser, tmp_path, name):
    live = CONTROLS[name]()
    with opened(browser, tmp_path, live) as root:
        assert root.locator(".tfm-words").inner_text() == live.data["text/plain"]


@every_control
@pytest.mark.parametrize(("viewport", "scheme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"])
def test_it_fits_its_screen_and_all_can_read_it(browser, tmp_path, pictures, name, viewport, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, tmp_path, CONTROLS[name](), viewport, scheme) as root:
        root.screenshot(path=pictures / f"{name}_{scheme}.png")
        box = root.bounding_box()
        # Beside a lesson's text JupyterLab's bars take 150 of the 900 pixels.
        assert box["height"] <= viewport["height"] - (150 if viewport is LAPTOP else -600)
        assert root.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        found = Axe().run(root.page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
        assert [f"{one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]] == []
        small = root.evaluate(
            "root => [...root.querySelectorAll('text')].filter(e => e.textContent && e.checkVisibility())"
            ".map(e => [e.textContent, e.getBoundingClientRect().height]).filter(([, height]) => height < 11)"
        )
        assert small == [], "letters that are too small"


@every_control
def test_nothing_moves_by_itself(browser, tmp_path, name):
    with opened(browser, tmp_path, CONTROLS[name]()) as root:
        assert root.page.evaluate("document.getAnimations().length") == 0


def swipe(page, held, right, down):
    """A finger on the middle of an element, and across the screen; how far the page has scrolled under it."""
    box, finger = held.bounding_box(), page.context.new_cdp_session(page)
    x, y, before = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, page.evaluate("scrollY")

    def touch(kind, *points):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})
        page.wait_for_timeout(30)

    touch("touchStart", {"x": x, "y": y})
    for part in range(1, 7):
        touch("touchMove", {"x": x + right * part / 6, "y": y + down * part / 6})
    touch("touchEnd")
    return page.evaluate("scrollY") - before


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("query_among_keys", "[aria-label=query]"),
        ("picture_control", "[aria-label='place of the shape']"),
        ("sinusoid_control", ".tfm-held >> nth=2"),
    ],
)
def test_a_finger_drags_it_and_the_page_stays(browser, tmp_path, name, held):
    """Browsers heed touch-action on a whole drawing only, so that a page once ran away under the finger."""
    with browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(write_page(tmp_path, CONTROLS[name]()).as_uri())
        page.wait_for_function("document.querySelector('.tfm-control').shown")
        page.add_style_tag(content="body { padding: 900px 0 }")
        dragged = page.locator(held)
        dragged.evaluate("e => e.scrollIntoView({block: 'center'})")
        before = page.locator(".tfm-words").inner_text()
        assert swipe(page, dragged, 30, 70) == 0
        assert page.locator(".tfm-words").inner_text() != before
        assert swipe(page, page.locator(".tfm-words"), 0, 70) < -20, "beside it a finger scrolls"


@pytest.mark.parametrize("name", ["cache_control", "steps_control"])
def test_a_finger_reads_a_chart_sideways_and_scrolls_up_and_down(browser, tmp_path, name):
    with browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(write_page(tmp_path, CONTROLS[name]()).as_uri())
        page.wait_for_function("document.querySelector('.tfm-control').shown")
        page.add_style_tag(content="body { padding: 900px 0 }")
        chart = page.locator(".tfm-held")
        chart.evaluate("e => e.scrollIntoView({block: 'center'})")
        assert swipe(page, chart, 90, 0) == 0
        before = page.locator(".tfm-words").inner_text()
        assert swipe(page, chart, -120, 0) == 0
        assert page.locator(".tfm-words").inner_text() != before
        assert swipe(page, chart, 0, 70) < -20


@pytest.mark.parametrize(
    ("knob", "complaint"),
    [
        ('<button aria-label="turn">turn</button>', "turn changes nothing"),
        ('<button onclick="root.shown += 1"></button>', "without a name"),
        (
            '<input type="range" aria-label="bits" oninput="root.shown += 1"><span class="tfm-said">8</span>',
            "bits says None to a screen reader, and 8 to the eye",
        ),
        ("", "no knob"),
    ],
)
def test_a_knob_that_does_nothing_or_has_no_name_is_found(browser, knob, complaint):
    page = browser.new_page()
    page.set_content(f'<div class="tfm-control" id="root">{knob}<p class="tfm-words">Words.</p></div>')
    page.evaluate("root.shown = 1")
    with pytest.raises(AssertionError, match=complaint):
        turn_every_knob(page.locator("#root"))
    page.close()
