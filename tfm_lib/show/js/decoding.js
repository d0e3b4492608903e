// How the models of model.js write, one token at a time: greedily, by chance, or by beam search.

// ---- The next token: which may come, and with what probability ----

/** Tokens from the highest value to the lowest. */
function ranking(values) {
  return [...values.keys()].sort((one, other) => values[other] - values[one]);
}

/** The logits, with -Infinity at the tokens that the rules don't let follow `written`, which begins with start. */
function forbid(logits, written, eosId, { min_new_tokens = 0, no_repeat_ngram_size = 0, banned = [] } = {}) {
  const forbidden = new Set(banned), places = written.length - no_repeat_ngram_size + 1;
  if (no_repeat_ngram_size) {
    const last = written.slice(Math.max(0, places));
    for (let place = 0; place < places; place++) {
      const repeats = last.every((token, i) => written[place + i] === token);
      if (repeats) forbidden.add(written[place + no_repeat_ngram_size - 1]);
    }
  }
  if (written.length <= min_new_tokens) forbidden.add(eosId);
  if (forbidden.size === logits.length) forbidden.delete(eosId); // where nothing else is left
  return logits.map((logit, token) => (forbidden.has(token) ? -Infinity : logit));
}

/** What `sample` draws from, (V,) -> (V,): divided by the temperature, the topK most likely, topP together. */
function nextTokenProbs(logits, { temperature = 1, topK = null, topP = null } = {}) {
  if (!(temperature > 0 && (topK ?? 1) >= 1 && (topP ?? 1) > 0 && (topP ?? 1) <= 1)) {
    const got = `got ${temperature}, ${topK} and ${topP}; leave out what is not wanted`;
    throw new RangeError(`temperature must be positive, topK at least 1 and topP in (0, 1], ${got}`);
  }
  const scores = logits.map((logit) => logit / temperature), order = ranking(scores);
  const least = scores[order[Math.min(topK ?? Infinity, order.length) - 1]];
  const probs = softmax(scores.map((score) => (score < least ? -Infinity : score)));
  if (topP === null) return probs;
  let moreLikely = 0; // what all tokens before it have together
  for (const token of order) {
    const probability = probs[token];
    if (moreLikely >= topP) probs[token] = 0;
    moreLikely += probability;
  }
  const kept = sum(probs);
  return probs.map((probability) => probability / kept);
}

/** A source of chance of its own, the same for the same seed: calls give numbers in [0, 1). It is "mulberry32". */
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A token, each as often as its probability says. */
function draw(probs, random) {
  let rest = random();
  const token = probs.findIndex((probability) => (rest -= probability) < 0);
  return token < 0 ? probs.findLastIndex((probability) => probability > 0) : token; // they sum to 1 but for rounding
}

// ---- One text ----

/** A model in the middle of writing: the memory of its source, and a cache of what stands there already. */
class Writer {
  constructor(model, memory, cache = decoderCache(model.config.num_decoder_layers)) {
    Object.assign(this, { model, memory, cache });
  }

  /** Write one more token -> the logits of those that may follow (V,). */
  nextLogits(token) {
    return this.model.decode([token], this.memory, this.cache)[0];
  }

  /** A writer to go on with apart from this one. The vectors themselves, which nobody changes, are shared. */
  copy() {
    const copied = ({ key, value }) => ({ key: [...key], value: [...value] });
    const cache = this.cache.map(({ own, cross }) => ({ own: copied(own), cross: copied(cross) }));
    return new Writer(this.model, this.memory, cache);
  }
}

/** A writer without a cache: at each step it reads anew all that is written. */
class RereadingWriter {
  constructor(model, memory, written = []) {
    Object.assign(this, { model, memory, written });
  }

  nextLogits(token) {
    this.written = [...this.written, token];
    return this.model.decode(this.written, this.memory).at(-1);
  }

  copy() {
    return new RereadingWriter(this.model, this.memory, this.written);
  }
}

/** A writer for which these tokens (T,) stand there already, behind the start. */
class BegunWriter {
  constructor(writer, chosen) {
    Object.assign(this, { model: writer.model, writer, chosen });
  }

  nextLogits(token) {
    const next = [token, ...this.chosen.splice(0)].map((one) => this.writer.nextLogits(one));
    return next.at(-1);
  }

  copy() {
    return new BegunWriter(this.writer.copy(), [...this.chosen]);
  }
}

/** A writer whose copies share what they compute: the logits after a text are computed once, whoever asks for them. */
class SharingWriter {
  constructor(writer, next = new Map()) {
    Object.assign(this, { model: writer.model, writer, next });
  }

