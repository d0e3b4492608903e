"""What the newsroom's model has learned after so many steps of its training."""

from tfm_lib.show.control import Live, control, load_record, percent, sentence
from tfm_lib.show.figure import MEANING, Figure, style

RECORD = "benchmarks/training_on_toy_summaries/newsroom_steps.json"
BEGIN, PLACE = 150, "place"  # the step and the place to begin with
NAMES = {
    "form": "the form",
    "event": "the event",
    "when": "the day",
    "what": "the thing",
    "how_many": "the number",
    "who": "the person",
    "where": "the place",
}
LEARNED = 0.9  # from this share of stories on, it counts as learned


@style()
def steps_control() -> Live:
    """One headline after the steps of a training: turn the step, and see the text, the next words and what is right.

    It shows what `benchmarks/training_on_toy_summaries/newsroom_steps.py` has written; nothing is trained.
    """
    record = load_record(RECORD)
    look = next(look for look in record["looks"] if look["step"] == BEGIN)
    shares = {name: look["right"][key] for key, name in NAMES.items()}
    learned = [name for name, share in shares.items() if share >= LEARNED]
    missing = [name for name in shares if name not in learned]
    words, (before, right) = look["next"][PLACE], record["places"][PLACE]
    best, p = words[0]
    lists = (", ".join(some) or "none" for some in (learned, missing))
    state = BEGIN, record["steps"], f"{look['loss']:.2f}", look["text"], f"After “{before}”", best, percent(p), right
    figure = Figure(sentence("steps", *state, record["others"], *lists), 2.3)
    charts = {
        f"right in {record['others']} other test stories": list(shares.items()),
        f"next word after “... {' '.join(before.split()[-2:])}”": words,
    }
    for axes, (title, rows) in zip(figure.subplots(1, 2), charts.items(), strict=True):
        most = max(share for _, share in rows)
        axes.barh([name for name, _ in rows], [share for _, share in rows], color=MEANING["training"].color)
        for row, (_, share) in enumerate(rows):
            axes.text(share + 0.02 * most, row, f"{100 * share:.1f} %", va="center")
        axes.set(title=title, xlim=(0, 1.3 * most), xticks=())
        axes.invert_yaxis()
    names = ("steps", "story", "places", "others", "curve", "looks")
    begin = {"step": BEGIN, "place": PLACE, "names": NAMES, "enough": LEARNED}
    return control("stepsControl", {name: record[name] for name in names} | begin, figure)
