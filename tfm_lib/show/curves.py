"""Learning curves: the loss of runs over their steps, each named at its end."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from tfm_lib.show.figure import Figure, style


def _read(name: object, run: object) -> tuple[np.ndarray, np.ndarray]:
    losses = np.asarray(getattr(run, "loss", run), dtype=float)
    steps = np.asarray(getattr(run, "step", range(1, losses.size + 1)))
    broken = losses.size - np.isfinite(losses).sum()
    if not losses.size or losses.shape != steps.shape or broken:
        got = f"{steps.size} steps and {losses.size} losses, {broken} of them not finite"
        raise ValueError(f"run {name!r} has {got}; wanted one finite loss a step: draw the steps before it broke")
    return steps, losses


@style()
def learning_curve(runs: object, *, caption: str | None = None) -> Figure:
    """Loss over steps, of one run or of several under their names: {"with warm-up": history, ...}.

    A run is anything with the lists `step` and `loss` (as `training.History`), or just the losses of steps 1, 2, ...
    Past 200 steps the single losses turn pale under the means of some 50 groups of neighbors. The axis is logarithmic
    where the loss falls below a twentieth. Raises ValueError for a run that is empty, not finite, or of unequal lists.
    """
    curves = {str(k): _read(k, run) for k, run in (runs if isinstance(runs, Mapping) else {"loss": runs}).items()}
    if not curves:
        raise ValueError("runs is empty; wanted a history, or a dictionary of histories by name")
    ends = [
        f"{name} goes from {loss[0]:.2f} at step {step[0]} to {loss[-1]:.2f} at step {step[-1]}"
        for name, (step, loss) in curves.items()
    ]
    figure = Figure(caption or f"Learning curve: {'; '.join(ends)}.", 2.9)
    axes = figure.subplots()
    for name, (step, loss) in curves.items():
        group = len(loss) // 50 if len(loss) > 200 else 1
        means = [values[: len(loss) // group * group].reshape(-1, group).mean(1) for values in (step, loss)]
        (line,) = axes.plot(*means, label=name, zorder=3)
        if group > 1:
            axes.plot(step, loss, "-", color=line.get_color(), linewidth=0.6, alpha=0.35, label="_single losses")
    losses = np.concatenate([loss for _, loss in curves.values()])
    if 0 < 20 * losses.min() < losses.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")  # 0.1 and not a power of ten
    axes.set(xlabel="step", ylabel="loss", xmargin=0.01)
    axes.grid(axis="y")
    _name_ends(axes)
    return figure


def _name_ends(axes: Axes) -> None:
    """Each line's name beside its end, moved apart where the ends meet."""
    axes.get_ylim()  # settles the scale that the next line reads
    to_axes = (axes.transData + axes.transAxes.inverted()).transform
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    ends = [(to_axes(np.column_stack(line.get_data())[-1]), line) for line in lines]
    floor = -1.0
    for (x, y), line in sorted(ends, key=lambda end: end[0][1]):
        floor = max(y, floor + 0.085)
        leader = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.8, "relpos": (0, 0.5)}
        name = axes.annotate(str(line.get_label()), (x, y), (1.04, floor), "axes fraction", arrowprops=leader)
        name.set(va="center", color=line.get_color(), weight="bold", parse_math=False)
