// The models that ship with tfm_lib in plain JavaScript: their files read directly, one text computed at a time.
//
// The files of this folder are plain scripts that follow one another, without import, export or build step.
// tfm_lib/show/scripts.py joins them: to a module for notebooks, to a classic script for pages, where file:// allows
// no module. All have the names of tfm_lib, in camelCase; what stands in a checkpoint has the names that it has there.
//
// A vector is a Float32Array; (S, D) is an array of S vectors of width D. T target positions, S source positions,
// D d_model, H heads, V vocabulary.

/** The sum of products between two places; four sums in double precision, which a processor adds side by side. */
function dot(one, other, from = 0, to = one.length) {
  let a = 0, b = 0, c = 0, d = 0, i = from;
  for (; i + 3 < to; i += 4) {
    a += one[i] * other[i];
    b += one[i + 1] * other[i + 1];
    c += one[i + 2] * other[i + 2];
    d += one[i + 3] * other[i + 3];
  }
  for (; i < to; i++) a += one[i] * other[i];
  return a + b + c + d;
}

/** rows (R, D) times each vector of x (T, D), plus a bias (R,) -> (T, R). */
function times(rows, x, bias = new Float32Array(rows.length)) {
  const outputs = x.map(() => new Float32Array(rows.length)), pairs = x.length & ~1, fours = rows.length & ~3;
  for (let t = 0; t < pairs; t += 2) for (let r = 0; r < fours; r += 4) fourTimesTwo(rows, r, x, t, bias, outputs);
  if (pairs < x.length) for (let r = 0; r < fours; r += 4) fourTimesOne(rows, r, x[pairs], bias, outputs[pairs]);
  for (let r = fours; r < rows.length; r++) x.forEach((vector, t) => (outputs[t][r] = bias[r] + dot(rows[r], vector)));
  return outputs;
}

/** Four rows share what is read of a vector: twice as fast. */
function fourTimesOne(rows, r, vector, bias, output) {
  const p = rows[r], q = rows[r + 1], s = rows[r + 2], t = rows[r + 3], width = vector.length;
  let a = 0, b = 0, c = 0, d = 0;
  for (let i = 0; i < width; i++) {
    const value = vector[i];
    a += p[i] * value;
    b += q[i] * value;
    c += s[i] * value;
    d += t[i] * value;
  }
  output[r] = bias[r] + a;
  output[r + 1] = bias[r + 1] + b;
  output[r + 2] = bias[r + 2] + c;
  output[r + 3] = bias[r + 3] + d;
}

