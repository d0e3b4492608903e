"""Grades exercises of collected notebooks: what students wrote runs in a sandbox, and only data comes back.

collecting              the source of the exercises' cells, from notebooks of which nothing else is believed
sandbox -> inside       a process without network, that sees the course alone; its values come back by `values`
grading -> report       the grader's own checks of the values, outside; a CSV, and a page of what most got wrong
"""
