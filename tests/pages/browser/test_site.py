"""The web pages in a real browser, as `make site` wrote them: all can be read, by all, without any network."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from nbformat import NotebookNode

from tests import ROOT
from tests.nbclaims.cells import code_cells, read
from tests.pages.browser.reader import alone, on_both_screens, on_both_screens_and_schemes, too_wide, violations
from tests.show.controls import LAPTOP, PHONE, STATE, turn
from tfm_lib.show.figure import SENTENCE_END
from tfm_lib.show.live import ON_PAGES

pytestmark = pytest.mark.browser
SITE = ROOT / "site"
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [f"notebooks/{path.stem}.html" for path in LESSONS]  # their addresses, from the first page
SECOND = {page: page.replace(".html", "_second_reading.html") for page in PAGES}
BOTH = [page for pair in SECOND.items() for page in pair if "10_scale_" not in page]  # 10 has no second reading
CODE_COLUMNS = 88  # of a line of code in a lesson


@cache
def parsed(page: str | Path) -> BeautifulSoup:
    return BeautifulSoup((SITE / page).read_text(encoding="utf-8"), "html.parser")


@cache
def places(page: str | Path) -> set[str]:
    """What can be linked to in a page."""
    return {element["id"] for element in parsed(page).find_all(id=True)}


def alts(page: str) -> list[str]:
    return [picture["alt"] for picture in parsed(page).find_all("img")]


def dead_links(page: str) -> list[str]:
    """The links of a page, within the site, that lead to no file or to no place in it; and all that it would fetch."""
    file = SITE / page
    fetched = [e.get("src") or e.get("href") for e in parsed(file).select("[src], link[href]")]
    dead = [link for link in fetched if urlsplit(link).scheme not in ("", "data")]
    for link in [*fetched, *(e["href"] for e in parsed(file).select("a[href]"))]:
        parts = urlsplit(urljoin(file.as_uri(), link))
        target, place = Path(unquote(parts.path)), unquote(parts.fragment)
        misses = not target.is_file() or (place and target.suffix == ".html" and place not in places(target))
        if parts.scheme == "file" and misses:
            dead.append(link)
    return dead


def outputs(lesson: Path) -> list[NotebookNode]:
    return [output for cell in code_cells(read(lesson)) for output in cell.outputs]


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """The addresses of all pages, the first one first."""
    found = [page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html")]
    assert "index.html" in found and len(found) > len(LESSONS), "there are no pages: run `make site` first"
    return sorted(found, key=lambda page: (page.count("/"), page))


class Quiet(SimpleHTTPRequestHandler):
    """Serves the pages as a web host does, and says nothing."""

    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def host(pages, tmp_path_factory) -> Iterator[str]:
    """The address of the pages, which are below the top of their host, as on GitHub Pages."""
    top = tmp_path_factory.mktemp("host")
    (top / "course").symlink_to(SITE, target_is_directory=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(top))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/course/"
        server.shutdown()


@pytest.fixture
def tab(browser, host) -> Iterator:
    """Opens tabs, which ask nobody but our own host."""
    with ExitStack() as tabs:

        def open_tab(viewport=LAPTOP, scheme="light", **options):
            options |= {"viewport": viewport, "color_scheme": scheme, "base_url": host}
            return tabs.enter_context(alone(browser, host, **options)).new_page()

        yield open_tab


def lesson_tab(tab, viewport=LAPTOP, scheme="light"):
    page = tab(viewport, scheme)
    page.goto(PAGES[1])
    return page


def walk(page, paths=PAGES) -> Iterator[str]:
    """Opens one page after the other; the address of the one that is open."""
    for path in paths:
        page.goto(path)
        yield path


def test_links_lead_somewhere(pages):
    assert {page: dead for page in pages if (dead := dead_links(page))} == {}


def test_a_lesson_holds_each_picture_with_its_words():
    for lesson, page in zip(LESSONS, PAGES, strict=True):
        words = [o["metadata"]["image/png"]["alt"] for o in outputs(lesson) if "image/png" in o.get("data", {})]
        found = Counter(alt for one in BOTH if one in (page, SECOND[page]) for alt in alts(one) if alt)
        assert found >= Counter(words) and found.total() <= len(words) + 1, page  # a first look
    _, machine = alts("index.html")
    assert machine.startswith("It writes “")


def test_a_link_from_elsewhere_shows_what_it_leads_to(pages):
    cards = {}
    for page in pages:
        metas = parsed(page).find_all("meta", content=True)
        card = cards[page] = {meta.get("property") or meta.get("name"): meta["content"] for meta in metas}
        assert card["og:title"] and card["og:image:alt"].startswith("The encoder-decoder Transformer")
        assert urlsplit(card["og:image"]).scheme == "https" or ((SITE / page).parent / card["og:image"]).is_file()
        if page != "search.html":
            assert len(card["og:description"]) > 20 and card["og:description"] == card["description"]
    assert cards[PAGES[1]]["og:title"] == "01 · Attention"
    assert cards[SECOND[PAGES[1]]]["og:title"] == "01 · Attention: second reading"


def test_the_second_reading_is_a_page_of_its_own_linked_both_ways():
    for page in PAGES:
        first, second = parsed(page), SITE / SECOND[page]
        assert second.is_file() == (SECOND[page] in BOTH)
        if not second.is_file():
            continue
        sections = {one["id"] for one in parsed(second).select("article section section[id^=deeper-]")}
        assert sections and not first.select("section[id^=deeper-]")
        contents = {link["href"].split("#")[1] for link in first.select(f".toc-tree a[href^='{second.name}#']")}
        said = {link["href"].split("#")[1] for link in first.select(f"#second-reading a[href^='{second.name}#']")}
        assert sections <= contents and sections <= said, page
        assert parsed(second).select(f"article > section > p a[href^='{Path(page).name}#']"), page


def test_no_sign_of_markdown_is_left_on_a_page():
    for page in [*PAGES, *BOTH]:
        for text in parsed(page).select("article p"):
            said = re.sub(r"<(code|math)\b.*?</\1>|<!--.*?-->", "", str(text), flags=re.DOTALL)
            assert not re.search(r"\S\*|\*\S|\]\(", said), (page, said)


def test_a_lesson_shows_itself_at_once(tab):
    """Its picture or control, and what it is about, before the reader scrolls."""
    page = tab()
    for name in walk(page):
        tops = page.evaluate("""() => [...document.querySelectorAll("article :is(img, .tfm-control)")]
            .filter(e => e.checkVisibility() && !e.closest("details")).map(e => e.getBoundingClientRect().top)""")
        questions = page.locator("summary", has_text="Know this already? Three questions").first.bounding_box()
        assert min(top for top in tops if top > 0) < 750 and questions["y"] < 1500, name


SCROLLING = """() => {
    document.querySelectorAll("details").forEach(folded => folded.open = true);
    const blocks = [...document.querySelectorAll("article pre")].filter(e => e.clientWidth);
    return [blocks.length, blocks.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText.slice(0, 80))];
}"""
# Colors take axe-core most of its time: on each page the words of twenty pieces of code are colored, not of all.
FEW_COLORS = "[...document.querySelectorAll('.highlight pre')].slice(20).forEach(e => e.textContent = e.textContent)"


@on_both_screens_and_schemes
def test_nothing_keeps_people_from_reading(pages, tab, viewport, scheme):
    """By all rules of axe-core, also those for what it calls minor; and no code or output scrolls sideways.

    That a heading of a table is empty is let pass where it is a formula: axe-core reads no MathML, screen readers do.
    """
    page, count, findings = tab(viewport, scheme), 0, []
    for name in walk(page, pages):
        blocks, scrolling = page.evaluate(SCROLLING)
        count += blocks
        page.evaluate(FEW_COLORS)
        page.evaluate("() => new Promise(painted => requestAnimationFrame(() => setTimeout(painted)))")
        for down in (900, -300):  # and up again: the way back to the top shows itself
            page.mouse.wheel(0, down)
            page.wait_for_timeout(50)
        found = [one for one in violations(page) if one[0] != "empty-table-header" or "<math>" not in one[2]]
        if found or scrolling or too_wide(page, viewport):
            findings.append(f"{name} is too wide, or: {found + scrolling}")
    assert count > 1000 and not findings, "\n".join(findings)


def test_hints_and_what_is_to_be_guessed_open_with_a_click_and_claims_are_not_seen(tab):
    page, folded, guessed = tab(), 0, 0
    for _ in walk(page, BOTH):
        assert page.locator("article details[open]").count() == 0
        folded += page.locator("article details").count()
        text = page.locator("article").inner_text()
        assert "claim: " not in text.replace("look for claim", "") and "<!--" not in text
        for guess in page.locator("details.below-input", has_not_text="Know this already?").all():
            guessed += 1
            assert guess.locator("summary p.collapsed").inner_text() == "What do you expect? Open to see the output"
            assert not guess.locator(".cell_output").is_visible()
            guess.locator("summary").click()
            assert guess.locator(".cell_output").is_visible()
    assert folded > 20 * len(LESSONS) and guessed
    answer = page.locator("article details:not(.hide)").filter(visible=True).last  # not within a closed one
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


def test_machinery_is_folded_pictures_have_their_words_and_an_opening_quiz_is_answered(tab):
    page = lesson_tab(tab)
    assert not {"find_spec", "tfm_lib.ask.quiz", "platform.python_version"} & {*page.content().split()}
    cells = page.locator(".cell", has_text="show.drawings").all()
    assert cells and not any(cell.locator(".cell_input").is_visible() for cell in cells)
    for picture in page.locator(".cell_output:has(img)").all():
        words = picture.locator("p.caption").text_content()  # also where what is to be guessed is folded
        assert words and not SENTENCE_END.search(words)
    opening = page.locator(".cell_output", has=page.locator("#quiz-opening"))
    fold = page.locator("summary", has_text="Know this already? Three questions")
    assert not opening.is_visible()
    fold.click()
    opening.locator("legend").nth(2).wait_for()  # a busy machine draws the quiz a moment later
    assert opening.locator("legend").count() == 3 and opening.locator("li:visible").count() == 0
    opening.locator("button").first.click()
    for number, score in ((1, "1 of 3 answered."), (2, "0 of 3 answered.")):  # each quiz has answers of its own
        page.goto(PAGES[number])
        fold.click()
        assert opening.get_by_role("status").inner_text() == score
    page.locator("#questions .tfm-control").scroll_into_view_if_needed()
    page.locator("#questions .tfm-control button").nth(8).wait_for()
    assert not page.locator("[id^=the-same-questions]").first.is_visible()


def test_without_scripts_the_opening_questions_are_read(tab):
    page = tab(java_script_enabled=False)
    page.goto(PAGES[1])
    page.locator("summary", has_text="Know this already?").click()
    asked = page.locator(".cell_output", has_text="Read or skip?").locator("li:visible").all_inner_texts()
    assert page.locator("[id^=the-same-questions]").first.is_visible() and page.locator(".knob:visible").count() == 0
    assert len(asked) == 3 and all(text.endswith("?") for text in asked)


def come_to_life(page) -> list:
    """The controls of a page, each of them scrolled to, as a reader does, and running."""
    page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
    roots = page.locator(".tfm-control").all()
    for root in roots:
        root.scroll_into_view_if_needed()
        root.and_(page.locator("[role=group]")).wait_for()
    return roots


@on_both_screens
def test_controls_run_in_place_of_their_pictures(tab, viewport):
    page, count = tab(viewport), 0
    for path in walk(page, BOTH):
        roots = come_to_life(page)
        count += len([root for root in roots if not root.get_attribute("id").startswith("first-")])
        for root in roots:
            assert page.locator(".cell_output", has=root).locator("img:visible").count() == 0
            before = root.evaluate(STATE)
            turn(root, root.locator(":is(input, textarea, button:enabled, [role=button]):visible").first)
            assert root.evaluate(STATE) != before, path
        assert not too_wide(page, viewport), path
    assert count == sum(ON_PAGES in output.get("data", {}) for lesson in LESSONS for output in outputs(lesson))


@on_both_screens
def test_a_link_to_a_section_leads_there(tab, viewport):
    """Once the page grew on the smooth way, as controls came to life, and the way ended in another section."""
    page = tab(viewport)
    for path, section in [(0, "what-did-it-really-learn"), (2, "a-query-that-may-see-nothing"), (8, "questions")]:
        page.goto("about:blank")
        page.goto(f"{PAGES[path]}#{section}")
        page.wait_for_timeout(1500)
        top = page.locator(f"#{section}").evaluate("section => section.querySelector('h2').getBoundingClientRect().top")
        assert 0 <= top < 150, (section, top)


def test_it_is_told_how_much_of_a_model_has_come(tab):
    page = tab()
    page.goto("index.html")
    told = page.evaluate("""async () => {
        const counts = [];
        await weightsOf("pictures", (name, bytes) => name === "pictures" && counts.push(bytes));
        return counts;
    }""")
    assert told == sorted({*told}) and told[-1] == (SITE / "_static/pictures.bin").stat().st_size


def search(page, words="positional") -> list[str]:
    """Where the search for words leads, asked on the page that is open."""
    page.fill(".sidebar-search", words)
    page.press(".sidebar-search", "Enter")
    page.locator(".search-summary", has_text=re.compile("^(In|No section)")).wait_for()
    assert page.locator("article input[type=search]").input_value() == words
    return [link.get_attribute("href") for link in page.locator("#search-results li a").all()]


def test_search_finds_sections(tab, host):
    page = lesson_tab(tab)
    found, summary = search(page), page.locator(".search-summary")
    assert all(place in places(path) for path, _, place in (link.partition("#") for link in found))
    all_of = int(summary.inner_text().split()[1])
    assert summary.inner_text() == f"In {all_of} sections, of which these fit best:"
    assert len({*found}) == len(found) == 30 < all_of
    found = search(page, "label smoothing")
    assert found[0] == "notebooks/07_training_on_toy_summaries_second_reading.html#deeper-label-smoothing"
    assert summary.inner_text() == f"In {len(found)} sections:"
    first = page.locator("#search-results li").first
    assert first.locator("a").inner_text() == "07 · Training on toy summaries: Deeper: label smoothing"
    first.locator("p", has_text="label smoothing").wait_for()  # the text of the section
    first.locator("a").click()
    assert page.url.startswith(f"{host}{found[0].split('#')[0]}") and page.url.endswith("#deeper-label-smoothing")
    for words, section in (
        ("positional", "04_positional_encoding.html"),
        ("RoPE", "04_positional_encoding.html#rotary-positions"),
        ("BPE", "11_real_text.html"),  # in the glossary only
        ("perplexity", "07_"),
        ("overfitting", "07_"),
        ("KV cache", "09_"),
    ):
        assert any(link.startswith(f"notebooks/{section}") for link in search(page, words)), words
    assert search(page, "zzyzx") == []
    assert summary.inner_text().startswith("No section contains “zzyzx”, neither as a word")
    assert search(page, "perplexity")[0] == "docs/symbols.html#term-perplexity"
    assert page.locator("#search-results li p").first.inner_text().startswith("The number e to the power of the loss")


def test_pages_can_be_read_turned_and_searched_from_a_folder(browser):
    with alone(browser, viewport=LAPTOP) as context:
        page = context.new_page()
        page.goto((SITE / PAGES[8]).as_uri())
        assert page.locator("article img").first.evaluate("picture => picture.complete && picture.naturalWidth > 0")
        assert come_to_life(page)  # with its model
        assert any(link.startswith("notebooks/04_positional_encoding.html") for link in search(page))
        assert len(page.locator("#search-results li p").first.inner_text()) > 40  # how a section begins


def test_light_and_dark_by_the_system_and_by_hand(tab):
    lightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    light, dark = (lesson_tab(tab, scheme=scheme) for scheme in ("light", "dark"))
    assert dark.evaluate(lightness) < 100 < 700 < light.evaluate(lightness)
    light.locator("button.theme-toggle").locator("visible=true").click()
    assert light.evaluate(lightness) == dark.evaluate(lightness)
    looks = """all => all.map(
        e => [/dark|pale|light|white|black|bright/.test(e.alt), getComputedStyle(e).filter !== 'none'])"""
    for page in (lesson_tab(tab), dark):
        found = page.locator(".cell_output img").evaluate_all(looks)
        assert len(found) > 5 and all(turned == (page is dark and not speaks) for speaks, turned in found)


def test_formulas_are_drawn_in_the_font_that_comes_along_cut_to_the_signs_that_are_used(tab):
    page = lesson_tab(tab)
    page.evaluate("document.fonts.ready.then(() => null)")
    fonts = page.evaluate("[...document.fonts].map(font => [font.family.replaceAll('\"', ''), font.status])")
    assert ["STIX Two Math", "loaded"] in fonts
    ends = "root => [root.lastElementChild, root.parentElement].map(e => Math.round(e.getBoundingClientRect().right))"
    roots = [root for root in page.locator("article p math > msqrt:last-child").all() if root.is_visible()]
    found = [root.evaluate(ends) for root in roots]
    assert len(found) >= 2 and all(abs(end - room) <= 1 for end, room in found), "there is a gap behind a root"
    [font] = SITE.rglob("*.woff")
    assert 20_000 < font.stat().st_size < 200_000 and not list(SITE.rglob("*.ttf"))


def test_what_is_put_away_on_a_phone_comes_by_keyboard_and_makes_room_for_what_was_chosen(tab):
    page = lesson_tab(tab, PHONE)
    columns = {"Toggle site navigation sidebar": ".sidebar-drawer", "Toggle table of contents sidebar": ".toc-drawer"}
    for switch, column in columns.items():
        link = page.locator(f"{column} a").nth(3)
        assert not link.is_visible(), "a reader who walks through the page by Tab would be lost in it"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.ariaLabel") == switch
        page.keyboard.press("Space")
        link.focus()
        assert link.is_visible() and link.evaluate("link => link === document.activeElement")
        page.get_by_label(switch).focus()
        page.keyboard.press("Space")
    page.locator("label.toc-header-icon:visible, label[for=__toc]:visible").first.click()
    page.locator(".toc-drawer a", has_text="Exercises").first.click()
    assert not page.locator("#__toc").is_checked()


def test_a_reader_who_goes_by_keyboard_sees_where(tab):
    page = lesson_tab(tab)
    for _ in range(30):
        page.keyboard.press("Tab")
        focused = page.evaluate_handle("document.activeElement")
        outline = focused.evaluate("element => getComputedStyle(element).outline")
        assert "solid 2px" in outline, focused.evaluate("element => element.outerHTML")


def test_what_is_wider_than_a_phone_scrolls_by_keyboard(tab):
    page = tab(PHONE)
    for path, wide in (
        ("docs/landscape.html", ".table-wrapper[tabindex='0']"),
        (PAGES[1], ".cell_output .image-reference[data-more]"),
    ):
        page.goto(path)
        page.locator(f"article {wide}").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.activeElement.scrollLeft > 0")
    picture = page.locator(".cell_output img").first.bounding_box()
    assert picture["width"] > PHONE["width"], "its letters would be too small"
    words = page.locator(".cell_output p.caption")
    assert words.count() and words.evaluate_all("all => all.filter(p => p.closest('[data-more]')).length") == 0


LINES = f"""() => {{
    const line = [...document.querySelectorAll("article pre .line")].find(e => !e.closest("details"));
    line.textContent = "x".repeat({CODE_COLUMNS});
    return Math.round(line.getBoundingClientRect().height / parseFloat(getComputedStyle(line).lineHeight));
}}"""


@on_both_screens
def test_a_phone_breaks_lines_of_88_characters_and_a_laptop_does_not(tab, viewport):
    assert (lesson_tab(tab, viewport).evaluate(LINES) == 1) == (viewport is LAPTOP)


def test_the_map_is_links_in_order_in_two_parts():
    [course_map] = parsed("index.html").select(".course-map")
    one, two = ([link["href"] for link in part.find_all("a")] for part in course_map.find_all("ol"))
    assert one and two and [*one, *two] == PAGES
    assert [name.text.strip()[:8] for name in course_map.find_all("p", recursive=False)] == ["Part one", "Part two"]


def test_a_page_is_light_before_the_first_touch(pages, tab):
    """At most 3 MB of files, as they are on the disk; weights come later."""
    page, size, asked = tab(), {}, set()
    page.on("response", lambda answer: asked.add(urlsplit(answer.url)))
    for name in walk(page, pages):
        page.wait_for_load_state("networkidle")
        files = [SITE / unquote(url.path.removeprefix("/course/")) for url in asked if url.scheme == "http"]
        size[name] = sum(file.stat().st_size for file in files)
        asked.clear()
    assert min(size.values()) > 20_000 and {name: count for name, count in size.items() if count > 3_000_000} == {}


CUT_OFF = """paper => {
    const beyond = e => e.getBoundingClientRect().right > paper + 1, scrolls = e => e.scrollWidth > e.clientWidth + 1;
    const all = names => [...document.querySelectorAll(`article :is(${names})`)];
    const cut = [...all("code, img, math, pre, table").filter(beyond), ...all("pre, div").filter(scrolls)];
    return cut.map(e => e.outerHTML.slice(0, 200));
}"""


def test_on_paper_there_is_the_whole_lesson_and_nothing_else(pages, tab):
    paper = 680  # CSS pixels: A4 without its margins
    page = tab({"width": paper, "height": 1000})
    page.emulate_media(media="print")
    for name in walk(page, [*pages, PAGES[1]]):
        assert page.evaluate(CUT_OFF, paper) == [], name
    for aside in (".skip-to-content", ".sidebar-drawer", ".toc-drawer", ".mobile-header", ".related-pages"):
        assert not page.locator(aside).first.is_visible(), aside
    for what, least, visible in (
        ("details.above-input", 3, False),  # machinery is left out, its pictures are not
        (".cell_output img", 9, True),
        ("details:not(.hide) > p:first-of-type", 15, True),  # paper cannot be unfolded
    ):
        found = [part.is_visible() for part in page.locator(f"article {what}").all()]
        assert len(found) >= least and set(found) == {visible}, what
    assert len(page.pdf(format="A4")) > 100_000


def test_paper_has_no_knobs_and_says_nothing_of_them(tab):
    page, count = tab(), 0
    for path in walk(page, ("", *PAGES)):
        page.emulate_media(media="screen")
        controls = len(come_to_life(page))
        sentences = page.locator("article .knob:not(.cell_output *)").all()
        assert all(sentence.is_visible() for sentence in sentences), path
        page.emulate_media(media="print")
        assert page.locator(".tfm-control:visible").count() == 0, path
        assert not any(sentence.is_visible() for sentence in sentences), path
        assert "Run this cell to choose" not in page.locator("article").inner_text(), path
        assert page.locator(".cell_output:has(.tfm-control) img:visible").count() <= controls, path
        count += len(sentences)
    assert count >= 20
