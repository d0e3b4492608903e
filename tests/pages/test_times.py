"""A table of times fails only where no machine would need as long."""

import pytest

from tests.times import Answer, report


def test_a_table_of_medians_is_written_and_only_more_than_ten_times_the_goal_fails(tmp_path):
    file = tmp_path / "answers.md"
    story, word = Answer("model", "a story", [19.0, 20.0, 900.0], 2), Answer("model", "a word", [19.0, 21.0, 22.0], 2)
    with pytest.raises(AssertionError, match=": model: a word$"):
        report([story, word], file)
    rows = file.read_text().splitlines()[2:]
    assert rows == ["| model | a story | 20.0 | 900.0 | 2 |", "| model | a word | 21.0 | 22.0 | 2 |"]
