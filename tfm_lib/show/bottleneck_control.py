"""Copying n digits through one vector, with attention, and with the Transformer: turn n."""

import json
from statistics import fmean

from tfm_lib.lessons import course_file
from tfm_lib.show.control import control, percent
from tfm_lib.show.figure import MEANING, SEQUENTIAL, Figure, style
from tfm_lib.show.live import Live

RECORD = "benchmarks/before_and_beside/copying_digits.json"
MODELS = ("GRU", "GRU with attention", "Transformer")
BEGIN, LOOKS = 10, "GRU with attention"  # digits, and whose map, to begin with


@style()
def bottleneck_control() -> Live:
    """Three models that repeat digits: turn n, and see what is right and where they look.

    It shows what `benchmarks/before_and_beside/copying_digits.py` has written; nothing is trained.
    """
    record = json.loads(course_file(RECORD).read_text(encoding="utf-8"))
    lengths = [int(n) for n in record["strings"]]
    runs = {
        (name, n): [r for r in record["runs"] if (r["model"], r["n"]) == (name, n)] for name in MODELS for n in lengths
    }
    models = [
        {
            "name": name,
            "whole": [round(fmean(run["whole"] for run in runs[name, n]), 4) for n in lengths],
            "wrote": [runs[name, n][0]["wrote"] for n in lengths],
            "looked": [runs[name, n][0]["looked"] for n in lengths],
        }
        for name in MODELS
    ]
    at = lengths.index(BEGIN)
    heard = record["strings"][str(BEGIN)]
    weights = next(model["looked"][at] for model in models if model["name"] == LOOKS)
    own = fmean(row[i] for i, row in enumerate(weights))
    shares = ", ".join(f"{model['name']} {percent(model['whole'][at])}" for model in models)
    wrote = ", ".join(f"{model['name']} {model['wrote'][at]}" for model in models)
    figure = Figure(
        f"Strings of {BEGIN} digits that are repeated without a mistake: {shares}. Hearing {heard}, "
        f"they write: {wrote}. The {LOOKS} has, on average, {own:.0f} % of its weight on the digit that it writes.",
        2.5,
    )
    bars, grid = figure.subplots(1, 2)
    bars.barh(MODELS, [model["whole"][at] for model in models], color=MEANING["training"].color)
    for row, model in enumerate(models):
        bars.text(model["whole"][at] + 0.02, row, percent(model["whole"][at]), va="center", size=8)
    bars.set(title="whole strings right", xlim=(0, 1.35), xticks=(0, 0.5, 1))
    bars.invert_yaxis()
    grid.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=100)
    places = range(BEGIN)
    grid.set(title="where the GRU with attention looks", xlabel="heard", ylabel="written", xticks=places, yticks=places)
    grid.set_xticklabels(list(heard))
    grid.set_yticklabels(list(heard))
    data = {
        "lengths": lengths,
        "strings": [record["strings"][str(n)] for n in lengths],
        "models": models,
        "n": BEGIN,
        "looks": LOOKS,
    }
    return control("bottleneckControl", data, figure)
