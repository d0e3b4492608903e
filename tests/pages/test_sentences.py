"""What a control and its stored picture both say is in one table, words.json; test_controls.py compares the two."""

import json
import re

import pytest

from tfm_lib.show.control import sentence
from tfm_lib.show.scripts import JS, SENTENCES

TABLE = json.loads(SENTENCES.read_text(encoding="utf-8"))
PYTHON, SCRIPTS = (
    "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"*.{kind}")))
    for folder, kind in ((JS.parent, "py"), (JS, "js"))
)


@pytest.mark.parametrize("name", TABLE)
def test_a_sentence_is_said_by_both_and_written_once(name):
    for source in (PYTHON, SCRIPTS):
        assert re.search(rf"""["']{re.escape(name)}["']""", source)
        words = max(TABLE[name].split("{}"), key=len).strip()
        assert len(words) < 20 or words not in source, f"it is still written out: {words}"
    assert "{" not in sentence(name, *range(TABLE[name].count("{}")))


def test_only_sentences_of_the_table_are_said():
    for source in (PYTHON, SCRIPTS):
        assert {*re.findall(r'\bsentence\(\s*"([^"]+)"', source)} <= {*TABLE}
