// The translators of Firefox in plain JavaScript: subwords, the shortlist, and what is shown of a translation.

/**
 * Subwords by probability, as SentencePiece's: of all ways to cut a text, the one whose pieces have the largest product.
 * scores: each piece's log-probability. A letter of no piece is unknown, with 10 less than the rarest.
 */
class SentencePieces {
  constructor(pieces, scores, { eos_id, unknown_id }) {
    Object.assign(this, { pieces, scores, eosId: eos_id, unknownId: unknown_id });
    this.idOf = new Map(pieces.map((piece, id) => [piece, id]));
    [eos_id, unknown_id].forEach((id) => this.idOf.delete(pieces[id])); // in a text they are letters
    this.longest = pieces.reduce((most, piece) => Math.max(most, piece.length), 0);
    this.unknownScore = scores.reduce((least, score) => Math.min(least, score), 0) - 10;
  }

  /** The ids of a text, without eos. */
  encode(text) {
    const spaced = text.normalize("NFKC").replace(/[▁\u200b-\u200f\ufeff]/gu, " ");
    const plain = spaced.replace(/(?![\t\n\r\x85])\p{Cc}/gu, ""); // U+0085 is a letter that no piece has
    const words = plain.replace(/[^\S\x85]+/gu, " ").trim();
    return words ? this.bestCut(`▁${words.replaceAll(" ", "▁")}`) : [];
  }

  bestCut(text) {
    const best = [{ score: 0 }]; // by place, the best way to get there: {score, id, from}
    for (let from = 0; from < text.length; from++) {
      if (!best[from]) continue; // inside a letter of two units
      const reach = (end, id, score) => {
        const total = best[from].score + score;
        if (!best[end] || total > best[end].score) best[end] = { score: total, id, from };
      };
      reach(from + (text.codePointAt(from) > 0xffff ? 2 : 1), this.unknownId, this.unknownScore);
      for (let end = from + 1; end <= Math.min(text.length, from + this.longest); end++) {
        const id = this.idOf.get(text.slice(from, end));
        if (id !== undefined) reach(end, id, this.scores[id]);
      }
    }
    const ids = [];
    for (let place = text.length; place; place = best[place].from) ids.unshift(best[place].id);
    return ids.filter((id, i) => id !== this.unknownId || ids[i - 1] !== id); // letters of no piece are one token
  }

  /** The text of ids; eos and what is unknown vanish. */
  decode(ids) {
    const shown = ids.filter((id) => id !== this.eosId && id !== this.unknownId);
    return shown.map((id) => this.pieces[id]).join("").replaceAll("▁", " ").trim();
  }
}

/** A Transformer that writes no tokens but those that the shortlist allows for its source. */
class ShortlistedTransformer extends Transformer {
  constructor(tensors, config, shortlist) {
    super(tensors, config);
    this.bias = tensors.part("output").vector("bias");
    this.shortlist = shortlist;
  }

  /** src (S,) -> states (S, D), and the ids that are allowed. */
  encode(src) {
    return { states: super.encode(src), allowed: this.shortlist(src) };
  }

  decode(tgt, { states, allowed }, cache = decoderCache(this.config.num_decoder_layers)) {
    return this.decoder(tgt, states, cache).map((x) => {
      const logits = new Float32Array(this.tokens.length).fill(-Infinity);
      for (const id of allowed) logits[id] = this.bias[id] + dot(this.tokens[id], x);
      return logits;
    });
  }
}

/** src (S,) -> the first ids, those of each token's list, and more from the first ones on, until 8 divides their number. */
function shortlist(offsets, ids, first, vocabSize) {
  return (src) => {
    const allowed = new Set(Array.from({ length: first }, (_, id) => id));
    for (const token of src) ids.subarray(offsets[token], offsets[token + 1]).forEach((id) => allowed.add(id));
    for (let id = first; allowed.size % 8 && id < vocabSize; id++) allowed.add(id);
    return [...allowed].sort((one, other) => one - other);
  };
}

READERS.translator = (tensors, { config, steps, pieces, first }) => {
  for (const [name, step] of Object.entries(steps)) tensors.header[`model.${name}`].step = step;
  const vocabulary = new SentencePieces(pieces, tensors.part("pieces").vector("scores"), config);
  const [offsets, ids] = ["offsets", "ids"].map((name) => tensors.part("shortlist").vector(name));
  const allowed = shortlist(offsets, ids, first, pieces.length);
  return { model: new ShortlistedTransformer(tensors, config, allowed), vocabulary };
};

/**
 * A text translated greedily: {text, translation, source, words}, in source its subwords, and of each subword of the
 * translation {piece, looks, next}: the weights of the aligned head over the source (S,), and the most probable that
 * could stand there, [[piece, p], ...]. As tfm_lib/show/translator_control.py.
 */
function translated({ model, vocabulary }, text, choices) {
  const src = [...vocabulary.encode(text), vocabulary.eosId], memory = model.encode(src), tokens = [], next = [];
  const plain = (id) => vocabulary.pieces[id].replaceAll("▁", " ").trim() || "▁";
  const choose = (logits) => {
    const probs = softmax(memory.allowed.map((id) => logits[id])), order = ranking(probs).slice(0, choices);
    next.push(order.map((i) => [plain(memory.allowed[i]), probs[i]]));
    return memory.allowed[order[0]];
  };
  const maps = record(() => tokens.push(...write(new Writer(model, memory), Math.floor(2.5 * src.length), choose)));
  const weights = maps[`decoder.layers.${model.config.num_decoder_layers - 1}.cross_attention.weights`]; // (T, H, S)
  const written = tokens.filter((token) => token !== vocabulary.eosId);
  return {
    text, translation: vocabulary.decode(tokens), source: src.slice(0, -1).map(plain),
    words: written.map((token, t) => ({ piece: plain(token), looks: weights[t][0].slice(0, -1), next: next[t] })),
  };
}
