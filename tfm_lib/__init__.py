"""The finished definitions of the course. The model is five files, small enough to read from end to end.

masks -> attention -> positions -> layers -> model    the model
copying                                               the same with a head that copies words of the source
newsroom, pairs, docstrings, vocabulary -> batches    its data
recipes, checkpoints -> training -> workers, tasks    how it learns
next_token -> decoding -> beam, tracing               how it writes, is looked into
rouge -> scoring                                      how it is judged
pretrained -> writing                                 what ships, and a trained model at work
lessons                                               the one table of lessons, and where their files lie
show/                                                 figures, and the controls around them
ask/                                                  questions, quiz, flashcards, exercises with their checks
runs, texts, lab, __main__                            the commands behind make
files, errors                                         files written whole, errors told in a line

One legend of axes, used in every shape comment:

    B  batch (independent examples)         D  d_model, the width of a token's vector
    H  heads                                K  width of one head, D / H
    T  query positions (the target side)    V  size of the vocabulary
    S  key positions (the source side)

One rule for masks: boolean, True means "may attend", four axes that broadcast to (B, H, T, S), combined with `&`.
`F.scaled_dot_product_attention` reads a mask that way; `nn.MultiheadAttention` reads it the opposite way.
"""

import sys

# Names from before the folders, as notebooks that were begun then import them.
_MOVED = {
    "summaries": ("vocabulary", "batches", "pairs"),
    "choices": ("next_token",),
    **{name: (f"show.{name}",) for name in ("figure", "plots", "drawings", "live", "newsdesk")},
    "controls": ("show.control",),
    "widgets": ("show.softmax_controls", "show.mask_control"),
    "clocks": ("show.sinusoid_control",),
    "watching": ("show.live_curve",),
    "summarizing": ("show.summarizer_controls",),
    **{name: (f"ask.{name}",) for name in ("questions", "quiz", "flashcards")},
}


class _Moved:
    """Finds a module under the name that it had before."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        if name.removeprefix("tfm_lib.") not in _MOVED or not name.startswith("tfm_lib."):
            return None
        from importlib.util import spec_from_loader

        return spec_from_loader(name, cls)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: object) -> None:
        """The usual one."""

    @staticmethod
    def exec_module(module: object) -> None:
        from importlib import import_module

        names = vars(module)
        for new in _MOVED[names["__name__"].removeprefix("tfm_lib.")]:
            found = vars(import_module(f"tfm_lib.{new}"))
            names.update({name: value for name, value in found.items() if not name.startswith("__")})


sys.meta_path.append(_Moved)  # type: ignore[arg-type]
