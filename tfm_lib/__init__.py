"""The finished definitions of the course. The model is five files, small enough to read from end to end.

masks -> attention -> positions -> layers -> model    the model
copying                                               the same with a head that copies words of the source
newsroom, pairs, docstrings, vocabulary -> batches    its data
recipes, checkpoints -> training -> workers, tasks    how it learns
next_token -> decoding -> beam, tracing               how it writes, is looked into
rouge -> scoring                                      how it is judged
pretrained -> writing                                 what ships, and a trained model at work
lessons                                               the one table of lessons, and where their files lie
show/                                                 figures, and the controls around them
ask/                                                  questions, quiz, flashcards, exercises with their checks
runs, texts, lab, __main__                            the commands behind make
files, errors                                         files written whole, errors told in a line

One legend of axes, used in every shape comment:

    B  batch (independent examples)         D  d_model, the width of a token's vector
    H  heads                                K  width of one head, D / H
    T  query positions (the target side)    V  size of the vocabulary
    S  key positions (the source side)

One rule for masks: boolean, True means "may attend", four axes that broadcast to (B, H, T, S), combined with `&`.
`F.scaled_dot_product_attention` reads a mask that way; `nn.MultiheadAttention` reads it the opposite way.
"""
