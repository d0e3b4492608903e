"""Watching a run: its learning curve grows in the notebook while it trains."""

from math import ceil

from tfm_lib.learning.checkpoints import State
from tfm_lib.show.control import Control, Live

MOST_POINTS = 500  # more than there are pixels for


class LiveCurve(Live):
    """The loss of a run of so many steps, for `train(..., save=curve, save_every=10)`: it is drawn at each call.

    Its stored form is a line of text, since the picture of a finished run is `plots.learning_curve(history)`. Raises
    ValueError for fewer steps than 1.
    """

    def __init__(self, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}; give those of the recipe")
        text = f"The learning curve of {steps} steps. Run this cell and the training to watch it grow."
        super().__init__(Control("liveCurve", {"steps": steps, "points": []}), {"text/plain": text})

    def __call__(self, state: State) -> None:
        """Show how far the run is; `train` calls this at once, every `save_every` steps and at the end."""
        pairs = zip(state.history.step, state.history.loss, strict=True)
        losses = [(step, round(loss, 6)) for step, loss in pairs]
        if losses:
            shown = losses[:: -ceil(len(losses) / MOST_POINTS)][::-1]  # the last one always
            lowest = min(losses, key=lambda point: point[1])
            # A new one, since a widget tells nobody of what changes within the old.
            self.widget.data = {**self.widget.data, "points": shown, "first": losses[0], "lowest": lowest}


live_curve = LiveCurve  # as lessons call it
