"""Proves the notebooks: every cell runs, every output repeats, every number in the prose is checked.

prose.py        finds the sentences and claims in Markdown
numbers.py      finds the numbers in a sentence, in digits and in words
claims.py       what a claim may be, and what it is held to
values.py       whether a claim is true, and its sentence says just that
order.py        whether a sentence and its claim compare in the same direction
references.py   links between lessons, whose numbers follow when something moves
lists.py        which claims are lost or weaker than at the last commit
lint.py         what can be checked without running anything
outputs.py      which outputs and pictures count as equal
environment.py  when outputs are compared, and what every kernel finds in its environment
perturbed.py    what kernels run first, so that random parameters differ by a millionth
roundings.py    a lesson under one rounding after another
collector.py    all of it as pytest items
plugin.py       what pytest loads, and the line in its summary
cells.py        builds notebooks from Python
stamp.py        the first code cell and the Colab badge
author.py       the commands `check`, `claims`, `lessons` and `stamp`
"""
