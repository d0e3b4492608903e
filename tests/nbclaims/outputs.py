"""Which outputs count as equal."""

import base64
import difflib
import io
import json
import re
from copy import deepcopy
from typing import Any

import numpy as np
from nbformat import NotebookNode, from_dict
from nbval.plugin import coalesce_streams
from PIL import Image

from .project import project

# What differs from run to run and says nothing.
NOISE = [
    (re.compile(r"0x[0-9a-f]{6,16}"), "0xADDRESS"),
    (re.compile(r"\d+\.\d+ ?(s|ms|µs|sec|seconds)\b"), "TIME"),
    (re.compile(r"(CPU times|Wall time): .*"), r"\1"),
    (re.compile(r"\b\d+\.\d+\.\d+[\w.+]*"), "VERSION"),
    (re.compile(r"<dc:date>[^<]*</dc:date>"), "<dc:date>DATE</dc:date>"),
]
# Where a file lies, in a traceback or a warning. From these folders on, and a project's, it is the same anywhere.
COLOR = r"\x1b\[[\d;]*m"
FOLDERS = rf"""({COLOR}|(?<![\w.~:/\\-]))          # a path begins here
    (?:~|[A-Za-z]:)?[/\\](?:[^\s:'"\x1b]*?[/\\])?
    (?:lib[/\\]python3\.\d+[/\\](?:site-packages[/\\])?|Lib[/\\](?:site-packages[/\\])?|(?=(?:FOLDER)[/\\]))"""
CELL = re.compile(r"[^\s\x1b]*ipykernel_\d+[/\\]\d+\.py")
# Data of which nobody sees every digit: decimals may differ by a share, or by so much, as sums are rounded.
DECIMAL = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
RELATIVE, ABSOLUTE = 1e-3, 1e-4
PICTURES = ("image/png", "image/jpeg")
FAR = 64  # of 255: no pixel of the same picture differs by as much
A_SHADE, FEW = 16, 1 / 1000  # nor do more pixels than so many differ by a shade


def clean(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs as they are stored: streams joined, no path of a machine, no transient state."""
    cleaned = coalesce_streams([from_dict(one) for output in deepcopy(outputs) for one in project.stored(output)])
    for output in cleaned:
        for key in ("text", "evalue"):
            if key in output:
                output[key] = _without_folders(output[key])
        if "traceback" in output:
            output["traceback"] = [_without_folders(line) for line in output["traceback"]]
        output.pop("transient", None)
    return cleaned


def _without_folders(text: str) -> str:
    pattern = FOLDERS.replace("FOLDER", "|".join(map(re.escape, project.folders)) or r"(?!)")
    return re.sub(pattern, r"\1", CELL.sub("CELL.py", text), flags=re.VERBOSE)


def comparable(outputs: list[NotebookNode]) -> str:
    """The outputs as a text that people can read: no noise, and of pictures that there is one."""
    parts = []
    for output in clean(outputs):
        kind = output["output_type"]
        if kind == "stream":
            parts.append(f"[{output['name']}]\n{output['text']}")
        elif kind == "error":
            parts.append(f"[error]\n{output['ename']}: {output['evalue']}")
        else:
            data = {mime: value for mime, value in output["data"].items() if mime not in PICTURES}
            for mime in project.rounded & data.keys():
                data[mime] = DECIMAL.sub("NUMBER", _text(data[mime]))
            parts += [f"[{mime}]\n{_text(value)}" for mime, value in sorted(data.items())]
            parts += [f"[{mime}]" for mime in PICTURES if mime in output["data"]]
    text = "\n".join(parts)
    for pattern, replacement in NOISE:
        text = pattern.sub(replacement, text)
    return text


def difference(stored: list[NotebookNode], new: list[NotebookNode], pixels: bool = True) -> str | None:
    """An account of how new outputs differ from the stored ones, texts by line and pictures by shade, or None.

    pixels: whether pictures are compared, and not only their words.
    """
    before, after = comparable(stored), comparable(new)
    if before != after:
        texts = before.splitlines(), after.splitlines()
        lines = difflib.unified_diff(*texts, "in the file", "in this run", lineterm="", n=1)
        return "\n".join(lines) or "only line ends differ"
    old, now = _rounded_numbers(stored), _rounded_numbers(new)
    if not np.allclose(old, now, RELATIVE, ABSOLUTE):
        place = int(np.abs(np.subtract(old, now)).argmax())
        return f"the data differ, by most at {old[place]}, which is {now[place]} in this run"
    for (old_pixels, old_words), (new_pixels, new_words) in zip(_pictures(stored), _pictures(new), strict=True):
        if old_words != new_words:
            return f"the words of a picture were {old_words} and are {new_words}"
        if pixels and (why := off_by_more_than_a_shade(old_pixels, new_pixels)):
            return f"a picture is not the one in the file: {why}"
    return None


def off_by_more_than_a_shade(old: np.ndarray, new: np.ndarray) -> str | None:
    """How two pictures (height, width, colors) differ by more than another processor's rounding makes, or None.

    A processor that rounds otherwise, by a part in 100,000, changes edges: 26 of 255 at most, in few pixels. Another
    label, line or color changes some pixels by more, and another shade of an area many pixels by less.
    """
    if old.shape != new.shape:
        return f"{old.shape[1]} x {old.shape[0]} pixels there, {new.shape[1]} x {new.shape[0]} now"
    off = np.abs(old.astype(int) - new.astype(int)).max(-1, initial=0)
    many = (off >= A_SHADE).mean()
    if off.max(initial=0) >= FAR or many > FEW:
        return f"{many:.2%} of the pixels differ, by up to {off.max()} of 255"
    return None


def _rounded_numbers(outputs: list[NotebookNode]) -> list[float]:
    """The decimals in the data whose decimals may differ, in order."""
    data = [_text(value) for o in outputs for mime, value in o.get("data", {}).items() if mime in project.rounded]
    return [float(number) for text in data for number in DECIMAL.findall(text)]


def _pictures(outputs: list[NotebookNode]) -> list[tuple[np.ndarray, Any]]:
    """The pixels and metadata (words and width) of each picture."""
    found = []
    for output in outputs:
        for mime in PICTURES:
            if mime in output.get("data", {}):
                with Image.open(io.BytesIO(base64.b64decode(output["data"][mime]))) as image:
                    pixels = np.asarray(image.convert("RGBA"))
                found.append((pixels, output.get("metadata", {}).get(mime)))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
