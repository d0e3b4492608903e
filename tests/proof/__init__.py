"""Proves the notebooks: every cell runs, every output repeats, every number in the prose is checked.

prose.py        finds the sentences, numbers and claims in Markdown
claims.py       the rules of a claim, and how a kernel evaluates it
lint.py         what can be checked without running anything
outputs.py      which outputs count as equal
environment.py  when outputs are compared, and what every kernel finds in its environment
collector.py    all of it as pytest items
plugin.py       what pytest loads, and the line in its summary
cells.py        builds notebooks from Python
stamp.py        the first code cell and the Colab badge
author.py       the commands `lessons` and `stamp`
"""
