"""Outputs that count as equal, and those that do not."""

import base64
import io

import numpy as np
import pytest
from nbformat.v4 import new_output
from PIL import Image

from ..cells import printed
from ..outputs import FAR, clean, difference, off_by_more_than_a_shade
from ..project import project


def picture(color: str, words: str = "A leaf.", compress_level: int = 6) -> list:
    file = io.BytesIO()
    Image.new("RGB", (9, 9), color).save(file, "PNG", compress_level=compress_level)
    data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": words}
    return [new_output("display_data", data, metadata={"image/png": {"alt": words}})]


@pytest.mark.parametrize(
    ("stored", "new", "why"),
    [
        ("<A at 0x7f00aabbcc> took 1.25 s", "<A at 0x7f00ddeeff> took 0.75 s", None),
        (" in /tmp/ipykernel_12/34.py", " in /var/ipykernel_5/6.py", None),
        ("torch 2.15.0+cu132", "torch 2.16.0", None),
        ("[62]", "[63]", "-[62]\n+[63]"),
        ("torch 2.15.0", "numpy 2.15.0", "-torch VERSION\n+numpy VERSION"),
        ("1.25", "1.26", "-1.25\n+1.26"),
    ],
)
def test_what_is_noise_and_what_is_not(stored, new, why):
    found = difference(printed(stored), printed(new))
    assert found is None if why is None else why in found


def test_pictures_are_compared_by_pixels_and_words_however_they_are_packed():
    one, packed_otherwise = picture("red"), picture("red", compress_level=0)
    assert one != packed_otherwise and difference(one, packed_otherwise) is None
    assert "a picture is not the one in the file" in difference(picture("red"), picture("blue"))
    assert difference(picture("red"), picture("blue"), pixels=False) is None
    for pixels in (True, False):
        assert "-A twig." in difference(picture("red", "A twig."), picture("red"), pixels)


@pytest.mark.parametrize(
    ("shades", "differs"),
    [([FAR - 1], False), ([FAR], True), ([15] * 2000, False), ([16] * 2, False), ([16] * 3, True)],
)
def test_few_pixels_may_differ_by_little_and_none_by_much(shades, differs):
    old = np.full((50, 40, 4), 100, dtype=np.uint8)  # of 2000 pixels, 2 are a thousandth
    new = old.copy().reshape(-1, 4)
    new[: len(shades), 1] -= np.array(shades, dtype=np.uint8)
    found = off_by_more_than_a_shade(old, new.reshape(old.shape))
    assert bool(found) == differs
    assert "50 x 40 pixels there, 40 x 50 now" in off_by_more_than_a_shade(old.transpose(1, 0, 2), old)


def test_rounded_data_may_differ_by_rounding_and_by_nothing_else(monkeypatch):
    monkeypatch.setattr(project, "rounded", {"application/tree+json"})

    def control(data: str):
        return [new_output("display_data", {"application/tree+json": {"data": data}, "text/plain": "A control."})]

    one = control("[1.250001, 2, 1e-05]")
    assert difference(one, control("[1.250002, 2, 1e-05]")) is None
    assert "differ, by most at 1.250001, which is 1.26" in difference(one, control("[1.26, 2, 1e-05]"))
    assert difference(one, control("[1.250001, 3, 1e-05]")) and difference(one, control("[1.250001, 0.5, 2, 1e-05]"))


def test_stored_outputs_name_no_folder_of_a_machine(monkeypatch):
    monkeypatch.setattr(project, "folders", ["forest"])
    lines = (
        "File ~/course/.venv/lib/python3.11/site-packages/torch/nn.py:3\n"
        "File \x1b[32m/home/ada/main/forest/oak.py:9\x1b[39m\n"
        "File C:\\course\\forest\\oak.py, /usr/lib/python3.12/json/decoder.py\n"
        "/tmp/ipykernel_12/34.py:4: UserWarning: 1/2 / 3 of forest/oak.py and https://a.org/forest/b"
    )
    [shown] = clean(printed(lines))
    assert shown.text == (
        "File torch/nn.py:3\n"
        "File \x1b[32mforest/oak.py:9\x1b[39m\n"
        "File forest\\oak.py, json/decoder.py\n"
        "CELL.py:4: UserWarning: 1/2 / 3 of forest/oak.py and https://a.org/forest/b"
    )
