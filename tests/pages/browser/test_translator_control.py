"""The translator of lesson 12 in the page: it cuts, translates and looks as the one in Python, or says why not."""

import json

import pytest
from sentencepiece import SentencePieceProcessor

from tests.pages.browser.reader import shown, words
from tests.pretrained.test_translator import RECORD, translator
from tests.show.controls import CONTROLS, write_page
from tfm_lib.pretrained.firefox import package_files
from tfm_lib.show.live import ON_PAGES
from tfm_lib.show.translator_control import LONGEST, NAME, translation

pytestmark = pytest.mark.browser
NAME_IN_PYTHON = "firefox/en-pt"
SENTENCES = [source for source, _ in RECORD[NAME_IN_PYTHON]]
ODD = [  # what no piece stands for, what NFKC changes, spaces of all kinds, the names of special tokens
    "", "   ", "Zażółć gęślą jaźń in Łódź", "你好 world", "an emoji 🙂🙂 twice", "ﬁne ½ cup", "a\u00a0b\u2003c\td\n e",
    "</s> and <unk> are text", "▁ a mark", "zero\u200bwidth\ufeffjoined\u200dend", "\x01control\x85",
    "…“quotes” — dashes", "A" * 40, "naïve café Ångström",
]  # fmt: skip


@pytest.fixture
def control(show):
    return show(CONTROLS["translator_control"]())


def test_a_text_is_cut_translated_and_aligned_as_in_python(control):
    ours, page = translator(NAME_IN_PYTHON), control.page
    page.add_script_tag(url=f"{NAME}.js")
    page.evaluate(f"() => {{ window.translator = tfm.loadCheckpoint(tfm.fromBase64({NAME})); }}")
    cut = page.evaluate("texts => texts.map(text => translator.vocabulary.encode(text))", [*ODD, *SENTENCES])
    processor = SentencePieceProcessor(model_proto=package_files(NAME_IN_PYTHON)[2])
    assert cut == processor.encode([*ODD, *SENTENCES])
    found = page.evaluate("texts => texts.map(text => tfm.translated(translator, text, 5))", SENTENCES[:30])
    for text, here in zip(SENTENCES[:30], found, strict=True):
        there = translation(ours, text)
        assert all(here[key] == there[key] for key in ("text", "translation", "source"))
        for word, same in zip(here["words"], there["words"], strict=True):
            assert word["piece"] == same["piece"] and word["looks"] == pytest.approx(same["looks"], abs=2e-3)
            assert [p for _, p in word["next"]] == pytest.approx([p for _, p in same["next"]], abs=2e-3)


def test_the_readers_sentence_is_translated_after_the_model_was_loaded(control):
    text, button = "The old sailor never forgot the song.", control.locator(".tfm-button")
    assert button.inner_text() == "Load the translator (27 MB) and translate"
    control.locator("textarea").fill(text)
    assert words(control) == "Not translated yet: press the button."
    button.click()
    control.page.wait_for_function("document.querySelector('.tfm-control').shown.translation", timeout=120_000)
    assert shown(control)["translation"] == translator(NAME_IN_PYTHON).generate([text])[0]
    assert button.inner_text() == "Translate"
    control.locator("textarea").fill("fire " * (LONGEST + 1))
    button.click()
    control.get_by_text(f"has {LONGEST + 1} subwords: from 1 to {LONGEST} can be translated here").wait_for()


def test_without_the_model_the_recorded_sentences_remain(browser, tmp_path):
    live = CONTROLS["translator_control"]()
    page_file = write_page(tmp_path, live)
    (tmp_path / f"{NAME}.js").unlink()  # as where `make site` found no package
    with browser.new_page() as page:
        page.goto(page_file.as_uri())
        control = page.locator(".tfm-control")
        control.locator("textarea").fill("Another sentence.")
        control.locator(".tfm-button").click()
        control.get_by_text("Choose one of the 20 sentences in the menu").wait_for()
        control.locator("select").select_option(index=3)
        recorded = json.loads(live.data[ON_PAGES]["data"])["recorded"]
        assert shown(control)["translation"] == recorded[3]["translation"]
