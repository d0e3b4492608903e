"""A table of times fails only where no machine would need as long."""

import pytest

from tests.times import Answer, report


def test_a_table_of_medians_stands_beside_the_goals(tmp_path):
    file = tmp_path / "answers.md"
    report([Answer("model", "a word", [0.9, 1.1, 50.0], 2), Answer("model", "a story", [38.0, 39.0], 60)], file)
    header, line, word, story = file.read_text().splitlines()
    assert header == "| control | knob | median ms | worst ms | goal ms |" and line.count("|") == header.count("|")
    assert [word, story] == ["| model | a word | 1.1 | 50.0 | 2 |", "| model | a story | 38.5 | 39.0 | 60 |"]


@pytest.mark.parametrize(("times", "fails"), [([19.0, 20.0, 900.0], False), ([19.0, 21.0, 22.0], True)])
def test_only_ten_times_the_goal_fails_and_the_table_is_still_there(tmp_path, times, fails):
    file = tmp_path / "answers.md"
    if fails:
        with pytest.raises(AssertionError, match="model: a word"):
            report([Answer("model", "a word", times, 2)], file)
    else:
        report([Answer("model", "a word", times, 2)], file)
    assert "a word" in file.read_text()
