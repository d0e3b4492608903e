"""What the course shows: figures, drawings, and controls around them.

figure -> plots, ribbons, drawings                         pictures
live -> screen -> softmax_controls, sinusoid_control,      pictures that follow a knob,
        live_curve                                         or a run
scripts, weights, js/ -> control -> newsdesk ->            controls in JavaScript with the models that ship,
        summarizer_controls -> two_summarizers             for notebooks and pages
"""
