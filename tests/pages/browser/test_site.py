"""The web pages in a real browser, as `make site` wrote them: all can be read, by all, without any network."""

import json
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.show.controls import STATE, turn
from tfm_lib.show.live import ON_PAGES

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[3]
SITE = ROOT / "site"
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GUESSES = any('"guess"' in lesson.read_text(encoding="utf-8") for lesson in LESSONS)
CODE_COLUMNS = 88  # of a line of code in a lesson
DESKTOP, PHONE = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}


class Anatomy(HTMLParser):
    """What a page links to, what can be linked to in it, and its pictures."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.names: list[str] = []
        self.alts: list[str | None] = []
        self.about: dict[str, str] = {}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names += [name for key in ("id", "name") if (name := given.get(key))]
        target = given.get("src") or given.get("href")
        if target is not None:
            (self.links if tag == "a" else self.fetched).append(target)
        if tag == "img":
            self.alts.append(given.get("alt"))
        if tag == "meta" and (name := given.get("property") or given.get("name")):
            self.about[name] = given.get("content") or ""


anatomy = cache(Anatomy)


def dead_links(page: Path) -> list[str]:
    """The links of a page, within the site, that lead to no file or to no place in it; and all that it would fetch."""
    about = anatomy(page)
    dead = [link for link in about.fetched if urlsplit(link).scheme not in ("", "data")]
    for link in about.links + about.fetched:
        parts = urlsplit(urljoin(page.as_uri(), link))
        if parts.scheme != "file":
            continue
        target = Path(unquote(parts.path))
        place = unquote(parts.fragment)
        if not target.is_file() or (place and target.suffix == ".html" and place not in anatomy(target).names):
            dead.append(link)
    return dead


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """All pages, the first one first."""
    found = sorted(SITE.rglob("*.html"), key=lambda page: (len(page.relative_to(SITE).parts), page))
    assert SITE / "index.html" in found and len(found) > len(LESSONS), "there are no pages: run `make site` first"
    return found


class Quiet(SimpleHTTPRequestHandler):
    """Serves the pages as a web host does, and says nothing."""

    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def host(pages, tmp_path_factory) -> Iterator[str]:
    """The address of the pages, which stand below the top of their host, as on GitHub Pages."""
    top = tmp_path_factory.mktemp("host")
    (top / "course").symlink_to(SITE, target_is_directory=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(top))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/course/"
        server.shutdown()


@pytest.fixture
def tab(browser, host) -> Iterator:
    """Opens tabs; a question to anybody but our own host, and any error in a page, fails the test."""
    complaints, contexts = [], []

    def ask(route) -> None:
        if route.request.url.startswith((host, "data:")):
            return route.continue_()
        complaints.append(f"asked for {route.request.url}")
        return route.abort()

    def open_tab(viewport=DESKTOP, scheme="light"):
        context = browser.new_context(viewport=viewport, color_scheme=scheme, base_url=host)
        contexts.append(context)
        context.route("**/*", ask)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        return context.new_page()

    yield open_tab
    for context in contexts:
        context.close()
    assert complaints == []


def lesson_pages() -> list[str]:
    """The addresses of the lessons, from the first page."""
    return [f"notebooks/{path.stem}.html" for path in LESSONS]


def test_links_lead_somewhere(pages):
    assert {str(page.relative_to(SITE)): dead for page in pages if (dead := dead_links(page))} == {}


def test_dead_links_are_found(tmp_path):
    other, page = tmp_path / "b ü.html", tmp_path / "a.html"
    other.write_text('<p id="here">')
    page.write_text(
        '<a href="b%20%C3%BC.html#here">good</a> <a href="#top">x</a> <h1 id="top"><a href="https://example.org/x">out</a>'
        '<a href="b%20%C3%BC.html#gone">x</a> <a href="c.html">x</a> <img src="https://example.org/p.png" alt="">'
        '<link href="gone.css"><script src="data:,1"></script>'
    )
    assert dead_links(page) == ["https://example.org/p.png", "b%20%C3%BC.html#gone", "c.html", "gone.css"]


def test_a_lesson_holds_each_picture_with_its_words():
    for lesson, page in zip(LESSONS, lesson_pages(), strict=True):
        cells = json.loads(lesson.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        alts = [o["metadata"]["image/png"]["alt"] for o in outputs if "image/png" in o.get("data", {})]
        assert anatomy(SITE / page).alts == ["", *alts], page  # the sign stands beside its name
    _, machine = anatomy(SITE / "index.html").alts
    assert machine.startswith("It writes “")


def test_a_link_from_elsewhere_shows_what_it_leads_to(pages):
    for page in pages:
        about = anatomy(page).about
        assert about["og:title"] and about["og:image:alt"].startswith("The encoder-decoder Transformer")
        assert urlsplit(about["og:image"]).scheme == "https" or (page.parent / about["og:image"]).is_file()
        if page.name != "search.html":
            assert len(about["og:description"]) > 20 and about["og:description"] == about["description"]
    lesson = anatomy(SITE / lesson_pages()[1]).about
    assert lesson["og:title"] == "01 · Attention" and lesson["og:description"].startswith("After this lesson you can")


# Colors take axe-core most of its time: on each page the words of twenty pieces of code are colored, not of all.
FEW_COLORS = "[...document.querySelectorAll('.highlight pre')].slice(20).forEach(e => e.textContent = e.textContent)"


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_nothing_keeps_people_from_reading(pages, tab, viewport, scheme):
    """By all rules of axe-core, also those for what it calls minor.

    That a heading of a table is empty is let pass where it is a formula: axe-core reads no MathML, screen readers do.
    """
    from axe_playwright_python.sync_playwright import Axe

    axe, page, findings = Axe(), tab(viewport, scheme), []
    for path in pages:
        name = path.relative_to(SITE).as_posix()
        page.goto(name)
        page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
        page.evaluate(FEW_COLORS)
        page.evaluate("() => new Promise(painted => requestAnimationFrame(() => setTimeout(painted)))")
        page.mouse.wheel(0, 900)  # and up again: the way back to the top shows itself
        page.wait_for_timeout(50)
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(50)
        for violation in axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]:
            for html in (node["html"] for node in violation["nodes"]):
                if violation["id"] != "empty-table-header" or "<math>" not in html:
                    findings.append(f"{name}: {violation['help']}: {html[:200]}")
        if page.evaluate("document.documentElement.scrollWidth") > viewport["width"]:
            findings.append(f"{name} is wider than the window")
    assert not findings, "\n".join(findings)


def test_hints_are_folded_and_claims_are_not_seen(tab):
    page, folded = tab(), 0
    for path in lesson_pages():
        page.goto(path)
        assert page.locator("article details[open]").count() == 0
        folded += page.locator("article details").count()
        seen = page.locator("article").inner_text()
        assert "claim: " not in seen.replace("look for claim", "") and "<!--" not in seen
    assert folded > 20 * len(LESSONS)
    answer = page.locator("article details:not(.hide)").last
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


def test_machinery_is_folded_pictures_have_their_words_and_an_opening_quiz_is_answered(tab):
    page = tab()
    page.goto(lesson_pages()[1])
    for code, least in (("find_spec", 1), ("tfm_lib.ask.quiz", 2), ("show.drawings", 1)):
        cells = page.locator(".cell", has_text=code)
        assert [cells.nth(i).locator(".cell_input").is_visible() for i in range(cells.count())] == [
            False
        ] * cells.count()
        assert cells.count() >= least
    for picture in page.locator(".cell_output:has(img)").all():
        words = picture.locator("p.caption").text_content()  # also where what is to be guessed is folded
        assert words == picture.locator("img").get_attribute("alt")
    opening = page.locator(".cell_output", has_text="Read or skip?")
    assert opening.locator("legend").count() == 3 and opening.locator("li:visible").count() == 0
    opening.locator("button").first.click()
    assert opening.get_by_role("status").inner_text() == "1 of 3 answered."
    page.reload()
    assert opening.get_by_role("status").inner_text() == "1 of 3 answered."
    page.goto(lesson_pages()[2])
    assert opening.get_by_role("status").inner_text() == "0 of 3 answered.", "each quiz has answers of its own"


def test_without_scripts_the_opening_questions_are_read(browser, host):
    with browser.new_context(java_script_enabled=False, base_url=host) as context:
        page = context.new_page()
        page.goto(lesson_pages()[1])
        asked = page.locator(".cell_output", has_text="Read or skip?").locator("li:visible").all_inner_texts()
        assert len(asked) == 3 and all(text.endswith("?") for text in asked)


def test_what_is_to_be_guessed_opens_with_a_click(tab):
    page, asked = tab(), 0
    for path in lesson_pages():
        page.goto(path)
        for folded in page.locator("details.below-input").all():
            asked += 1
            assert folded.locator("summary p.collapsed").inner_text() == "What do you expect? Open to see the output"
            output = folded.locator(".cell_output")
            assert not output.is_visible()
            folded.locator("summary").click()
            assert output.is_visible()
    assert asked or not GUESSES


def come_to_life(page) -> list:
    """The controls of a page, each of them scrolled to, as a reader does, and running."""
    roots = page.locator(".tfm-control").all()
    for root in roots:
        root.scroll_into_view_if_needed()
        root.and_(page.locator("[role=group]")).wait_for()
    return roots


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_controls_run_in_place_of_their_pictures(tab, viewport):
    page, seen = tab(viewport), 0
    for lesson, path in zip(LESSONS, lesson_pages(), strict=True):
        outputs = [o for c in json.loads(lesson.read_text(encoding="utf-8"))["cells"] for o in c.get("outputs", [])]
        page.goto(path)
        roots = come_to_life(page)
        assert len(roots) == sum(ON_PAGES in output.get("data", {}) for output in outputs), path
        for root in roots:
            assert page.locator(".cell_output", has=root).locator("img:visible").count() == 0
            knob, before = (
                root.locator(":is(input, textarea, button:enabled, [role=button]):visible").first,
                root.evaluate(STATE),
            )
            turn(root, knob)
            assert root.evaluate(STATE) != before, path
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], path
        seen += len(roots)
    assert seen


def test_a_control_with_its_model_runs_in_a_page_of_a_folder(browser):
    with browser.new_context(viewport=DESKTOP) as context:
        page = context.new_page()
        page.goto((SITE / "notebooks/08_decoding.html").as_uri())
        assert come_to_life(page)


def test_next_leads_through_the_course_and_previous_back(tab, host):
    page = tab()
    page.goto("")
    for path in lesson_pages():
        page.locator("a.next-page").scroll_into_view_if_needed()
        page.wait_for_timeout(500)  # what is near comes to life, and may move the link
        page.click("a.next-page")
        assert page.url == host + path
    page.click("a.prev-page")
    assert page.url == host + lesson_pages()[-2]


def search(page, words="positional") -> list[str]:
    """Where the search for words leads, asked on the page that is open."""
    page.fill(".sidebar-search", words)
    page.press(".sidebar-search", "Enter")
    page.locator(".search-summary", has_text="In ").wait_for()
    return [link.get_attribute("href") for link in page.locator("#search-results li a").all()]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["wide", "narrow"])
def test_a_link_to_a_section_leads_there(tab, viewport):
    """Once the page grew on the smooth way, as controls came to life, and the way ended in another section."""
    page = tab(viewport)
    for path, section in [(0, "what-did-it-really-learn"), (2, "a-query-that-may-see-nothing"), (8, "questions")]:
        page.goto("about:blank")
        page.goto(f"{lesson_pages()[path]}#{section}")
        page.wait_for_timeout(1500)
        top = page.locator(f"#{section}").evaluate("section => section.querySelector('h2').getBoundingClientRect().top")
        assert 0 <= top < 150, (section, top)


def test_the_contents_make_room_for_what_was_chosen(tab):
    page = tab(PHONE)
    page.goto(lesson_pages()[1])
    page.locator("label.toc-header-icon:visible, label[for=__toc]:visible").first.click()
    page.locator(".toc-drawer a", has_text="Exercises").first.click()
    assert not page.locator("#__toc").is_checked()


def test_search_finds_sections(tab, host):
    page = tab()
    page.goto("docs/symbols.html")
    found = search(page)
    assert any(link.startswith("notebooks/04_positional_encoding.html") for link in found)
    assert dead_links_among(found) == [] and 1 < len(set(found)) == len(found) <= 30
    assert page.locator(".search-summary").inner_text() == f"In {len(found)} sections:"
    found = search(page, "label smoothing")
    assert found[0] == "notebooks/07_training_on_toy_summaries.html#deeper-label-smoothing"
    first = page.locator("#search-results li").first
    assert first.locator("a").inner_text() == "07 · Training on toy summaries: Deeper: label smoothing"
    first.locator("p", has_text="label smoothing").wait_for()  # what stands there
    page.locator("#search-results li a").first.click()
    assert page.url.startswith(f"{host}{found[0].split('#')[0]}") and page.url.endswith("#deeper-label-smoothing")
    assert search(page, "zzyzx") == [] and page.locator(".search-summary").inner_text().startswith("In no section")


def dead_links_among(found: list[str]) -> list[str]:
    """The addresses that no page has, or no place in it."""
    parts = [link.split("#") for link in found]
    return [f"{page}#{place}" for page, place in parts if place not in anatomy(SITE / page).names]


def test_pages_can_be_read_and_searched_from_a_folder(browser):
    with browser.new_context(viewport=DESKTOP) as context:
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((SITE / lesson_pages()[1]).as_uri())
        assert page.locator("article img").first.evaluate("picture => picture.complete && picture.naturalWidth > 0")
        assert any(link.startswith("notebooks/04_positional_encoding.html") for link in search(page))
        assert len(asked) > 5 and [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_light_and_dark_by_the_system_and_by_hand(tab):
    lightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    pages = {scheme: tab(scheme=scheme) for scheme in ("light", "dark")}
    shown = {}
    for scheme, page in pages.items():
        page.goto(lesson_pages()[1])
        shown[scheme] = page.evaluate(lightness)
    assert shown["dark"] < 100 < 700 < shown["light"]
    button = pages["light"].locator("button.theme-toggle").locator("visible=true")
    button.click()
    assert pages["light"].evaluate(lightness) == shown["dark"]
    filters = {page.locator("article img").first.evaluate("e => getComputedStyle(e).filter") for page in pages.values()}
    assert filters == {"none"}, "pictures keep the contrast that tests/show/test_plots.py measures"


def test_formulas_are_drawn_in_the_font_that_comes_along(tab):
    page = tab()
    page.goto(lesson_pages()[1])
    page.evaluate("document.fonts.ready.then(() => null)")
    fonts = page.evaluate("[...document.fonts].map(font => [font.family.replaceAll('\"', ''), font.status])")
    assert ["STIX Two Math", "loaded"] in fonts
    root = page.locator("math msqrt").first.bounding_box()
    assert root["height"] > 10 and root["width"] > 10
    roots = page.locator("article p math > msqrt:last-child")
    ends = "root => [root.lastElementChild, root.parentElement].map(e => Math.round(e.getBoundingClientRect().right))"
    found = [root.evaluate(ends) for root in roots.all() if root.is_visible()]
    assert len(found) >= 2 and all(abs(end - room) <= 1 for end, room in found), "there is a gap behind a root"


def test_what_is_put_away_on_a_phone_comes_by_keyboard(tab):
    page = tab(PHONE)
    page.goto(lesson_pages()[1])
    columns = {"Toggle site navigation sidebar": ".sidebar-drawer", "Toggle table of contents sidebar": ".toc-drawer"}
    for switch, column in columns.items():
        link = page.locator(f"{column} a").nth(3)
        assert not link.is_visible(), "who walks through the page by Tab would be lost in it"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.ariaLabel") == switch
        page.keyboard.press("Space")
        link.focus()
        assert link.is_visible() and link.evaluate("link => link === document.activeElement")
        page.get_by_label(switch).focus()
        page.keyboard.press("Space")
        assert not link.is_visible()


def test_who_goes_by_keyboard_sees_where(tab):
    page = tab()
    page.goto(lesson_pages()[1])
    for _ in range(30):
        page.keyboard.press("Tab")
        focused = page.evaluate_handle("document.activeElement")
        outline = focused.evaluate("element => getComputedStyle(element).outline")
        assert "solid 2px" in outline, focused.evaluate("element => element.outerHTML")


def test_tables_of_long_names_fit_a_desktop(tab):
    page = tab()
    page.goto("docs/symbols.html")
    tables = page.locator(".table-wrapper").all()
    beyond = [table.evaluate("table => table.scrollWidth - table.clientWidth") for table in tables]
    assert len(beyond) == 4 and max(beyond) <= 0
    assert page.locator("article code", has_text="torch.nn.functional").count(), "a name is a word as before"


def test_what_is_wider_than_a_phone_scrolls_by_keyboard(tab):
    page = tab(PHONE)
    page.goto("docs/landscape.html")
    page.locator("article .table-wrapper[tabindex='0']").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
    page.goto(lesson_pages()[1])
    picture = page.locator(".cell_output img").first.bounding_box()
    assert picture["width"] > PHONE["width"], "its letters would be too small"
    words = page.locator(".cell_output p.caption")
    assert words.count() and words.evaluate_all("all => all.filter(p => p.closest('[data-more]')).length") == 0
    page.locator(".cell_output .image-reference[data-more]").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


SCROLLING = """() => {
    document.querySelectorAll("details").forEach(folded => folded.open = true);
    const blocks = [...document.querySelectorAll("article pre")].filter(e => e.clientWidth);
    return [blocks.length, blocks.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText.slice(0, 80))];
}"""


@pytest.mark.parametrize("width", [1440, PHONE["width"]])
def test_no_code_and_no_output_scrolls_sideways(pages, tab, width):
    page, seen, cut = tab({"width": width, "height": 900}), 0, {}
    for path in pages:
        page.goto(path.relative_to(SITE).as_posix())
        blocks, scrolling = page.evaluate(SCROLLING)
        seen += blocks
        if scrolling:
            cut[path.name] = scrolling
    assert seen > 1000 and cut == {}


def test_a_line_of_88_characters_is_one_line_on_a_desktop_and_goes_on_on_a_phone(tab):
    line = f"""() => {{
        const line = document.querySelector("article pre .line");
        line.textContent = "x".repeat({CODE_COLUMNS});
        return line.getBoundingClientRect().height / parseFloat(getComputedStyle(line).lineHeight);
    }}"""
    lines = []
    for width in (1440, PHONE["width"]):
        page = tab({"width": width, "height": 900})
        page.goto(lesson_pages()[1])
        lines.append(round(page.evaluate(line)))
    assert lines[0] == 1 and lines[1] > 1


def test_the_map_is_links_in_order_in_two_parts(tab):
    page = tab()
    page.goto("")
    parts = page.locator(".course-map ol").all()
    found = [[link.get_attribute("href") for link in part.locator("a").all()] for part in parts]
    assert len(found) == 2 and all(found) and [*found[0], *found[1]] == lesson_pages()
    names = page.locator(".course-map > p").all_inner_texts()
    assert [name[:8] for name in names] == ["Part one", "Part two"]


LOADED = 3_000_000  # bytes before the first touch


def test_a_page_is_light_before_the_first_touch(pages, tab):
    """All files of a page count, as they lie on the disk; weights come later."""
    page, size, asked = tab(), {}, []
    page.on("response", lambda answer: asked.append(answer.url))
    for path in pages:
        asked.clear()
        page.goto(path.relative_to(SITE).as_posix(), wait_until="networkidle")
        files = {SITE / unquote(urlsplit(url).path.removeprefix("/course/")) for url in asked if url.startswith("http")}
        size[path.name] = sum((file / "index.html" if file.is_dir() else file).stat().st_size for file in files)
    assert {name: bytes_ for name, bytes_ in size.items() if bytes_ > LOADED} == {}


def test_the_font_is_cut_to_the_signs_that_are_used():
    assert not list(SITE.rglob("*.ttf"))
    [font] = SITE.rglob("*.woff")
    assert 20_000 < font.stat().st_size < 200_000


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
    for path in pages:
        page.goto(path.relative_to(SITE).as_posix())
        assert page.evaluate(CUT_OFF, paper) == [], path
    page.goto(lesson_pages()[1])
    for aside in (".skip-to-content", ".sidebar-drawer", ".toc-drawer", ".mobile-header", ".related-pages"):
        assert not page.locator(aside).first.is_visible(), aside
    assert page.locator("article h1").is_visible()
    folded = {kind: page.locator(f"article details{kind}") for kind in (".above-input", ":not(.hide)")}
    code = folded[".above-input"].all()
    assert len(code) >= 3 and not any(part.is_visible() for part in code), "machinery is left out, its pictures are not"
    pictures = page.locator("article .cell_output img").all()
    assert len(pictures) > 10 and all(picture.is_visible() for picture in pictures)
    answers = folded[":not(.hide)"].locator("> p:first-of-type")
    assert answers.count() > 20 and all(answer.is_visible() for answer in answers.all()), "paper cannot be unfolded"
    assert len(page.pdf(format="A4")) > 100_000


def test_paper_has_no_knobs_and_says_nothing_of_them(pages, tab):
    page, told = tab(), 0
    for path in ("", *lesson_pages()):
        page.emulate_media(media="screen")
        page.goto(path)
        controls = len(come_to_life(page))
        sentences = page.locator("article .knob:not(.cell_output *)").all()
        assert all(sentence.is_visible() for sentence in sentences), path
        page.emulate_media(media="print")
        assert page.locator(".tfm-control:visible").count() == 0, path
        assert not any(sentence.is_visible() for sentence in sentences), path
        assert "Run this cell to choose" not in page.locator("article").inner_text(), path
        assert page.locator(".cell_output:has(.tfm-control) img:visible").count() <= controls, path
        told += len(sentences)
        if not path:
            assert controls == 1 and page.locator("article img:visible").count() == 1
    assert told >= 20
