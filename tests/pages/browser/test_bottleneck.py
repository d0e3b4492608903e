"""The control of the bottleneck shows what was measured, whatever the number of digits."""

import json
from statistics import fmean

import pytest

from tests.show.controls import opened
from tfm_lib.lessons import course_file
from tfm_lib.show.bottleneck_control import MODELS, RECORD, bottleneck_control

RECORDED = json.loads(course_file(RECORD).read_text(encoding="utf-8"))


def runs_of(model, n):
    return [run for run in RECORDED["runs"] if (run["model"], run["n"]) == (model, n)]


@pytest.mark.browser
def test_every_number_of_digits_shows_what_was_measured(tmp_path):
    from tests.pages.browser.chromium import chromium

    with chromium() as browser, opened(browser, tmp_path, bottleneck_control()) as root:
        for number, (length, heard) in enumerate(RECORDED["strings"].items()):
            n = int(length)
            root.locator("input[type=range]").fill(str(number))
            for looker in MODELS[1:]:
                root.get_by_label(looker, exact=True).check(force=True)
                shown, words = root.evaluate("root => root.shown"), root.locator(".tfm-words").inner_text()
                whole = [fmean(run["whole"] for run in runs_of(model, n)) for model in MODELS]
                assert shown["whole"] == pytest.approx(whole, abs=1e-4) and shown["n"] == n
                weights = runs_of(looker, n)[0]["looked"]
                assert shown["own"] == pytest.approx(fmean(row[i] for i, row in enumerate(weights)))
                assert all(f"{model} {runs_of(model, n)[0]['wrote']}" in words for model in MODELS)
                assert root.locator("rect[width]:not([width='0'])").count() == n * n
            wrong = [
                wrote
                for model in MODELS
                for wrote, right in zip(runs_of(model, n)[0]["wrote"], heard, strict=True)
                if wrote != right
            ]
            assert root.locator("u").all_inner_texts() == wrong


def test_a_map_has_a_row_for_each_digit_and_each_row_is_about_a_hundred_percent():
    for run in RECORDED["runs"]:
        for row in run.get("looked") or []:
            assert len(row) == run["n"] and abs(sum(row) - 100) <= run["n"] / 2
