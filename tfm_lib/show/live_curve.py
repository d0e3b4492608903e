"""Watching a run: its learning curve grows in the notebook while it trains."""

import numpy as np
from ipywidgets import VBox

from tfm_lib.checkpoints import State
from tfm_lib.show.figure import COLORS, Figure, style
from tfm_lib.show.live import Live
from tfm_lib.show.screen import Screen


class LiveCurve(Live):
    """The loss of a run of so many steps, for `train(..., save=curve, save_every=10)`: it is drawn at each call.

    Its stored form is a line of text, since the picture of a finished run is `plots.learning_curve(history)`.
    """

    @style()
    def __init__(self, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}; give those of the recipe")
        self._steps = steps
        figure = Figure("No step was taken yet: the curve grows while the training runs.", 2.3)
        self._axes = figure.subplots()
        self._axes.set(xlabel="step", ylabel="loss", xlim=(0, steps), ylim=(0, 10))
        self._axes.grid(axis="y")
        (self._line,) = self._axes.plot([], [], "-", color=COLORS[0])
        (self._end,) = self._axes.plot([], [], "o", color=COLORS[1], ms=7, clip_on=False)
        self._screen = Screen(figure, [self._line, self._end], seldom=[self._axes.yaxis])
        text = f"The learning curve of {steps} steps. Run this cell and the training to watch it grow."
        super().__init__(VBox([self._screen.image, self._screen.words]), {"text/plain": text})

    def __call__(self, state: State) -> None:
        """Show how far the run is; `train` calls this at once, every `save_every` steps and at the end."""
        step, loss = np.asarray(state.history.step), np.asarray(state.history.loss)
        if not len(step):
            return
        if loss.max() > self._axes.get_ylim()[1] or len(self._line.get_xdata()) == 0:
            self._axes.set_ylim(0, 1.1 * loss.max())
        self._line.set_data(step, loss)
        self._end.set_data(step[-1:], loss[-1:])
        lowest = int(loss.argmin())
        self._screen.show(
            f"Step {step[-1]} of {self._steps}: the loss is {loss[-1]:.2f}. It was {loss[0]:.2f} in step {step[0]}, "
            f"and its lowest so far is {loss[lowest]:.2f}, in step {step[lowest]}."
        )


def live_curve(steps: int) -> LiveCurve:
    """A learning curve that grows while `train(..., save=curve)` runs; steps are those of the recipe.

    Raises ValueError for fewer than 1.
    """
    return LiveCurve(steps)
