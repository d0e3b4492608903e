"""What the course shows: figures, drawings, and controls around them.

figure -> plots, ribbons, drawings                         pictures
live -> screen -> softmax_controls, sinusoid_control,      pictures that follow a knob,
        live_curve, newsdesk -> summarizer_controls        or a run
weights -> control -> heads_control,                       controls that run without a kernel
    model_boxes -> architecture_control
scripts, js/                                               the models that ship in JavaScript, for notebooks and pages
"""
