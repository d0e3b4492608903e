"""The words for each code: how bad it is, what it means, the likely line of code, and where to read."""

from typing import NamedTuple


class Advice(NamedTuple):
    """What can be said of a finding before it is seen."""

    severity: str
    means: str
    likely: str
    read: tuple[str, str]  # the number of a lesson and one of its headings


LEAK, KEYS, LABELS = ("02", "The leak test"), ("02", "Deeper: mask keys, never query rows"), ("07", "One column apart")
CACHED, ORDER = ("09", "Deeper: two mistakes that a test finds"), ("04", "Where positions enter")
RUNS, WHOLE = ("06", "Mistakes that run"), ("06", "The whole model on one screen")

# fmt: off
ADVICE = {
    "kind.unclear": Advice("sick", "For an encoder that is right; a model that writes would copy instead of predict.", "Say kind='encoder-only' if it is one; else a causal mask is missing in its attention.", LEAK),
    "shapes.not_vocab": Advice("sick", "These are no scores of the vocabulary's tokens, so that no loss and no choice of a token fits.", "Return output(x), the projection to vocab_size, and not x.", ("06", "From vectors to words")),
    "shapes.axes": Advice("note", "That is a convention of its own; the check-up turned it back.", "nn.CrossEntropyLoss wants (B, V, T), most code (B, T, V); torch's layers want batch_first=True for (B, T).", ("06", "Deeper: torch's own Transformer")),
    "shapes.flattened": Advice("note", "A loss takes that, and nobody who writes: the last place of each text is hard to find in it.", "view(-1, vocab_size) at the end of forward: leave it to the loss.", ("06", "From vectors to words")),
    "shapes.shortened": Advice("note", "It shifts by itself: logits t belong to the token after tgt[t].", "tgt[:, :-1] inside forward; take care not to shift once more in the loss.", LABELS),
    "shapes.single": Advice("sick", "Writing begins with one token and often with one text, so that it fails where it is used.", "squeeze() without an axis, or a view with a fixed size.", WHOLE),
    "shapes.length": Advice("sick", "Texts differ in length, and a model must take every length up to its limit.", "A mask, a LayerNorm or a view that was built for one length.", ("02", "Deeper: lengths instead of masks")),
    "output.probabilities": Advice("sick", "A loss that takes logits, as F.cross_entropy, applies softmax once more: the gradient nearly vanishes.", "Drop the softmax at the end of forward.", ("06", "Deeper: logits are not probabilities")),
    "output.log_probabilities": Advice("note", "F.cross_entropy takes them as well as logits, F.nll_loss only them; a model that copies has nothing else to give.", "log_softmax at the end of forward.", ("06", "Deeper: logits are not probabilities")),
    "output.constant": Advice("sick", "What it reads does not reach what it writes.", "The logits do not come from the last layer's output.", RUNS),
    "output.nan": Advice("sick", "One NaN spoils the whole gradient.", "A query that may see no key: softmax over -inf alone; or a square root or division by zero.", ("02", "A query that may see nothing")),
    "dropout.eval": Advice("sick", "Its answers depend on dice where they should not.", "F.dropout(x, p) without training=self.training, or a module in a plain list, which eval() does not reach.", ("05", "Deeper: dropout")),
    "causality.leak": Advice("sick", "It can copy the answer while it trains; when it writes, there is none to copy.", "The causal mask is missing, or does not reach this attention; or its softmax runs over another axis than the last, the keys.", LEAK),
    "causality.off_by_one": Advice("sick", "The token to predict is the very next one, and that is the one it sees.", "torch.triu(..., diagonal=2) or tril(..., diagonal=1); the diagonal itself belongs to the past.", ("02", "The future")),
    "causality.inverted": Advice("sick", "The past is hidden and the future is shown.", "The mask says True for what is hidden where True means visible, or the other way round.", ("02", "Deeper: True is not True everywhere")),
    "causality.norm": Advice("sick", "The mean or the width of a whole text tells each position what comes later.", "A norm over the time axis; normalize each token's vector alone: dim=-1.", ("05", "Deeper: four ways to get LayerNorm wrong")),
    "causality.axes": Advice("sick", "Parts of one token's vector land at another token's place.", "view or reshape across axes when heads are split or merged: transpose(1, 2) first.", ("03", "All heads at once")),
    "causality.eval": Advice("sick", "In training it is hidden: the numbers of eval, validation loss included, are those of a model that copies.", "The mask is built only `if self.training`.", ("09", "Who masks the future when nobody trains?")),
    "causality.training": Advice("sick", "In eval it is hidden: all that it learns is to copy.", "The mask is built only `if not self.training`, or batch statistics of training mix positions.", ("05", "Deeper: LayerNorm or BatchNorm?")),
    "causality.blind": Advice("sick", "It reads only a part of what it wrote itself.", "A causal mask that hides too much, such as an identity, or only one token is passed on.", ("02", "The future")),
    "padding.source": Advice("sick", "The same text gives another answer beside a longer one.", "No padding mask reaches this attention; hide keys where src == pad_id. Or pad_id is another, or its softmax runs over another axis than the last.", KEYS),
    "padding.cross": Advice("sick", "The encoder hides padding, and the decoder looks at it.", "The source's padding mask is missing in cross-attention (memory_key_padding_mask in torch).", ("06", "Two stacks, and the way between them")),
    "padding.query_rows": Advice("sick", "Rows of padding were hidden instead of columns, so that words still look at padding.", "mask[:, None, :, None] where [:, None, None, :] is wanted.", KEYS),
    "padding.inverted": Advice("sick", "Words are hidden and padding is shown.", "src == pad_id where src != pad_id is wanted, or the other way round; torch's key_padding_mask is True where hidden.", ("02", "Deeper: True is not True everywhere")),
    "padding.target": Advice("sick", "Padding after a text changes what it says about the text before.", "The causal mask should protect what stands before padding: look at how the two masks are combined.", ("02", "Two masks at once")),
    "padding.target_nan": Advice("sick", "One NaN in a row of padding is enough to spoil every gradient, even if its label is ignored.", "Rows of the target's padding see nothing: mask its keys, not its rows.", ("02", "A query that may see nothing")),
    "padding.start": Advice("sick", "The first token of every text hides itself: start_id equals pad_id.", "Don't guess the target's padding from its ids; the causal mask is enough when it stands on the right.", ("12", "Deeper: start is padding")),
    "padding.misplaced": Advice("sick", "A word of the text is hidden, as if it were padding.", "The mask is shifted by one, or compares with another id than pad_id.", ("02", "Three sentences, one table")),
    "padding.empty_row": Advice("note", "A text of padding alone becomes NaN, and through the loss the whole gradient.", "Give such a row zeros, as masked_softmax does, or keep it out of batches.", ("02", "A query that may see nothing")),
    "batch.rows": Advice("sick", "What a text says depends on its neighbors in the batch.", "A softmax, norm or mean over axis 0, or a view that mixes rows.", ("01", "Deeper: what a batch is not")),
    "batch.axes": Advice("sick", "Tokens at the same place of different texts look at each other, and those of one text do not.", "batch_first=True is missing, or a transpose(0, 1).", ("06", "Deeper: torch's own Transformer")),
    "batch.training": Advice("sick", "In training, what a text says depends on its neighbors; in eval it does not.", "BatchNorm, where LayerNorm is wanted.", ("05", "Deeper: LayerNorm or BatchNorm?")),
    "positions.none": Advice("sick", "“Dog bites man” and “man bites dog” are one text to it.", "Positions are never added, or added to something that is not used.", ("04", "Two sentences, one answer")),
    "positions.target_none": Advice("sick", "The decoder cannot tell the order of what it wrote, except by what its mask shows.", "Positions are added on the source's side only.", ORDER),
    "positions.batch": Advice("sick", "Every text gets the position of its row in the batch, at all of its tokens.", "pe[: x.size(0)] where pe[: x.size(1)] is wanted.", ("04", "The length from the wrong axis")),
    "positions.silent_end": Advice("sick", "Beyond that place it cannot tell tokens apart, and nothing says so.", "clamp or % on positions; raise an error instead.", ("04", "Odd widths, and texts that are too long")),
    "limits.length": Advice("note", "Longer texts must be cut, or its table of positions built longer.", "The length of the table of positions.", ("04", "Odd widths, and texts that are too long")),
    "source.ignored": Advice("sick", "It writes without having read anything.", "Cross-attention is missing, or looks at the target instead of the memory.", RUNS),
    "source.partial": Advice("sick", "A part of each text cannot be summarized, since nothing sees it.", "A mask or slice that hides it.", RUNS),
    "source.causal": Advice("doubtful", "The first words of a text cannot know how it goes on; an encoder may read in both directions.", "A causal mask was passed to the encoder.", ("02", "Two masks at once")),
    "gradients.unreached": Advice("sick", "They stay as they were at the start, and nothing says so.", "detach(), .data, torch.no_grad(), or a part that forward never uses.", ("05", "Deeper: three mistakes that run")),
    "gradients.none": Advice("sick", "Nothing can be learned: the way from the logits back to the weights is cut.", "detach(), argmax or torch.no_grad() on the way to the logits.", ("05", "Deeper: three mistakes that run")),
    "gradients.unregistered": Advice("sick", "No optimizer, no .to() and no state_dict knows them.", "A plain list or dict of modules or parameters: use nn.ModuleList or nn.Parameter.", ("05", "Deeper: three mistakes that run")),
    "gradients.shared": Advice("doubtful", "One set of weights is used several times, which is meant in few models (ALBERT).", "[layer] * n, or one object passed to several places: build or deepcopy each.", ("05", "Deeper: thirty-two networks in a row")),
    "gradients.equal_start": Advice("note", "Layers that begin as copies still learn different things, since their inputs differ; fresh ones are usual.", "copy.deepcopy(layer) without a new initialization.", ("05", "Deeper: thirty-two networks in a row")),
    "tying.copy": Advice("doubtful", "They are equal now and part with the first step: nothing ties them.", "output.weight = nn.Parameter(emb.weight.clone()); assign the parameter itself.", ("06", "One table, three uses")),
    "tying.data": Advice("doubtful", "They share memory, but an optimizer steps twice, and .to() or loading parts them.", "output.weight.data = emb.weight.data; assign the parameter itself.", ("06", "One table, three uses")),
    "loss.start": Advice("doubtful", "Unless it was trained before, it is sure of something that it can't know.", "Too wide a start: nn.Embedding's N(0, 1) as a tied output; use std = d_model ** -0.5.", ("06", "The first loss, and the riddle")),
    "loss.echo": Advice("doubtful", "At the start it expects that every token repeats: the residual path meets the same table at its end.", "Tied embeddings that are too wide: start them with std = d_model ** -0.5.", ("06", "A machine that knows nothing, and is sure")),
    "loss.fails": Advice("sick", "No step can be made with it.", "Shapes of logits and labels, or a label that is no id.", ("07", "The loss: how surprised?")),
    "loss.no_shift": Advice("sick", "It copies its input: the loss goes to zero and nothing is learned.", "Input tgt[:, :-1], labels tgt[:, 1:].", LABELS),
    "loss.shifted_twice": Advice("sick", "It learns to write every second token.", "The labels are shifted by the caller and by the model; drop one.", LABELS),
    "loss.backwards": Advice("sick", "It learns to repeat what it has read.", "Input tgt[:, 1:] and labels tgt[:, :-1] are exchanged.", LABELS),
    "loss.padding": Advice("sick", "The more padding, the smaller the loss, and the less is learned of words.", "ignore_index=pad_id is missing; torch's default is -100.", ("07", "Deeper: when padding counts")),
    "loss.no_end": Advice("sick", "It never learns to stop.", "eos_id is missing in the labels, or ignored because it equals pad_id.", ("07", "Deeper: it never ends")),
    "loss.skips": Advice("sick", "Some words of each text are never asked for.", "A slice too many, or ignore_index is an ordinary id.", LABELS),
    "loss.wrong_labels": Advice("sick", "It is trained for something else than the next token.", "How labels are made from tgt: a flip, a roll or a reshape without transpose.", LABELS),
    "learning.stuck": Advice("sick", "A model that works learns ten pairs by heart within seconds.", "What the other findings say; else residual paths, norms, the scale of the scores, or a cut gradient.", ("07", "Ten pairs by heart")),
    "learning.unwritten": Advice("doubtful", "What it says and what it knows are two things; rules of writing may be a reason.", "logits[:, -1] for the next word, not logits[:, 0]; start_id at the beginning, and all that was written.", ("08", "One goal, three searches")),
    "cache.fails": Advice("sick", "It cannot write with its cache.", "Masks must have a row per new token and a column per token so far.", CACHED),
    "cache.positions": Advice("sick", "Every new token is told that it stands at the beginning.", "positions must begin at the length of the cache.", ("09", "Every token stands at position 0")),
    "cache.differs": Advice("sick", "What it writes with the cache is not what the model says.", "Keys and values are not appended on the time axis, or the mask or positions count from 0.", CACHED),
    "cache.prefill": Advice("sick", "Several new tokens at once see each other's future; one by one it is right.", "A mask of the new tokens against all: causal_mask(new, past).", ("09", "Who masks the future when nobody trains?")),
    "cache.stale": Advice("sick", "A second text is written with what is left of the first.", "The cache is kept in the module, and not emptied.", ("09", "Keys and values that stay")),
    "generate.fails": Advice("sick", "It cannot write.", "Run it on one text of four tokens.", ("08", "One goal, three searches")),
    "generate.copies": Advice("sick", "Several beams, one text: nothing is searched.", "All beams begin equal; let only the first one count in the first step.", ("08", "Deeper: copies of one beam")),
    "generate.batch": Advice("sick", "A text gets another summary when it stands in a batch.", "Padding, or a stop when the first row has ended.", ("08", "Deeper: the same tokens, everywhere")),
    "generate.after_end": Advice("doubtful", "After the end sign there should be padding only.", "Rows that have ended must be filled with pad_id.", ("08", "Deeper: when a search stops")),
    "generate.mode": Advice("doubtful", "After writing, training goes on in another mode.", "Set the mode back: was = model.training; model.train(was).", ("07", "`eval()` forgotten")),
    "generate.dice": Advice("note", "Sampling is meant to; anything else is dropout that is on while it writes.", "model.eval() before writing.", ("08", "Throwing dice")),
    "precision.float16": Advice("doubtful", "It can't run in half precision, where most large models run.", "-1e9 does not fit float16: use -inf, or torch.finfo(dtype).min; build masks and positions in x.dtype.", ("02", "Deeper: how negative is negative enough")),
    "precision.bfloat16": Advice("doubtful", "It can't run in bfloat16, where most large models train.", "A tensor that is built in float32 in forward: give it dtype=x.dtype.", ("09", "Deeper: fewer bits")),
    "saving.attribute": Advice("doubtful", "A tensor that is no parameter and no buffer: .to() leaves it behind, and state_dict() leaves it out.", "self.register_buffer('name', tensor).", ("04", "Parameter, buffer, or attribute?")),
    "saving.fails": Advice("sick", "What was trained can't be brought back.", "state_dict() or load_state_dict() was overridden, or names of parameters change.", ("07", "Deeper: training that can stop and go on")),
    "saving.differs": Advice("sick", "What is loaded is another model than what was saved.", "A buffer with persistent=False that cannot be computed again, or a state_dict that is not complete.", ("07", "Deeper: training that can stop and go on")),
}
# fmt: on

