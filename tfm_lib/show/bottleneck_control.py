"""Copying n digits through one vector, with attention, and with the Transformer: turn n."""

from statistics import fmean

from tfm_lib.show.control import Live, control, load_record, percent, sentence
from tfm_lib.show.figure import MEANING, SEQUENTIAL, Figure, style

RECORD = "benchmarks/before_and_beside/copying_digits.json"
MODELS = ("GRU", "GRU with attention", "Transformer")
BEGIN, LOOKS = 10, "GRU with attention"  # digits, and whose map, to begin with


@style()
def bottleneck_control() -> Live:
    """Three models that repeat digits: turn n, and see what is right and where they look.

    It shows what `benchmarks/before_and_beside/copying_digits.py` has written; nothing is trained.
    """
    record = load_record(RECORD)
    lengths = [int(n) for n in record["strings"]]
    strings, runs = list(record["strings"].values()), record["runs"]
    models = []
    for name in MODELS:
        found = [[run for run in runs if (run["model"], run["n"]) == (name, n)] for n in lengths]
        model = {"name": name, "whole": [round(fmean(run["whole"] for run in same), 4) for same in found]}
        models.append(model | {key: [same[0][key] for same in found] for key in ("wrote", "looked")})
    at = lengths.index(BEGIN)
    weights = models[MODELS.index(LOOKS)]["looked"][at]
    on_it = fmean(row[i] for i, row in enumerate(weights))
    right = [model["whole"][at] for model in models]
    shares = ", ".join(f"{name} {percent(share)}" for name, share in zip(MODELS, right, strict=True))
    wrote = ", ".join(f"{model['name']} {model['wrote'][at]}" for model in models)
    figure = Figure(sentence("bottleneck", BEGIN, shares, strings[at], wrote, LOOKS, f"{on_it:.0f}"), 2.5)
    bars, grid = figure.subplots(1, 2)
    bars.barh(MODELS, right, color=MEANING["training"].color)
    for row, share in enumerate(right):
        bars.text(share + 0.02, row, percent(share), va="center", size=8)
    bars.set(title="whole strings right", xlim=(0, 1.35), xticks=(0, 0.5, 1), xticklabels=("0 %", "50 %", "100 %"))
    bars.invert_yaxis()
    grid.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=100)
    places = range(BEGIN)
    grid.set(title="where the GRU with attention looks", xlabel="heard", ylabel="written", xticks=places, yticks=places)
    grid.set_xticklabels(list(strings[at]))
    grid.set_yticklabels(list(strings[at]))
    data = {"lengths": lengths, "strings": strings, "models": models, "n": BEGIN, "looks": LOOKS}
    return control("bottleneckControl", data, figure)
