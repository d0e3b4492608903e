"""The progress bar of a run."""

from tqdm.auto import tqdm

from tfm_lib.learning.recipes import Recipe

LAYOUT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}"


class Progress(tqdm):
    """Shows loss, speed, and the time left until the steps of this kind or the minutes are over."""

    def __init__(self, recipe: Recipe, done: int, minutes: float, shown: bool, now: float) -> None:
        super().__init__(total=recipe.steps, initial=done, bar_format=LAYOUT, disable=not shown)
        self.recipe, self.seconds, self.step, self.tokens = recipe, 60 * minutes, done, 0
        self.began, self.timed_from = now, (done, 0.0)  # the step and second from which steps of this kind are timed

    def add(self, loss: float, tokens: int, now: float) -> bool:
        """Count a step on so many tokens, done by now in seconds; returns whether the minutes are over."""
        spent = now - self.began
        self.step, self.tokens = self.step + 1, self.tokens + tokens
        self.set_postfix_str(self.report(loss, spent), refresh=False)
        self.update()
        if self.step == self.recipe.usual_steps:
            self.timed_from = (self.step, spent)
        return spent >= self.seconds

    def report(self, loss: float, spent: float) -> str:
        risk_follows = self.step < self.recipe.usual_steps < self.recipe.steps
        end, then = (self.recipe.usual_steps, ", then risk") if risk_follows else (self.recipe.steps, "")
        step, second = self.timed_from
        left = min((end - self.step) * (spent - second) / (self.step - step), max(0.0, self.seconds - spent))
        speed = self.tokens / max(spent, 1e-9)  # a coarse clock may not have ticked yet
        return f"loss {loss:.3f}, {speed:,.0f} tokens/s, {left // 60:.0f}:{left % 60:02.0f} left{then}"