  nextLogits(token) {
    if (!this.next.has(token)) {
      const writer = this.writer.copy(), logits = writer.nextLogits(token);
      this.next.set(token, { writer, logits, next: new Map() });
    }
    const { writer, logits, next } = this.next.get(token);
    Object.assign(this, { writer, next });
    return logits;
  }

  copy() {
    return new SharingWriter(this.writer, this.next);
  }
}

/** The loop of `greedy` and `sample`: gives each new token as it is written, eos the last. */
function* write(writer, maxNewTokens, choose, rules) {
  const { start_id, eos_id } = writer.model.config, written = [start_id];
  while (written.length <= maxNewTokens) {
    const token = choose(forbid(writer.nextLogits(written.at(-1)), written, eos_id, rules));
    written.push(token);
    yield token;
    if (token === eos_id) return;
  }
}

/** The most likely next token, again and again: src (S,) -> new tokens. */
function greedy(model, src, maxNewTokens, { rules, memory = model.encode(src) } = {}) {
  const mostLikely = (logits) => logits.indexOf(Math.max(...logits));
  return [...write(new Writer(model, memory), maxNewTokens, mostLikely, rules)];
}

/** Each next token drawn from `nextTokenProbs`: src (S,) -> new tokens. random: what `randomNumbers` gave. */
function sample(model, src, maxNewTokens, { random, rules, ...options }) {
  const choose = (logits) => draw(nextTokenProbs(logits, options), random);
  return [...write(new Writer(model, model.encode(src)), maxNewTokens, choose, rules)];
}

// ---- Beam search ----

/**
 * Beam search a step at a time, by the rules of tfm_lib/writing/beam.py. Each step gives
 *   beams        those that are continued, {tokens, total}, at first one that is empty
 *   candidates   their best 2 * numBeams continuations, best first, {beam, token, tokens, total, ended}
 *   hypotheses   the best texts that have ended by now, best first, {tokens, score}
 *   goesOn       the candidates that are the next step's beams; none where the search is done
 * writer: one that has written nothing, where the searches of a source are to share what they compute.
 */
function* beamSteps(model, src, maxNewTokens, options = {}) {
  const { numBeams = 4, lengthPenalty = 1, earlyStopping = false, rules } = options;
  const { start_id, eos_id } = model.config, { writer = new Writer(model, model.encode(src)) } = options;
  let beams = [{ tokens: [], total: 0, writer }], hypotheses = [];
  for (let length = 1; beams.length; length++) {
    const continued = beams.flatMap((beam) => {
      const written = [start_id, ...beam.tokens];
      const logProbs = forbid(logSoftmax(beam.writer.nextLogits(written.at(-1))), written, eos_id, rules);
      const best = ranking(logProbs).slice(0, 2 * numBeams);
      return best.map((token) => ({ beam, token, total: beam.total + logProbs[token] }));
    });
    const possible = continued.filter(({ total }) => total > -Infinity).sort((one, other) => other.total - one.total);
    const candidates = possible.slice(0, 2 * numBeams).map((candidate) => ({
      ...candidate,
      tokens: [...candidate.beam.tokens, candidate.token],
      ended: candidate.token === eos_id || length === maxNewTokens,
    }));
    const score = ({ total }) => total / length ** lengthPenalty;
    const ended = candidates.slice(0, numBeams).filter((candidate) => candidate.ended);
    const found = ended.map((candidate) => ({ tokens: candidate.tokens, score: score(candidate) }));
    hypotheses = [...hypotheses, ...found].sort((one, other) => other.score - one.score).slice(0, numBeams);

    let goesOn = candidates.filter((candidate) => !candidate.ended).slice(0, numBeams);
    const full = hypotheses.length === numBeams;
    if (full && (earlyStopping || !goesOn.length || score(goesOn[0]) <= hypotheses.at(-1).score)) goesOn = [];
    yield { beams, candidates, hypotheses, goesOn };
    beams = goesOn.map(({ beam, tokens, total }) => ({ tokens, total, writer: beam.writer.copy() }));
  }
}

/** The best texts that beam search finds, best first: src (S,) -> [{tokens, score}, ...]. Options as in `beamSteps`. */
function beamHypotheses(model, src, maxNewTokens, options) {
  return [...beamSteps(model, src, maxNewTokens, options)].at(-1).hypotheses;
}

/** The best text that beam search finds: src (S,) -> new tokens. */
function beamSearch(model, src, maxNewTokens, options) {
  return beamHypotheses(model, src, maxNewTokens, options)[0].tokens;
}
