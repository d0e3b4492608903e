"""One meaning a color through the whole course: of roles and of lines, of weights and of signed numbers."""

from typing import NamedTuple

from matplotlib.colors import LinearSegmentedColormap, ListedColormap

INK, QUIET, PALE = "#1f2933", "#52606d", "#d9dee4"
# After Okabe and Ito, darker where letters ask for it (4.5 to 1 on white). Each goes with a line style.
_BLUE, _VERMILION, _GREEN = ("#006aae", "#d3e5f6"), ("#c5510b", "#fbe3c8"), ("#00865b", "#d5ecd9")
_PURPLE, _OLIVE, _TEAL = ("#6b2f86", "#e6def2"), ("#625000", "#f3eec9"), ("#087272", "#d3ecec")
_CRIMSON, _GRAY = ("#8a1b4e", "#f9d9d6"), ("#7b8794", "#eef1f4")
COLORS = tuple(color for color, _ in (_BLUE, _VERMILION, _GREEN, _PURPLE, _OLIVE, _TEAL))  # of lines without a role
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 0.6)))


class Look(NamedTuple):
    """How a role is drawn: `axes.plot(losses, **MEANING["pre-norm"].line)`."""

    color: str  # of its lines, points and letters
    fill: str  # of its boxes and areas, pale under dark letters
    linestyle: str = "-"

    @property
    def line(self) -> dict[str, str]:
        """Arguments for a line of it."""
        return {"color": self.color, "linestyle": self.linestyle}


# One meaning a color through the whole course. A row holds roles that may meet in one picture; in it no color stands
# for two of them. Roles of different rows may share a color, and never meet.
ROLES = (
    {"query": Look(*_BLUE), "key": Look(*_VERMILION, "--"), "value": Look(*_GREEN, "-.")},
    {  # parts of the model; "norm" takes in the residual ways, "output" turns the last vectors into words
        "embedding": Look(*_CRIMSON),
        "positions": Look(*_VERMILION, "--"),
        "attention": Look(*_BLUE),
        "feed-forward": Look(*_GREEN, "-."),
        "norm": Look(*_OLIVE, "--"),
        "output": Look(*_PURPLE, ":"),
    },
    {"encoder": Look(*_TEAL), "decoder": Look(*_PURPLE, "--")},  # the memory is the encoder's
    {"post-norm": Look(*_PURPLE), "pre-norm": Look(*_GREEN, "--")},
    {"with": Look(*_BLUE), "without": Look(*_VERMILION, "--")},  # a part; without it, or broken
    {"training": Look(*_BLUE), "validation": Look(*_OLIVE, "--")},
    {"ours": Look(*_BLUE), "library": Look(*_OLIVE, "--")},
    {"allowed": Look("#08306b", "#9cc9e8"), "hidden": Look("#9a5b13", "#f1f3f5")},  # pairs of a mask
    {"chosen": Look(*_BLUE), "aside": Look(*_GRAY, ":")},  # aside: what was dropped, baselines, guides
)
MEANING = {role: look for row in ROLES for role, look in row.items()}
# Zero is nearly white, so that the eye goes to the weights; light to dark, so that it also reads in gray.
SEQUENTIAL = LinearSegmentedColormap.from_list("weight", ["#f9fafb", "#a9d0ea", "#2f7fb8", "#08306b"])
MASK = ListedColormap([MEANING["hidden"].fill, MEANING["allowed"].fill])  # of False and True
# Its ends differ in lightness as well as in hue: the sign of a number survives a gray print.
DIVERGING = LinearSegmentedColormap.from_list("tfm", ["#08306b", "#5b8fc7", "#f7f7f7", "#fdc67a", "#ec8a1c"])
DARK = 0.68  # from this weight on white letters stand out from SEQUENTIAL, below it black ones, by 4.5 to 1