/** Two vectors share what is read of each row, too: faster again by more than half. */
function fourTimesTwo(rows, r, x, n, bias, outputs) {
  const p = rows[r], q = rows[r + 1], s = rows[r + 2], t = rows[r + 3], one = x[n], other = x[n + 1];
  const width = one.length, first = outputs[n], second = outputs[n + 1];
  let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  for (let i = 0; i < width; i++) {
    const left = one[i], right = other[i], pi = p[i], qi = q[i], si = s[i], ti = t[i];
    a += pi * left;
    b += qi * left;
    c += si * left;
    d += ti * left;
    e += pi * right;
    f += qi * right;
    g += si * right;
    h += ti * right;
  }
  first[r] = bias[r] + a;
  first[r + 1] = bias[r + 1] + b;
  first[r + 2] = bias[r + 2] + c;
  first[r + 3] = bias[r + 3] + d;
  second[r] = bias[r] + e;
  second[r + 1] = bias[r + 1] + f;
  second[r + 2] = bias[r + 2] + g;
  second[r + 3] = bias[r + 3] + h;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

function softmax(scores) {
  const most = Math.max(...scores), shares = scores.map((score) => Math.exp(score - most)), total = sum(shares);
  return shares.map((share) => share / total);
}

function logSoftmax(logits) {
  const most = Math.max(...logits), logTotal = most + Math.log(sum(logits.map((logit) => Math.exp(logit - most))));
  return logits.map((logit) => logit - logTotal);
}

let watcher = null;

/**
 * What each part of a model computes while `run` runs, by its name in PyTorch, {"encoder.layers.0": (S, D), ...}, with
 * "decoder.layers.0.cross_attention.weights": (T, H, S) of each attention. The decoder adds a row a token.
 */
function record(run) {
  const outputs = {}, before = watcher;
  watcher = (name, rows) => (outputs[name] ??= []).push(...rows);
  try {
    run();
  } finally {
    watcher = before;
  }
  return outputs;
}

/** A part of the model: `build` takes its tensors and gives its forward pass, which `record` sees. */
function part(build) {
  return (tensors, ...sizes) => {
    const forward = build(tensors, ...sizes);
    return (...inputs) => {
      const output = forward(...inputs);
      watcher?.(tensors.name, output);
      return output;
    };
  };
}

let off = new Set();

/**
 * Run without these parts of a model, as tfm_lib/show/breakages.py does: "positions", "causal" (the mask of the future;
 * what a cache holds was computed without it, so `RereadingWriter` is to write), "scaling", "residuals", or by name a
 * layer, an attention, or one of its heads, "decoder.layers.0.self_attention.3".
 */
function breaking(parts, run) {
  const before = off;
  off = new Set(parts);
  try {
    return run();
  } finally {
    off = before;
  }
}

// ---- Layers: (T, D) -> (T, D) ----

const linear = part((tensors) => {
  const weight = tensors.rows("weight"); // (out, in)
  const bias = tensors.has("bias") ? tensors.vector("bias") : new Float32Array(weight.length); // (out,)
  return (x) => times(weight, x, bias);
});

const layerNorm = part((tensors, { norm_eps = 1e-5 } = {}) => {
  const weight = tensors.vector("weight"), bias = tensors.vector("bias");
  return (x) => x.map((vector) => {
    const mean = sum(vector) / vector.length, centered = vector.map((value) => value - mean);
    const deviation = Math.sqrt(dot(centered, centered) / vector.length + norm_eps);
    return centered.map((value, i) => (value / deviation) * weight[i] + bias[i]);
  });
});

/** How much each query of a head attends to each key: query (T, Dh), key (S, Dh) -> weights (T, S). */
const attentionWeights = (query, key) => query.map((one) => {
  const root = off.has("scaling") ? 1 : Math.sqrt(one.length);
  return softmax(key.map((other) => dot(one, other) / root));
});

let attend = attentionWeights;

/** Run with another way to attend, the one thing that variants replace: it takes query, key, the attention's name. */
function attending(other, run) {
  const before = attend;
  attend = other;
  try {
    return run();
  } finally {
    attend = before;
  }
}

/** Takes queries (T, D), the vectors of which keys and values are made (S, D), and keys and values from before. */
const multiHeadAttention = part((tensors, numHeads) => {
  const [queryProj, keyProj, valueProj, outputProj] =
    ["query", "key", "value", "output"].map((role) => linear(tensors.part(`${role}_proj`)));

  return (x, source, { key, value } = { key: [], value: [] }) => {
    key.push(...keyProj(source));
    value.push(...valueProj(source));
    const query = queryProj(x), width = query[0].length / numHeads; // the heads lie side by side in each vector
    const mixed = query.map((one) => new Float32Array(one.length)), weights = query.map(() => []); // (T, H, S)
    for (let start = 0; start < numHeads * width; start += width) {
      const head = (rows) => rows.map((row) => row.subarray(start, start + width));
      const silent = off.has(tensors.name) || off.has(`${tensors.name}.${start / width}`);
      attend(head(query), head(key), tensors.name).forEach((all, t) => {
        const shares = silent ? all.map(() => 0) : all;
        weights[t].push(shares);
        const mixture = mixed[t];
        shares.forEach((share, s) => {
          const vector = value[s];
          for (let i = start; i < start + width; i++) mixture[i] += share * vector[i];
        });
      });
    }
    watcher?.(`${tensors.name}.weights`, weights);
    return outputProj(mixed);
  };
});

const feedForward = part((tensors) => {
  const expand = linear(tensors.part("expand")), contract = linear(tensors.part("contract"));
  return (x) => contract(expand(x).map((vector) => vector.map((value) => Math.max(0, value))));
});

/** Recurrent in the place of self-attention, as tfm_lib/pretrained/ssru.py: it keeps gates and states (T, D) of a text. */
const ssru = part((tensors) => {
  const forgetProj = linear(tensors.part("forget_proj")), candidateProj = linear(tensors.part("candidate_proj"));
  return (x, source, { key, value }) => {
    const gates = forgetProj(x).map((vector) => vector.map(sigmoid));
    candidateProj(x).forEach((candidate, t) => {
      const before = value.at(-1) ?? new Float32Array(candidate.length), gate = gates[t];
      value.push(candidate.map((entry, i) => gate[i] * before[i] + (1 - gate[i]) * entry));
    });
    key.push(...gates);
    return value.slice(-x.length).map((state) => state.map((entry) => Math.max(0, entry)));
  };
});

const residual = part((tensors, { norm_first, norm_eps }) => {
  const norm = layerNorm(tensors.part("norm"), { norm_eps });
  return (x, sublayer) => {
    const added = sublayer(norm_first ? norm(x) : x);
    const summed = off.has("residuals") ? added : x.map((vector, t) => vector.map((value, i) => value + added[t][i]));
    return norm_first ? summed : norm(summed);
  };
});

/** At the end of a stack; with the norm behind each sum there is none. */
const finalNorm = (tensors, config) => (config.norm_first ? layerNorm(tensors.part("norm"), config) : (x) => x);

/** Of an encoder; with keys and values from before, one token at a time, it is that of a decoder-only model. */
const encoderLayer = part((tensors, config) => {
  const selfAttention = multiHeadAttention(tensors.part("self_attention"), config.num_heads);
  const aroundSelfAttention = residual(tensors.part("around_self_attention"), config);
  const network = feedForward(tensors.part("feed_forward"));
  const aroundFeedForward = residual(tensors.part("around_feed_forward"), config);
  const layer = (x, past) => aroundFeedForward(aroundSelfAttention(x, (y) => selfAttention(y, y, past)), network);
  return (x, past) => (off.has(tensors.name) ? x : layer(x, past));
});

const decoderLayer = part((tensors, config) => {
  const kind = config.ssru ? ssru : multiHeadAttention;
  const selfAttention = kind(tensors.part("self_attention"), config.num_heads);
  const aroundSelfAttention = residual(tensors.part("around_self_attention"), config);
  const crossAttention = multiHeadAttention(tensors.part("cross_attention"), config.num_heads);
  const aroundCrossAttention = residual(tensors.part("around_cross_attention"), config);
  const network = feedForward(tensors.part("feed_forward"));
  const aroundFeedForward = residual(tensors.part("around_feed_forward"), config);
  return (given, memory, { own, cross }) => {
    let x = aroundSelfAttention(given, (y) => selfAttention(y, y, own));
    x = aroundCrossAttention(x, (y) => crossAttention(y, memory, cross));
    x = aroundFeedForward(x, network);
    return off.has(tensors.name) ? given : x; // what it has put into the cache counts the words
  };
});

// ---- The model ----

/** Ids (T,), of which the first one stands at position `past` -> (T, D): scaled embedding plus sinusoids. */
const inputEmbedding = part((tensors, tokens, { d_model, max_length, interleaved, endpoint }) => (ids, past = 0) => {
  const end = past + ids.length;
  if (!ids.length || end > max_length) {
    throw new RangeError(`a text must have 1 to ${max_length} tokens, got ${end}; write something, or shorten it`);
  }
  const half = d_model / 2, steps = endpoint ? half - 1 : half;
  const wave = (t, i) => { // sines and cosines by turns, or in halves
    const [pair, second] = interleaved ? [i >> 1, i % 2] : [i % half, i >= half], angle = t * 10000 ** (-pair / steps);
    return second ? Math.cos(angle) : Math.sin(angle);
  };
  const place = (t, i) => (off.has("positions") ? 0 : wave(past + t, i));
  return ids.map((id, t) => tokens[id].map((value, i) => value * Math.sqrt(d_model) + place(t, i)));
});

/** Ids (S,) -> memory (S, D). */
const encoder = part((tensors, tokens, config) => {
  const embedding = inputEmbedding(tensors.part("embedding"), tokens, config), norm = finalNorm(tensors, config);
  const layers = tensors.parts("layers", config.num_encoder_layers).map((one) => encoderLayer(one, config));
  return (ids) => norm(layers.reduce((x, layer) => layer(x), embedding(ids)));
});

/**
 * One token after the other, ids (T,), so that there is no future to hide; memory (S, D), a cache -> (T, D). Without
 * the causal mask all at once, and each sees all.
 */
const decoder = part((tensors, tokens, config) => {
  const embedding = inputEmbedding(tensors.part("embedding"), tokens, config), norm = finalNorm(tensors, config);
  const layers = tensors.parts("layers", config.num_decoder_layers).map((one) => decoderLayer(one, config));
  return (ids, memory, cache) => (off.has("causal") ? [ids] : ids.map((id) => [id])).flatMap((together) => {
    const past = cache[0].own.key.length, unseen = past ? [] : memory; // later its keys and values are in the cache
    return norm(layers.reduce((x, layer, i) => layer(x, unseen, cache[i]), embedding(together, past)));
  });
});

/** For each decoder layer the keys and values (T, D) of its own tokens and, from the first token on, of the memory. */
function decoderCache(numLayers) {
  const empty = () => ({ key: [], value: [] });
  return Array.from({ length: numLayers }, () => ({ own: empty(), cross: empty() }));
}

class Transformer {
  constructor(tensors, config) {
    this.config = config;
    this.tokens = tensors.part("encoder.embedding.tokens").rows("weight"); // one table for source, target and output
    this.encoder = encoder(tensors.part("encoder"), this.tokens, config);
    this.decoder = decoder(tensors.part("decoder"), this.tokens, config);
  }

  /** src (S,) -> memory (S, D). */
  encode(src) {
    return this.encoder(src);
  }

  /** New tokens tgt (T,), memory, and the cache of those before -> logits of every next token (T, V). */
  decode(tgt, memory, cache = decoderCache(this.config.num_decoder_layers)) {
    return this.decoder(tgt, memory, cache).map((x) => this.output(x));
  }

  output(x) {
    return times(this.tokens, [x])[0];
  }
}

/** x (T, D), keys (S, D) -> for each position the gate before its sigmoid, and weights over the source (S,). */
const pointer = part((tensors) => {
  const queryProj = linear(tensors.part("query_proj")), gate = linear(tensors.part("gate"));
  const weights = (query, keys) => softmax(keys.map((key) => dot(query, key) / Math.sqrt(key.length)));
  return (x, keys) => x.map((one) => ({ gate: gate([one])[0][0], weights: weights(queryProj([one])[0], keys) }));
});

/** p = (1 - g) softmax(logits) + g attention over the source's words; its logits are log p. See tfm_lib/writing/copying.py. */
class CopyingTransformer extends Transformer {
  constructor(tensors, config) {
    super(tensors, config);
    this.keyProj = linear(tensors.part("pointer.key_proj"));
    this.pointer = pointer(tensors.part("pointer"));
  }

  /** src (S,) -> states (S, D), keys (S, D) by which words are found to copy, and the words' ids (S,). */
  encode(src) {
    const states = super.encode(src);
    return { states, keys: this.keyProj(states), ids: src };
  }

  decode(tgt, { states, keys, ids }, cache = decoderCache(this.config.num_decoder_layers)) {
    const x = this.decoder(tgt, states, cache), pointed = this.pointer(x, keys);
    return x.map((vector, t) => logMixture(this.output(vector), pointed[t], ids));
  }
}

/** Each word's log p (V,): its part of the softmax, and the weights of all places at which it stands in the source. */
function logMixture(logits, { gate, weights }, ids) {
  const mixture = logSoftmax(logits).map((logProb) => logProb + Math.log(sigmoid(-gate)));
  ids.forEach((id, s) => {
    mixture[id] = Math.log(Math.exp(mixture[id]) + sigmoid(gate) * weights[s]);
  });
  return mixture;
}

// ---- Words ----

const WORDS = /[[\].,!?;:]|[^\p{White_Space}[\].,!?;:]+/gu; // \s would take U+FEFF for white space, and not U+0085
const AROUND = /^[\p{White_Space}\x1c-\x1f]+|[\p{White_Space}\x1c-\x1f]+$/gu; // what Python's strip takes away

/** In lower case, letter by letter: of a whole word JavaScript would write a last sigma differently. */
const asWritten = (word) => [...word].map((letter) => letter.toLowerCase()).join("");

/** Words to ids and back. Slots stand for the first unknown words of an article, for a model that copies. */
class Vocabulary {
  constructor({ model, special_tokens = ["[pad]", "[start]", "[eos]", "[unk]"] }) {
    this.idOf = new Map(Object.entries(model.vocab)); // an object would find "constructor", too
    this.pieces = []; // by id
    this.idOf.forEach((id, piece) => (this.pieces[id] = piece));
    [this.padId, this.startId, this.eosId, this.unknownId, ...this.slots] = special_tokens.map((token) =>
      this.idOf.get(token));
  }

  /** The ids of a text, without start and eos, with the slots of `words`. */
  encode(text, words = []) {
    const slotOf = new Map(words.map((word, i) => [word, this.slots[i]])); // what has no slot stays unknown
    const written = (text.replace(AROUND, "").match(WORDS) ?? []).map(asWritten);
    return written.map((word) => this.idOf.get(word) ?? slotOf.get(word) ?? this.unknownId);
  }

  /** The text of ids: pad, start and eos vanish, a slot reads as one of `words`. */
  decode(ids, words = []) {
    const shown = ids.filter((id) => ![this.padId, this.startId, this.eosId].includes(id));
    const joined = shown.map((id) => {
      const slot = this.slots.indexOf(id), piece = this.pieces[id];
      return (/^[.,!?]/.test(piece) ? "" : " ") + (slot < 0 ? piece : words[slot] ?? this.pieces[this.unknownId]);
    });
    return joined.join("").replace(/^ /, "");
  }

  /** The words of a text that this vocabulary cannot write, as they stand there, but for `words`, with slots. */
  unknownWords(text, words = []) {
    const unknown = (text.match(WORDS) ?? []).filter((word) => !this.idOf.has(asWritten(word)));
    return unknown.filter((word) => !words.includes(asWritten(word)));
  }

  /** The unknown words of an article, each once, in the order and number of the slots that stand for them. */
  slotWords(text) {
    return [...new Set(this.unknownWords(text).map(asWritten))].slice(0, this.slots.length);
  }
}

// ---- What ships ----

/** The bytes that base64 stands for. */
function fromBase64(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i); // Uint8Array.from takes ten times as long
  return bytes;
}

