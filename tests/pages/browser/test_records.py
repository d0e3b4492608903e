"""Controls of what was measured show just that, wherever they are turned: bits, digits through a bottleneck, steps."""

import json
from statistics import fmean

import pytest

from benchmarks.training_on_toy_summaries import newsroom_steps
from tests.pages.browser.reader import pick, shown, slide, words
from tfm_lib.lessons import course_file
from tfm_lib.show import bits_control as bits
from tfm_lib.show import bottleneck_control as bottleneck
from tfm_lib.show import steps_control as steps

BITS, DIGITS, STEPS = (
    json.loads(course_file(room.RECORD).read_text(encoding="utf-8")) for room in (bits, bottleneck, steps)
)


@pytest.mark.browser
def test_every_number_of_bits_shows_what_was_measured(show):
    root = show(bits.bits_control())
    for place, count in enumerate(sorted({row["bits"] for row in BITS["bits"]}, reverse=True)):
        slide(root, place)
        for per in bits.LOOKS:
            pick(root, per)
            [row] = [row for row in BITS["bits"] if (row["bits"], row["per"]) == (count, per)]
            assert shown(root) == {name: row[name] for name in shown(root)}
            assert f"{row['bytes']:,} bytes" in words(root) and row["headline"] in words(root)


def runs_of(model, n):
    return [run for run in DIGITS["runs"] if (run["model"], run["n"]) == (model, n)]


@pytest.mark.browser
def test_every_number_of_digits_shows_what_was_measured(show):
    root, models = show(bottleneck.bottleneck_control()), bottleneck.MODELS
    for place, (length, digits) in enumerate(DIGITS["strings"].items()):
        n = int(length)
        slide(root, place)
        first = [runs_of(model, n)[0] for model in models]
        for model in models[1:]:
            pick(root, model)
            whole = [fmean(run["whole"] for run in runs_of(one, n)) for one in models]
            assert shown(root)["whole"] == pytest.approx(whole, abs=1e-4) and shown(root)["n"] == n
            weights = runs_of(model, n)[0]["looked"]
            assert shown(root)["own"] == pytest.approx(fmean(row[i] for i, row in enumerate(weights)))
            assert all(f"{run['model']} {run['wrote']}" in words(root) for run in first)
            assert root.locator("rect[width]:not([width='0'])").count() == n * n
        wrong = [wrote for run in first for wrote, right in zip(run["wrote"], digits, strict=True) if wrote != right]
        assert root.locator("u").all_inner_texts() == wrong


@pytest.mark.browser
def test_every_step_shows_what_was_written_and_calls_learned_what_is_right(show):
    root = show(steps.steps_control())
    for number, look in enumerate(STEPS["looks"]):
        slide(root, number)
        for place, (_, right) in STEPS["places"].items():
            pick(root, place)
            most_probable = look["next"][place][0][0]
            expected = {key: look[key] for key in ("step", "text", "loss", "right")}
            assert shown(root) == expected | {"next": look["next"][place]}
            assert f"writes “{look['text']}”. " in words(root) and f"; {right} is right." in words(root)
            learned = [name for key, name in steps.NAMES.items() if look["right"][key] >= steps.LEARNED]
            assert f"nine times in ten: {', '.join(learned) or 'none'}. These are right less often: " in words(root)
            mark = "✓ " if most_probable == right else ""
            assert root.locator(".tfm-bar-name").first.inner_text() == mark + most_probable
        right_words = {*STEPS["story"]["summary"].replace(",", "").split()}
        wrong = [word for word in look["text"].replace(",", "").split() if word not in right_words]
        assert root.locator("u").all_inner_texts() == wrong


@pytest.mark.slow
def test_the_first_steps_can_be_taken_again():
    again = newsroom_steps.measure(steps=(1,), others=2)
    [look], recorded = again["looks"], STEPS["looks"][0]
    assert look["text"] == recorded["text"] and look["loss"] == pytest.approx(recorded["loss"], abs=0.01)
    for place, [(word, p), *_] in look["next"].items():
        assert [word, pytest.approx(p, abs=0.01)] == recorded["next"][place][0]
    assert all(again[key] == STEPS[key] for key in ("command", "seed", "steps", "story"))
    assert {place: tuple(pair) for place, pair in STEPS["places"].items()} == again["places"]
    assert [one["step"] for one in STEPS["looks"]] == [*newsroom_steps.STEPS]
    assert STEPS["curve"]["step"][-1] == STEPS["steps"] == newsroom_steps.STEPS[-1]
