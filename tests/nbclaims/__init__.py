"""Checked prose: claims in notebooks that pytest evaluates. README.md says how; `-p nbclaims` loads it.

cells.py        builds, reads and writes notebooks
numbers.py      finds the numbers in a sentence, in digits and in words
prose.py        finds the sentences and claims in Markdown
claims.py       what a claim may be, and which numbers it compares with
values.py       whether a claim is true, and its sentence says just that
order.py        whether a sentence and its claim compare in the same direction
lint.py         what can be checked without running anything
outputs.py      which outputs and pictures count as equal
environment.py  what every kernel finds in its environment, and whether outputs are compared
project.py      what a project adds: rules, items, and what decides its outputs
collector.py    all of it as pytest items
plugin.py       pytest's hooks, and the line in its summary
"""

pytest_plugins = [f"{__name__}.plugin"]