/** Half precision to single: exponent and fraction move to their places, and 2^112 makes up for the other bias. */
function fromHalves(halves) {
  const bits = new Uint32Array(halves).map((half) => ((half & 0x8000) << 16) | ((half & 0x7fff) << 13));
  return new Float32Array(bits.buffer).map((number) => number * 2 ** 112);
}

/** By their type in a file, bytes to Float32Array; rounded to int8, they count steps, of the matrix or of each row. */
const NUMBERS = {
  F16: (bytes) => fromHalves(new Uint16Array(bytes)),
  F32: (bytes) => new Float32Array(bytes),
  I32: (bytes) => new Int32Array(bytes),
  I16: (bytes) => new Int16Array(bytes),
  I8: (bytes, step = 1) => new Float32Array(new Int8Array(bytes)).map((count) => count * step),
};

/** The tensors of a safetensors file whose names begin with `name`. */
class Tensors {
  constructor(header, content, name = "") {
    Object.assign(this, { header, content, name });
  }

  part(name) {
    return new Tensors(this.header, this.content, this.name ? `${this.name}.${name}` : name);
  }

  parts(name, length) {
    return Array.from({ length }, (_, i) => this.part(`${name}.${i}`));
  }

  has(name) {
    return `model.${this.name}.${name}` in this.header;
  }

