"""The numbers of a text, in digits and in words, and how exactly each is written.

Of numbers in words only these are measured: fractions and multiples (a third, twice as, ten times, tenfold), a hundred
and up, "n of m", and counts of lines, cells, versions, names and questions. "Two heads" needs no claim.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

UNITS = dict(zero=0, one=1, two=2, three=3, four=4, five=5, six=6, seven=7, eight=8, nine=9, ten=10, eleven=11) | dict(
    twelve=12, thirteen=13, fourteen=14, fifteen=15, sixteen=16, seventeen=17, eighteen=18, nineteen=19
)
TENS = dict(twenty=20, thirty=30, forty=40, fifty=50, sixty=60, seventy=70, eighty=80, ninety=90)
LARGE = dict(hundred=1e2, thousand=1e3, million=1e6, billion=1e9)
PARTS = dict(half=2, third=3, quarter=4, fifth=5, sixth=6, seventh=7, eighth=8, ninth=9, tenth=10) | dict(
    sixteenth=16, hundredth=1e2, thousandth=1e3, millionth=1e6, billionth=1e9
)
# Words that say "half" or "twice" and state nothing measured, as the lessons use them.
IDIOMS = re.compile(
    r"""
      half[ ]precision | half-hearted | \b(?:other|left|right|first|second|upper|lower|their|its|our|which|the)[ ]half\b
    | (?:about|almost|nearly|under)[ ]half[ ]an?[ ](?:minute|hour)\b | \bhalf[ ]an?[ ](?:hour|minute|sentence)\b
    | \ba[ ]minute[ ]and[ ]a[ ]half\b | \bonce[ ]or[ ]twice\b | \bhalf[ ](?:a[ ])?(?:way|turn)\b | \bquarter[ ]turn\b
    | \b[Tt]hree[ ]questions[ ]tell\b | \b[Dd]ifficulty[ ]\d[ ]of[ ]5\b | \b[Dd]ouble[- ]?(?:click|check|space|quote)\w*
    | \bone[ ]of[ ](?:the[ ])?\w+ | \bworker[ ]\d[ ]of[ ]\d
    """,
    re.VERBOSE,
)

DIGITS = r"[-\N{MINUS SIGN}]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
NUMBER = rf"(?P<number>(?<![\w.,])(?<![A-Za-z]-){DIGITS})(?!\d|\.\d|D\b|-(?!fold)[A-Za-z])"
COMPARED = r"(?:as|more|less|fewer|faster|slower|larger|smaller|longer|shorter|bigger|greater|the)\b"
BY = r"[x\N{MULTIPLICATION SIGN}]"
FACTOR = rf"[ ]?times\b|-?fold\b|{BY}(?!\w|[ ]?\d)|[ ]{BY}(?=[ ]{COMPARED})"
SMALL = rf"(?:(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS)}))?|{'|'.join(sorted(UNITS, key=len, reverse=True))})"
COUNT = rf"(?:(?:a|one)[ ]hundred|(?<![\d.,])\d{{1,3}}(?:,\d{{3}})+|(?<![\d.,])\d+(?![.,]?\d)|\b{SMALL}\b)"
BIG = "|".join(LARGE)
PART = "|".join(PARTS)

SHARE = re.compile(
    rf"(?i)(?P<n>{COUNT})(?:[ ](?:out[ ])?of[ ](?:the[ ])?(?P<m>{COUNT})"
    rf"|[ ]\w+[ ](?:out[ ])?of[ ](?:a[ ])?(?P<round>ten|hundred|10|20|100|1000)\b)(?![- ]?(?:{PART})|[ ](?:{BIG}))"
)
MULTIPLE = re.compile(
    rf"(?i)\b(?:(?P<twice>twice)(?=\x01*[ ](?:as|the(?![ ]same)|that|what|its|their|of)\b)|(?P<thrice>thrice)|"
    r"(?P<double>doubl(?:e|es|ed|ing))\b"
    rf"|(?P<count>(?:an?[ ]|{SMALL}[ ]|(?<!\d[ ]))(?:{BIG})(?:[ ](?:{BIG}))?|{SMALL})(?:[ ]times\b|-?fold\b))"
)
FRACTION = re.compile(
    rf"(?i)\b(?:(?P<half>half|halved)\b|(?P<count>an?|one|{SMALL})[ ](?:(?P<ten>hundred|ten)-)?(?P<part>{PART})s?\b"
    r"(?=\x01*[ ](?:of|as|less|more|fewer|to|for|million)\b|[\s\x01]*(?:[.,;:)]|\Z)))"
)
IN_WORDS = re.compile(
    rf"(?i)\b(?:(?:an?|half[ ]an?|a[ ]quarter(?:[ ]of[ ]an?)?|{SMALL})[ ])?(?:{BIG})(?:[ ](?:{BIG}))?\b(?!-)"
)
COUNTED = re.compile(rf"(?P<n>{COUNT})[ ](?:\w+[ ])?(?:lines|cells|versions|names|questions)\b", re.IGNORECASE)
IN_DIGITS = re.compile(
    rf"{NUMBER}(?:(?P<kilo>k)\b|[ ](?P<big>{BIG})\b)?(?:[ ]?(?P<percent>%|percent\b|per cent\b)|(?P<factor>{FACTOR}))?"
)
PLAIN = re.compile(rf"\b{SMALL}\b(?!-)", re.IGNORECASE)

ABOUT = re.compile(
    r"(?i)\b(?:about|near|nearly|almost|roughly|around|approximately|close to|practically)"
    r"(?: to)?(?: an?| the| one)?[\s$`*_(]*\Z"
)
UP = re.compile(
    r"(?i)(?<!no )(?<!not )(?<!never )\b(?:more than|above|over|at least|larger than|beyond)(?: an?| the)?[\s$`*_(]*\Z"
)
DOWN = re.compile(
    r"(?i)(?:\b(?:less than|fewer than|below|under|at most|up to|smaller than|not even)|\b(?:no|not|never) more than)"
    r"(?: an?| the)?[\s$`*_(]*\Z"
)
CLOSE = 0.05  # what "about" allows
IN_A_WORD = 0.02  # what a word without decimals allows: half, twice, a thousand, 3 times


@dataclass(frozen=True)
class Number:
    """A number as the prose writes it; `values` is what a claim may call it (47 % is 47 or 0.47)."""

    text: str
    values: tuple[float, ...]
    measured: bool
    steps: tuple[float, ...] = ()  # how far the true value may lie from each of `values`, so that it rounds to it
    hedge: str = ""  # "up" after "more than", "down" after "less than"
    counts: bool = True  # False for "one" and 0, which mostly count nothing
    start: int = 0
    about: bool = False  # after "about", "near" and the like

    def is_of(self, value: float) -> bool:
        """True if `value`, rounded as the prose writes it, is this number."""
        return any(
            abs(value - wanted) <= max(step * (1 + 1e-6), 1e-9 * abs(wanted))
            for wanted, step in zip(self.values, self.steps, strict=True)
        )


def small(word: str) -> float:
    """The number that digits or a word up to ninety-nine say."""
    word = word.lower().replace(",", "")
    if word.isdecimal():
        return int(word)
    if word.endswith("hundred"):
        return 100
    return sum((UNITS | TENS | {"a": 1, "an": 1}).get(part, 0) for part in word.split("-"))


def large(text: str) -> float:
    """The number that words from a hundred up say: "a hundred thousand", "half a million", "a quarter million"."""
    value, text = 1.0, text.lower()
    for word, power in LARGE.items():
        if re.search(rf"\b{word}\b", text):
            value *= power
    count = re.split(rf"\b(?:{BIG})\b", text)[0].strip()
    first = count.split(" ")[0]
    return value * (0.5 if first == "half" else 0.25 if "quarter" in count else small(count) if count else 1)


# What a match says: what a claim may call it, how far from each the true value may lie, and whether it is measured.
Reading = tuple[list[float], list[float], bool]


def _word(value: float) -> Reading:
    return [value], [IN_A_WORD * value], True


def _share(match: re.Match) -> Reading | None:
    n, m = small(match["n"]), small(match["m"] or match["round"])
    return ([n, n / m], [0.5, 0.5 / m], True) if 1 <= n <= m and m > 1 else None


def _multiple(match: re.Match) -> Reading | None:
    count = (match["count"] or "").lower()
    value = 3 if match["thrice"] else large(count) if re.search(BIG, count) else small(count) if count else 2
    return ([value, 1 / value], [IN_A_WORD * value, IN_A_WORD / value], True) if value else None


def _digits(match: re.Match) -> Reading:
    written = match["number"].replace(",", "").replace("\N{MINUS SIGN}", "-")
    value = float(written)
    mantissa, _, exponent = written.lower().partition("e")
    step = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    if match["factor"] and "." not in written:
        step = min(step, IN_A_WORD * abs(value))
    scales = [1.0, *[0.01] * bool(match["percent"]), *[1e3] * bool(match["kilo"])]
    if match["big"]:
        scales.append(LARGE[match["big"].lower()])
    measured = len(scales) > 1 or bool(match["factor"] or re.search(r"[.,eE]", match["number"]))
    return [value * scale for scale in scales], [step * scale for scale in scales], measured


def _in_words(match: re.Match) -> Reading | None:
    vague = re.search(r"\b(?:few|several|some|many) \Z", match.string[: match.start()])
    return None if vague else _word(large(match[0]))


def _fraction(match: re.Match) -> Reading:
    part = PARTS[(match["part"] or "half").lower()] * {"hundred": 100, "ten": 10}.get(match["ten"], 1)
    return _word(small(match["count"] or "one") / part)


FORMS: list[tuple[re.Pattern, Callable[[re.Match], Reading | None]]] = [
    (SHARE, _share),
    (MULTIPLE, _multiple),
    (COUNTED, lambda match: ([n], [0.0], True) if (n := small(match["n"])) > 2 else None),
    (IN_DIGITS, _digits),
    (IN_WORDS, _in_words),
    (FRACTION, _fraction),
    (PLAIN, lambda match: ([n := small(match[0])], [0.5 if n > 1 else 0.0], False)),
]


def numbers_in(text: str) -> list[Number]:
    """All numbers of a text, in order, with what a claim may call each; a form takes nothing of an earlier one."""
    found: list[Number] = []
    taken = [match.span() for match in IDIOMS.finditer(text)]
    for pattern, read in FORMS:
        for match in pattern.finditer(text):
            start, end = match.start(), match.end("n" if "n" in pattern.groupindex else 0)
            if any(start < stop and end > begin for begin, stop in taken) or not (reading := read(match)):
                continue
            taken.append((start, end))
            values, steps, measured = reading
            before = text[max(0, start - 40) : start].replace("\x01", "")
            if about := bool(ABOUT.search(before)):
                steps = [max(step, CLOSE * abs(value)) for value, step in zip(values, steps, strict=True)]
            hedge = "up" if UP.search(before) else "down" if DOWN.search(before) else ""
            counts = match[0].lower() not in ("one", "zero", "0")
            found.append(Number(match[0], tuple(values), measured, tuple(steps), hedge, counts, start, about))
    return sorted(found, key=lambda number: number.start)
