"""What a project adds to nbclaims: rules of its own, and what decides its outputs.

A module that pytest loads after it, `-p nbclaims -p my_rules`, changes the one object of this file, as in README.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

BookRule = Callable[[Path, NotebookNode], Iterator[str]]
ProseRule = Callable[[str], Iterator[str]]


@dataclass
class Project:
    """The defaults suit any project; all of it may be changed while plug-ins are loaded."""

    # Rules by name. They yield what is wrong, a sentence each, with a notebook or the source of a Markdown cell.
    book_rules: dict[str, BookRule] = field(default_factory=dict)
    prose_rules: dict[str, ProseRule] = field(default_factory=dict)
    linted: Callable[[Path], bool] = lambda path: True  # whether the rules are for this notebook
    # Kinds of comments that rules of the project read, beside claims: {"todo"} allows `<!-- todo: ask Eve -->`.
    remarks: set[str] = field(default_factory=set)
    # More pytest items for a cell, given the collector of its notebook and the cell's place; they stand before it.
    items: list[Callable[[Any, int, NotebookNode], Iterable[Any]]] = field(default_factory=list)

    # Outputs are compared where these packages have the versions of this requirements file, on this platform.
    lock: Path | None = None
    packages: list[str] = field(default_factory=list)
    platform: tuple[str, str] | None = None  # of `platform`: (system(), machine())

    # What kernels find in their environment; a switch such as {"USE_GPU": "CUDA_VISIBLE_DEVICES"}, set to 1, leaves
    # the variable as it is, and outputs uncompared.
    variables: dict[str, str] = field(default_factory=lambda: {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    switches: dict[str, str] = field(default_factory=dict)
    # Tags of cells that need what this machine lacks: outputs are not compared, nor claims below them evaluated.
    lacking: set[str] = field(default_factory=set)
    rounding_variable: str = "NBCLAIMS_ROUNDING"  # names one of `environment.ROUNDINGS`

    # Outputs: folders that begin a path in tracebacks, MIME types whose decimals may differ as sums are rounded, and
    # what is stored of an output.
    folders: list[str] = field(default_factory=list)
    rounded: set[str] = field(default_factory=set)
    stored: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda output: [output]
    how_to_update: str = "If the new output is right, execute the notebook and save it."


project = Project()