# A fault, and what may only follow from it: measured on plants, which have one fault each.
EXPLAINS = {
    "shapes.axes": {"generate.fails"},
    "shapes.flattened": {"generate.fails"},
    "shapes.shortened": {"generate.fails"},
    "shapes.single": {"cache.fails"},
    "shapes.length": {"cache.prefill", "generate.fails", "precision.float16", "precision.bfloat16"},
    "output.probabilities": {"learning.stuck"},
    "output.constant": {"causality.blind", "source.ignored", "gradients.unreached", "learning.stuck"},
    "output.nan": {"loss.fails", "learning.stuck"},
    "gradients.unregistered": {"dropout.eval", "padding.cross", "positions.batch", "cache.differs"},
    "dropout.eval": {"padding.source", "padding.cross", "positions.batch", "cache.differs", "generate.dice"},
    "causality.leak": {"cache.differs", "learning.unwritten"},
    "causality.off_by_one": {"cache.differs", "learning.unwritten"},
    "causality.inverted": {"cache.differs", "output.nan", "learning.unwritten"},
    "causality.eval": {"cache.differs"},
    "causality.norm": {"cache.differs"},
    "causality.axes": {"padding.source", "cache.differs", "learning.unwritten"},
    "causality.blind": {"gradients.unreached"},
    "batch.rows": {"cache.differs"},
    "padding.inverted": {"gradients.unreached"},
    "padding.start": {"cache.prefill"},
    "positions.batch": {"positions.none", "positions.target_none", "cache.stale"},
    "source.partial": {"padding.cross", "padding.misplaced", "cache.differs"},
    "source.ignored": {"gradients.unreached", "learning.stuck"},
    "gradients.none": {"loss.fails", "learning.stuck"},
    "learning.stuck": {"causality.blind", "source.partial"},
    "generate.after_end": {"learning.unwritten"},
    "precision.bfloat16": {"precision.float16"},
}