  vector(name) {
    const { dtype, data_offsets, step } = this.header[`model.${this.name}.${name}`], read = NUMBERS[dtype];
    if (!read) throw new TypeError(`${this.name}.${name} is ${dtype}; what ships is F16: save model.half()`);
    return read(this.content.slice(...data_offsets).buffer, step);
  }

  rows(name) {
    const [length] = this.header[`model.${this.name}.${name}`].shape, values = this.vector(name);
    const width = values.length / length; // of bytes with two numbers, the shape has half
    const rows = Array.from({ length }, (_, i) => values.subarray(i * width, (i + 1) * width));
    if (!this.has(`${name}.steps`)) return rows;
    const steps = this.vector(`${name}.steps`);
    return rows.map((row, i) => row.map((count) => count * steps[i]));
  }
}

// What is computed here; the norm may stand in either place. Another model is refused, not computed wrongly.
const KIND = {
  activation: "relu", positions: "sinusoidal", interleaved: true, position_offset: 0,
  embed_scale: null, embed_norm: false, tied: true, logits_bias: false,
};

/** Who reads files of another kind, by what their metadata names: (tensors, about) -> what loadCheckpoint returns. */
const READERS = {};

/** The bytes of a shipped file -> its model, its vocabulary, and the rules by which it writes. */
function loadCheckpoint(bytes) {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const { __metadata__: about, ...header } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const tensors = new Tensors(header, bytes.subarray(8 + size)), other = Object.keys(about).find((one) => READERS[one]);
  if (other) return READERS[other](tensors, JSON.parse(about[other]));
  const [, text] = about.checkpoint.match(/^\w+ (.*)$/s); // a checksum stands before it
  const { config, copying, vocabulary, rules } = JSON.parse(text);
  for (const [name, value] of Object.entries(KIND)) {
    if (config[name] !== value) throw new Error(`${name} is ${config[name]} in this model; here it must be ${value}`);
  }
  const kind = "model.eye.first" in header ? Pictured : copying ? CopyingTransformer : Transformer;
  const model = new kind(tensors, config);
  return { model, vocabulary: new Vocabulary(JSON.parse(vocabulary)), rules };
}
