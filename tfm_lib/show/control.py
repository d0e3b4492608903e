"""What brings a control of js/ to a reader: a widget in notebooks, its data for pages, and a picture for both."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anywidget import AnyWidget
from traitlets import Any as Anything
from traitlets import Bool, Bytes, Dict, Unicode

from tfm_lib.lessons import course_file
from tfm_lib.show.live import ON_PAGES, Live
from tfm_lib.show.scripts import CSS, SENTENCES, widget_module

if TYPE_CHECKING:  # torch and matplotlib load only with a picture: a quiz has none
    from tfm_lib.show.figure import Figure


Weights = Mapping[str, bytes] | None  # checkpoints by name
WORDS: dict[str, str] = json.loads(SENTENCES.read_text(encoding="utf-8"))

CAPTIONS = {  # what stands under the picture of a control; its alt text says the rest
    "attentionControl": "Where the model looks in the story while it writes one word of the summary.",
    "beamControl": "The continuations between which beam search chooses at its first step.",
    "bitsControl": "With fewer bits for each weight the file shrinks, and at last the headlines break.",
    "bottleneckControl": "How often three models repeat a string without a mistake, and where one of them looks.",
    "cacheControl": "What the cache keeps after each step of writing, and the work of a step with and without it.",
    "decodingControl": "The summary so far, and the words that are the most probable next.",
    "headsControl": "Where one word looks in each head of a layer, and in the mean of all heads.",
    "machine": "Where each word of the headline that the model writes looks in the story.",
    "maskControl": "Padding and later words are masked, so that they get no weight.",
    "pictureControl": "A picture in patches, the patches that the model looks at, and what it says.",
    "prefixControl": "With a prefix, each token sees all of the prefix and, after it, only the past.",
    "queryAmongKeys": "The larger the dot product of the query with a key, the larger the weight of that key.",
    "sinusoidControl": "How far the hands turn between two positions depends only on their offset.",
    "softmaxTemperature": "The softmax turns the scores of eight keys into weights.",
    "stepsControl": "Which parts of a headline the model gets right at one step of its training.",
    "swapAttention": "One story's headline after the trained model's attention was replaced.",
    "translatorControl": "Where the aligned head looks in a sentence while one subword of its translation is written.",
    "twoSummarizers": "The plain model writes only words that it knows; the copying one takes others from the story.",
}


class Control(AnyWidget):
    """A function of js/ in a cell: a kernel makes it, then it runs by itself, and the kernel may be gone.

    name: the function's; data: what it is given, as JSON; weights: checkpoints in half precision that it reads;
    later: whether it asks for them when it is first touched; answers: what the reader chose, which the browser writes.
    """

    _esm = Unicode().tag(sync=True)
    _css = Unicode().tag(sync=True)
    name = Unicode().tag(sync=True)
    data = Dict().tag(sync=True)
    weights = Dict(value_trait=Bytes()).tag(sync=True)
    later = Bool().tag(sync=True)
    answers = Anything().tag(sync=True)

    def __init__(self, name: str, data: Mapping[str, Any], weights: Weights = None, later: bool = False) -> None:
        super().__init__(_esm=widget_module(name), _css=CSS.read_text(encoding="utf-8"))
        self.name, self.data, self.weights, self.later = name, dict(data), dict(weights or {}), later


def control(name: str, data: Mapping[str, Any], figure: "Figure", weights: Weights = None, later: bool = False) -> Live:
    """The control, with its picture as the static form; pages build it anew of name, data and the models that ship.

    weights: checkpoints by name, as `weights_of` gives them; with one that pages don't have they show the picture.
    later: a page loads them when the reader first touches the control, and not before it is shown.
    """
    from tfm_lib.show.weights import SHIPPED

    figure.caption = CAPTIONS.get(name, figure.caption)
    bundle, about = figure._repr_mimebundle_()
    if {*(weights or {})} <= {*SHIPPED}:
        # As text: a stored notebook sorts the names of whatever is not.
        text = json.dumps(dict(data), ensure_ascii=False)
        bundle[ON_PAGES] = {"name": name, "data": text, "weights": sorted(weights or {})}
        if later:
            bundle[ON_PAGES]["later"] = True
    return Live(Control(name, data, weights, later), bundle, about)


def load_record(name: str) -> dict[str, Any]:
    """What a benchmark has written to the file of that name."""
    return dict(json.loads(course_file(name).read_text(encoding="utf-8")))


def sentence(name: str, *values: object) -> str:
    """What a control and its stored picture both say, by the table that both read: js/words.json."""
    return WORDS[name].format(*values)


def minus(number: float) -> str:
    """A number with two digits and a true minus sign, as in control.js."""
    return f"{number:.2f}".replace("-", "" if abs(number) < 0.005 else "\N{MINUS SIGN}")


def percent(p: float) -> str:
    """A probability, as it is written everywhere: 97.3 %, and never a 0 or a 100 that it is not; as in control.js."""
    if p in (0, 1):
        return f"{100 * p:.0f} %"
    if 0.0005 <= p < 0.9995:
        return f"{100 * p:.1f} %"
    return "< 0.1 %" if p < 0.5 else "> 99.9 %"
