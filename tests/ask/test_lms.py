"""The questions leave the course whole: for Moodle, and in QTI 2.1, whose own schema they were checked with."""

import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.parsers import expat

import pytest

from tfm_lib.ask import lms
from tfm_lib.ask.questions import Choice, Lesson, Question, read_course
from tfm_lib.commands.cli import run
from tfm_lib.lessons import course_file

COURSE = read_course(course_file("notebooks"))
QUESTIONS = [question for lesson in COURSE for question in lesson.questions]
CHOICES = Choice("A", "no & yes", "Wrong."), Choice("B", "$x_1$", "")
ASKED = Question("01_x", "Is `a < b` and $\\ln 2$?", "Since\n\nso.", CHOICES)
QTI = f"{{{lms.QTI}}}"


def items(package: bytes) -> list[ET.Element]:
    with zipfile.ZipFile(io.BytesIO(package)) as files:
        hrefs = [one.get("href") for one in ET.fromstring(files.read("imsmanifest.xml")).iter()]
        listed = [*dict.fromkeys(filter(None, hrefs))]
        assert sorted(listed) == sorted({*files.namelist()} - {"imsmanifest.xml"}), "the manifest lists each file"
        return [ET.fromstring(files.read(name)) for name in listed if name.startswith("items/")]


def test_moodle_gets_every_question_with_one_right_choice_and_a_reason_for_each():
    quiz = ET.fromstring(lms.moodle(COURSE))
    asked = quiz.findall("question[@type='multichoice']")
    assert len(asked) == len(QUESTIONS) and len(quiz.findall("question[@type='category']")) == len(COURSE)
    assert len({one.findtext("name/text") for one in asked}) == len(asked)
    for element, question in zip(asked, QUESTIONS, strict=True):
        choices = element.findall("answer")
        assert [one.get("fraction") for one in choices] == ["0" if one.why_not else "100" for one in question.choices]
        assert all(one.findtext("text") and one.findtext("feedback/text") for one in choices)
    [shown] = ET.fromstring(lms.moodle([Lesson("01_x", "01", [ASKED])])).findall("question/questiontext/text")
    assert shown.text == "<p>Is <code>a &lt; b</code> and \\(\\ln 2\\)?</p>"


def test_moodle_reads_every_space_and_a_slash_in_a_title():
    pieces, parser = [], expat.ParserCreate()  # like Moodle's parser, this one drops pieces that are only white space
    parser.CharacterDataHandler = lambda piece: pieces.append(piece if piece.strip() else "")
    asked = Question("01_x", "Is `a` *b* & `c` ≤ 3?", "Since so.", CHOICES)
    parser.Parse(lms.moodle([Lesson("01_x", "01 · In/out", [asked])]), True)
    assert "<p>Is <code>a</code> <em>b</em> &amp; <code>c</code> ≤ 3?</p>" in pieces
    assert f"$course$/{lms.COURSE}/01 · In//out" in pieces, "a single slash would begin a category within the category"


def test_qti_has_an_item_per_question_that_scores_its_right_choice():
    found = items(lms.qti(COURSE))
    assert len(found) == len(QUESTIONS) == len({item.get("identifier") for item in found})
    for item, question in zip(found, QUESTIONS, strict=True):
        [right] = [choice.letter for choice in question.choices if not choice.why_not]
        assert [value.text for value in item.findall(f".//{QTI}correctResponse/{QTI}value")] == [right]
        letters = [choice.letter for choice in question.choices]
        for name in ("simpleChoice", "modalFeedback"):
            assert [one.get("identifier") for one in item.iter(f"{QTI}{name}")] == letters
    [item] = items(lms.qti([Lesson("01_x", "01", [ASKED])]))
    prompt = item.find(f".//{QTI}prompt")
    assert prompt.findtext(f"{QTI}code") == "a < b" and prompt.find(f"{{{lms.MATH}}}math") is not None


@pytest.mark.parametrize(("name", "start"), [("moodle.xml", b"<?xml"), ("qti.zip", b"PK")])
def test_the_ending_decides_the_form(name, start, tmp_path, capsys):
    run("flashcards", "--out", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start) and "question bank" in capsys.readouterr().out


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.apkg for Anki, \.xml for Moodle or \.zip for QTI"):
        run("flashcards", "--out", str(tmp_path / "x.csv"))
    assert not [*Path(tmp_path).iterdir()]
