"""What the course shows: figures, drawings, and controls around them.

colors -> figure -> plots, curves, ribbons, drawings       pictures
scripts, js/ -> control, weights -> softmax_controls,      controls in JavaScript with the models that ship,
    newsdesk -> summarizer_controls, ...                   for notebooks and pages
live                                                       what a cell shows with a kernel and without one
"""
