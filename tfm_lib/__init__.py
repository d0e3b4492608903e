"""The finished definitions of the course. The model is five files, small enough to read from end to end.

masks -> attention -> positions -> layers -> model    the model that the lessons build
data/          what it learns from: stories, pairs, pictures; vocabularies and batches
writing/       how it writes, is looked into, and is scored
learning/      how it learns, alone and with others, and the files that keep it
pretrained/    the models that ship, and other people's
checkup/       what is wrong with a model of yours, seen from outside
practice/      a model that shares no code with ours, and sick ones to diagnose
show/          figures, and the controls around them
ask/           questions, quiz, flashcards, exercises with their checks
commands/      what `python -m tfm_lib` and make run
lessons, files, errors    what every room may use: the table of lessons, files written whole, errors told in a line

Rooms import downward only: these three, the model, and then in the order above.

One legend of axes, used in every shape comment:

    B  batch (independent examples)         D   d_model, the width of a token's vector
    H  heads                                Dh  width of one head, D / H
    T  query positions (the target side)    V   size of the vocabulary
    S  key positions (the source side)

One rule for masks: boolean, True means "may attend", four axes that broadcast to (B, H, T, S), combined with `&`.
`F.scaled_dot_product_attention` reads a mask that way; `nn.MultiheadAttention` reads it the opposite way.
"""
