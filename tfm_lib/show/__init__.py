"""What the course shows: figures, drawings, and controls around them.

figure -> plots, ribbons, drawings                         pictures
scripts, weights, js/ -> control -> softmax_controls,      controls in JavaScript with the models that ship,
    newsdesk -> summarizer_controls, ...                   for notebooks and pages
live                                                       what a cell shows with a kernel and without one
"""
