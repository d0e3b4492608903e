"""The progress bar of a run."""

from tqdm.auto import tqdm

LAYOUT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}, {remaining} left"


class Progress(tqdm):
    """Shows loss, speed and the time left."""

    def __init__(self, steps: int, done: int, shown: bool, now: float) -> None:
        super().__init__(total=steps, initial=done, bar_format=LAYOUT, smoothing=0, disable=not shown)
        self.began, self.tokens = now, 0

    def add(self, loss: float, tokens: int, now: float) -> float:
        """Count a step on so many tokens, done by now in seconds; returns the seconds that all of them have taken."""
        spent, self.tokens = now - self.began, self.tokens + tokens
        speed = self.tokens / max(spent, 1e-9)  # a coarse clock may not have ticked yet
        self.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s", refresh=False)
        self.update()
        return spent
