"""What a kernel runs first under TFM_ROUNDING=perturbed: every random initial parameter changes by a millionth part.

The change follows from the value alone, so that the same seed still gives the same model.
"""


def _perturb() -> None:
    import re

    import torch

    def perturbed(draw):
        def initialize(tensor, *args, **kwargs):
            result = draw(tensor, *args, **kwargs)
            with torch.no_grad():
                return result.mul_(1 + 1e-6 * torch.sin(1e5 * result))

        return initialize

    for name in vars(torch.nn.init):
        if re.match(r"(?:uniform|normal|trunc_normal|xavier|kaiming|orthogonal).*_$", name):
            setattr(torch.nn.init, name, perturbed(getattr(torch.nn.init, name)))


_perturb()
del _perturb
