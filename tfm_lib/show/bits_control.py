"""The shipped summarizer with fewer bits a weight: turn them, and see bytes, quality and a headline."""

from tfm_lib.show.control import Live, control, load_record, percent, sentence
from tfm_lib.show.figure import MEANING, Figure, style

RECORD = "benchmarks/adapt_and_compress/compressing.json"
LOOKS = {"tensor": MEANING["key"], "row": MEANING["query"], "group": MEANING["value"]}  # of who shares a step
BITS, PER = 4, "row"  # to begin with


@style()
def bits_control() -> Live:
    """Bytes against headlines that are right, for each number of bits and each way to share a step.

    It shows what `benchmarks/adapt_and_compress/compressing.py` has written; nothing is computed anew.
    """
    record = load_record(RECORD)
    points = [{name: row[name] for name in ("bits", "per", "bytes", "exact", "headline")} for row in record["bits"]]
    chosen = next(point for point in points if (point["bits"], point["per"]) == (BITS, PER))
    share, size = percent(chosen["exact"]), f"{chosen['bytes']:,}"
    figure = Figure(sentence("bits", BITS, PER, size, share, record["stories"], chosen["headline"]), 2.8)
    axes = figure.subplots()
    for per, look in LOOKS.items():
        line = [point for point in points if point["per"] == per]
        kilobytes, exact = [point["bytes"] / 1000 for point in line], [100 * point["exact"] for point in line]
        axes.plot(kilobytes, exact, marker="o", markersize=4, label=f"a step for each {per}", **look.line)
    axes.plot(chosen["bytes"] / 1000, 100 * chosen["exact"], "o", markersize=11, mfc="none", mec=LOOKS[PER].color)
    axes.set(xlabel="kB of the file", ylabel="exactly right, %", xlim=(200, 1120), ylim=(-4, 104))
    axes.legend(loc="lower right")
    axes.grid(axis="y")
    data = {"points": points, "wanted": record["wanted"], "stories": record["stories"], "bits": BITS, "per": PER}
    return control("bitsControl", data, figure)
