"""The control of bits shows what was measured, wherever it is turned."""

import json

import pytest

from tests.show.controls import opened
from tfm_lib.lessons import course_file
from tfm_lib.show.bits_control import LOOKS, RECORD, bits_control

RECORDED = json.loads(course_file(RECORD).read_text(encoding="utf-8"))


@pytest.mark.browser
def test_every_number_of_bits_shows_what_was_measured(tmp_path):
    from tests.pages.browser.chromium import chromium

    with chromium() as browser, opened(browser, tmp_path, bits_control()) as root:
        for number, bits in enumerate(sorted({row["bits"] for row in RECORDED["bits"]}, reverse=True)):
            root.locator("input[type=range]").fill(str(number))
            for per in LOOKS:
                root.get_by_label(per, exact=True).check(force=True)
                [row] = [row for row in RECORDED["bits"] if (row["bits"], row["per"]) == (bits, per)]
                shown, words = root.evaluate("root => root.shown"), root.locator(".tfm-words").inner_text()
                assert shown == {name: row[name] for name in shown}
                assert f"{row['bytes']:,} bytes" in words and row["headline"] in words


def test_fewer_bits_are_fewer_bytes_and_every_way_ends_in_nonsense():
    for per in LOOKS:
        own = sorted((row for row in RECORDED["bits"] if row["per"] == per), key=lambda row: row["bits"])
        assert [row["bytes"] for row in own] == sorted(row["bytes"] for row in own)
        assert own[0]["exact"] == 0 and own[-1]["exact"] > 0.95
