"""The one table of lessons, and where the files of the course lie.

The map, the README, the teaching page, the checks of the exercises and the tests read it; a new lesson is a new row.
"""

from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent
# An installed package brings the lessons along, inside it; in a clone they lie beside it.
COURSE = PACKAGE if (PACKAGE / "notebooks").is_dir() else PACKAGE.parent
IN_CLONE = COURSE != PACKAGE


class Lesson(NamedTuple):
    """A row of the table."""

    number: str  # two digits, with which its file begins
    topic: str  # the rest of the file's name, by which its exercises are known too
    title: str
    question: str  # what it answers, in two short lines
    color: str  # that of its part in the drawing of the whole model
    reading: int  # minutes, with every cell run and looked at
    exercises: int  # minutes for all of them; 0 where there are none
    place: tuple[int, int]  # on the map: column, and row from the top
    builds_on: tuple[str, ...]  # the numbers of the lessons that an arrow leads from

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.number}_{self.topic}"

    @property
    def short(self) -> str:
        """A word or two for it, as they stand on the map."""
        return self.title.lower().removeprefix("the ").partition(" on ")[0]

    @property
    def file(self) -> Path:
        """Its notebook, as the course brings it."""
        return course_file(f"notebooks/{self.name}.ipynb")


# fmt: off
LESSONS = (
    Lesson("00", "start_here", "Start here", "What is it for, and\nwhat will I build?",
           "gray", 27, 0, (0, 0), ()),
    Lesson("01", "attention", "Attention", "How does a query look\nthings up softly?",
           "blue", 28, 103, (1, 0), ("00",)),
    Lesson("02", "masked_softmax", "Masked softmax", "What must not be seen,\nand how is it hidden?",
           "blue", 25, 80, (2, 0), ("01",)),
    Lesson("03", "multi_head_attention", "Multi-head attention", "Why several heads, and\nwhat does splitting cost?",
           "blue", 28, 75, (2, 1), ("02",)),
    Lesson("04", "positional_encoding", "Positional encoding", "How does order\nget in?",
           "orange", 28, 97, (1, 1), ("01",)),
    Lesson("05", "layers", "Layers", "What makes depth\ntrainable?",
           "yellow", 29, 81, (2, 2), ("03",)),
    Lesson("06", "full_model", "The full model", "How do the parts\nbecome one model?",
           "violet", 28, 94, (1, 2), ("04", "05")),
    Lesson("07", "training_on_toy_summaries", "Training on toy summaries", "How does it learn\nto summarize?",
           "gray", 29, 88, (0, 2), ("06",)),
    Lesson("08", "decoding", "Decoding", "How does it\nchoose words?",
           "gray", 29, 96, (0, 3), ("07",)),
    Lesson("09", "speed", "Speed", "Where does the time go,\nand what saves it?",
           "gray", 27, 66, (1, 3), ("08",)),
    Lesson("10", "scale", "Scale", "How do several machines\ntrain one model?",
           "gray", 22, 20, (2, 3), ("09",)),
    Lesson("11", "real_text", "Real text", "How does it learn from\nreal text, and how well?",
           "gray", 29, 99, (0, 4), ("08",)),
    Lesson("12", "pretrained", "Published weights", "How do weights of others\nget in, and ours out?",
           "gray", 30, 87, (1, 4), ("11",)),
    Lesson("13", "your_own", "Your own", "Is the Transformer that\nI wrote right?",
           "gray", 20, 157, (2, 4), ("08",)),
    # Part two: each alone, after 08.
    Lesson("14", "before_and_beside", "Before and beside", "What did attention replace,\nand at what price?",
           "gray", 25, 60, (0, 5), ()),
    Lesson("15", "cheaper_attention", "Cheaper attention", "What may attention cost,\nand what may it miss?",
           "gray", 27, 87, (1, 5), ()),
    Lesson("16", "families_and_scale", "Families and scale", "What do BERT, GPT and T5\nshare, and what is size worth?",
           "gray", 30, 59, (2, 5), ()),
    Lesson("17", "adapt_and_compress", "Adapt and compress", "How is a trained model\nchanged, and made small?",
           "gray", 28, 70, (0, 6), ()),
    Lesson("18", "pictures_and_text", "Pictures and text", "What if the words\nare patches?",
           "gray", 29, 60, (1, 6), ()),
)
# fmt: on

FIRST_BEYOND = 5  # the row of the map at which part two begins: lessons beyond the paper, each alone, after 08


def course_file(name: str) -> Path:
    """A file of the course, such as "benchmarks/speed/changes.json", in a clone and in an installed package alike."""
    return COURSE / name
