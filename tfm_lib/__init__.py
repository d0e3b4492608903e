"""The finished definitions of the course, in the order in which the lessons meet them.

masks -> attention -> positions -> layers -> model        what the model is
newsroom, pairs -> summaries -> training, checkpoints     how it learns
choices -> decoding -> beam, scoring                      how it writes and is judged
tracing, figure -> plots, drawings                        how to look inside
questions -> flashcards; live -> quiz                     what the lessons ask, on cards and in the notebook
live, figure -> controls -> widgets, clocks, watching     pictures that follow a knob, or a run
newsdesk -> summarizing                                   the same, around the shipped summarizer
checks                                                    what the exercises call, a file a lesson
pretrained, tasks, lab, __main__                          what ships, and the commands behind make

One legend of axes, used in every shape comment:

    B  batch (independent examples)         D  d_model, the width of a token's vector
    H  heads                                K  width of one head, D / H
    T  query positions (the target side)    V  size of the vocabulary
    S  key positions (the source side)

One rule for masks: boolean, True means "may attend", broadcastable to (B, H, T, S), combined with `&`.
`F.scaled_dot_product_attention` reads a mask that way; `nn.MultiheadAttention` reads it the opposite way.
"""
