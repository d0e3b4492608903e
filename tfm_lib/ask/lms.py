"""The questions of the course for a learning platform: as Moodle's XML, and as a package in QTI 2.1."""

import html
import io
import re
import zipfile
from xml.etree import ElementTree as ET
from xml.sax.saxutils import unescape

from tfm_lib.ask.questions import Choice, Lesson, Question, to_html
from tfm_lib.ask.quiz import mathml

COURSE = "The encoder-decoder Transformer"
QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"
MATH = "http://www.w3.org/1998/Math/MathML"


def moodle(lessons: list[Lesson]) -> bytes:
    """A category per lesson, a question with one right choice per question, and a reason for each choice.

    Formulas are in TeX, which Moodle's filter MathJax draws. HTML is in CDATA, since the parser of Moodle's importer
    drops a space between two entities. In the path of a category, a slash of a name is doubled.
    """
    quiz = ET.Element("quiz")
    for lesson in lessons:
        category = ET.SubElement(quiz, "question", type="category")
        path = f"$course$/{COURSE}/{lesson.title.replace('/', '//')}"
        ET.SubElement(ET.SubElement(category, "category"), "text").text = path
        for number, asked in enumerate(lesson.questions, start=1):
            question = ET.SubElement(quiz, "question", type="multichoice")
            ET.SubElement(ET.SubElement(question, "name"), "text").text = f"{lesson.name[:2]}.{number:02}"
            _text(question, "questiontext", asked.question)
            _text(question, "generalfeedback", asked.answer)
            given = {"defaultgrade": "1", "penalty": "0", "single": "true", "shuffleanswers": "true"}
            for name, value in (given | {"answernumbering": "ABCD"}).items():
                ET.SubElement(question, name).text = value
            for choice in asked.choices:
                share = "0" if choice.why_not else "100"
                _text(_text(question, "answer", choice.text, fraction=share), "feedback", _reason(asked, choice))
    escaped = r"(?<=<text>)[^<]*&[^<]*(?=</text>)"
    return re.sub(escaped, lambda text: f"<![CDATA[{unescape(text[0])}]]>", _file(quiz).decode()).encode()


def _text(parent: ET.Element, name: str, markdown: str, **about: str) -> ET.Element:
    element = ET.SubElement(parent, name, {"format": "html", **about})
    ET.SubElement(element, "text").text = to_html(markdown)
    return element


def _reason(asked: Question, choice: Choice) -> str:
    return choice.why_not or asked.answer


def _file(root: ET.Element) -> bytes:
    ET.indent(root)
    return ET.tostring(root, "utf-8", xml_declaration=True)


def qti(lessons: list[Lesson]) -> bytes:
    """A content package, zipped: an item per question, and a test with a section per lesson. Formulas are MathML."""
    content = io.BytesIO()
    ET.register_namespace("m", MATH)
    manifest = ET.Element("manifest", xmlns=PACKAGE, identifier="transformer")
    about = ET.SubElement(manifest, "metadata")
    ET.SubElement(about, "schema").text, ET.SubElement(about, "schemaversion").text = "QTIv2.1 Package", "1.0.0"
    ET.SubElement(manifest, "organizations")
    resources = ET.SubElement(manifest, "resources")
    test = ET.Element("assessmentTest", xmlns=QTI, identifier="transformer-test", title=COURSE)
    part = ET.SubElement(test, "testPart", identifier="all", navigationMode="nonlinear", submissionMode="individual")
    assessment = ET.SubElement(resources, "resource", identifier="test", type="imsqti_test_xmlv2p1", href="test.xml")
    ET.SubElement(assessment, "file", href="test.xml")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for lesson in lessons:
            name = f"lesson-{lesson.name[:2]}"
            section = ET.SubElement(part, "assessmentSection", identifier=name, title=lesson.title, visible="true")
            for number, asked in enumerate(lesson.questions, start=1):
                item, file = f"{name}-{number:02}", f"items/{name}-{number:02}.xml"
                package.writestr(file, _file(_item(item, f"{lesson.title}, {number}", asked)))
                ET.SubElement(section, "assessmentItemRef", identifier=item, href=file)
                ET.SubElement(assessment, "dependency", identifierref=item)
                resource = ET.SubElement(resources, "resource", identifier=item, type="imsqti_item_xmlv2p1", href=file)
                ET.SubElement(resource, "file", href=file)
        package.writestr("test.xml", _file(test))
        package.writestr("imsmanifest.xml", _file(manifest))
    return content.getvalue()


def _item(name: str, title: str, asked: Question) -> ET.Element:
    item = ET.Element(
        "assessmentItem", xmlns=QTI, identifier=name, title=title, adaptive="false", timeDependent="false"
    )
    single = {"cardinality": "single", "baseType": "identifier"}
    response = ET.SubElement(item, "responseDeclaration", {"identifier": "RESPONSE", **single})
    [right] = [choice.letter for choice in asked.choices if not choice.why_not]
    ET.SubElement(ET.SubElement(response, "correctResponse"), "value").text = right
    score = ET.SubElement(item, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float")
    ET.SubElement(ET.SubElement(score, "defaultValue"), "value").text = "0"
    ET.SubElement(item, "outcomeDeclaration", {"identifier": "FEEDBACK", **single})
    body = ET.SubElement(item, "itemBody")
    asks = ET.SubElement(body, "choiceInteraction", responseIdentifier="RESPONSE", shuffle="true", maxChoices="1")
    asks.append(_html("prompt", asked.question))
    asks.extend(_html("simpleChoice", choice.text, identifier=choice.letter) for choice in asked.choices)
    item.append(ET.fromstring(PROCESSING))
    shown = {"outcomeIdentifier": "FEEDBACK", "showHide": "show"}
    for choice in asked.choices:
        item.append(_html("modalFeedback", _reason(asked, choice), identifier=choice.letter, **shown))
    return item


def _html(name: str, markdown: str, **about: str) -> ET.Element:
    """An element of QTI with that Markdown in it: text in a line without a paragraph around it, formulas as MathML."""
    text = to_html(markdown, lambda tex, shown: mathml(tex, shown).replace("<math", f'<math xmlns="{MATH}"', 1))
    text = text.removeprefix("<p>").removesuffix("</p>") if text.count("<p>") == 1 else text
    named = re.sub(r"&(?!(?:amp|lt|gt|quot|apos);)\w+;", lambda entity: html.unescape(entity[0]), text)
    element = ET.fromstring(f"<{name}>{named}</{name}>")
    element.attrib.update(about)
    return element


PROCESSING = """<responseProcessing>
<responseCondition>
<responseIf>
<match><variable identifier="RESPONSE"/><correct identifier="RESPONSE"/></match>
<setOutcomeValue identifier="SCORE"><baseValue baseType="float">1</baseValue></setOutcomeValue>
</responseIf>
</responseCondition>
<setOutcomeValue identifier="FEEDBACK"><variable identifier="RESPONSE"/></setOutcomeValue>
</responseProcessing>"""
