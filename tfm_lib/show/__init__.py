"""What the course shows: figures, drawings, and controls around them.

figure -> plots, ribbons, drawings                         pictures
live -> screen -> softmax_controls, sinusoid_control,      pictures that follow a knob,
        live_curve, newsdesk -> summarizer_controls        or a run
live -> control -> mask_control                            controls that run without a kernel
scripts, js/                                               the models that ship in JavaScript, for notebooks and pages
"""
