// Lesson 15: other ways to attend, in the place of a trained model's own. They are those of replacements.py, with the
// same random numbers: a way is a function of its size, the seed of its chance and the width of a head, and gives what
// `attending` takes.

/** What is left of weights (T, S) where only some keys are kept, so that they sum to 1 again, or to 0 without any. */
function keptWeights(weights, kept) {
  return weights.map((row, t) => {
    const left = row.map((weight, s) => (kept(t, s) ? weight : 0)), total = sum(left);
    return total ? left.map((weight) => weight / total) : left;
  });
}

const REPLACEMENTS = {
  full: () => attentionWeights,
  none: () => (query, key) => query.map(() => key.map(() => 0)),
  mean: () => (query, key) => query.map(() => key.map(() => 1 / key.length)),
  window: (size) => (query, key) => { // the queries stand at the last T of S places
    const near = (t, s) => Math.abs(key.length - query.length + t - s) <= size;
    return keptWeights(attentionWeights(query, key), near);
  },
  "top keys": (size) => (query, key) => {
    const weights = attentionWeights(query, key);
    const least = weights.map((row) => [...row].sort((one, other) => other - one)[Math.min(size, row.length) - 1]);
    return keptWeights(weights, (t, s) => weights[t][s] >= least[t]);
  },
  rank: (size) => (query, key) => nearestOfRank(attentionWeights(query, key), size),
  features(size, seed, width) {
    const drawn = normals(seed, [size, width]);
    const phi = (x) => x.map((vector) => {
      const scaled = Array.from(vector, (value) => value / width ** 0.25), half = dot(scaled, scaled) / 2;
      return drawn.map((direction) => Math.exp(dot(direction, scaled) - half));
    });
    return (query, key) => {
      const keys = phi(key), scores = phi(query).map((one) => keys.map((other) => dot(one, other)));
      return keptWeights(scores, () => true);
    };
  },
  "hashing, 1 round": (...of) => hashing(1, ...of),
  "hashing, 4 rounds": (...of) => hashing(4, ...of),
};

/** Keys in the query's bucket, the nearest of `size` directions and their opposites, in any of the rounds. */
function hashing(rounds, size, seed, width) {
  const drawn = normals(seed, [rounds, size / 2, width]);
  const buckets = (x) => x.map((vector) => drawn.map((directions) => {
    const near = directions.map((direction) => dot(direction, vector)), all = [...near, ...near.map((one) => -one)];
    return all.indexOf(Math.max(...all));
  }));
  return (query, key) => {
    const own = buckets(query), theirs = buckets(key);
    return keptWeights(attentionWeights(query, key), (t, s) => own[t].some((bucket, r) => bucket === theirs[s][r]));
  };
}

/** Numbers drawn from N(0, 1) in nested lists of this shape, the same for the same seed (Box and Muller 1958). */
function normals(seed, shape) {
  const random = randomNumbers(seed);
  const one = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const drawn = ([length, ...rest]) => Array.from({ length }, () => (rest.length ? drawn(rest) : one()));
  return drawn(shape);
}

/**
 * The nearest table of a rank (Eckart and Young 1936). Columns are turned, two at a time, until all are orthogonal: what
 * has turned them are the right singular vectors, and the longest columns belong to the largest values (Jacobi's way).
 */
function nearestOfRank(table, rank) {
  const columns = table[0].map((_, s) => table.map((row) => row[s]));
  const right = columns.map((_, s) => columns.map((_, i) => Number(i === s)));
  const turn = (one, other, cos, sin) => one.forEach((value, i) => {
    [one[i], other[i]] = [cos * value - sin * other[i], sin * value + cos * other[i]];
  });
  for (let turned = true; turned;) {
    turned = false;
    for (let i = 0; i < columns.length; i++) {
      for (let j = i + 1; j < columns.length; j++) {
        const [a, b, c] = [[i, i], [j, j], [i, j]].map(([n, m]) => dot(columns[n], columns[m]));
        if (Math.abs(c) <= 1e-9 * Math.sqrt(a * b) + 1e-18) continue;
        turned = true;
        const slope = (b - a) / (2 * c), tan = (slope < 0 ? -1 : 1) / (Math.abs(slope) + Math.hypot(1, slope));
        const cos = 1 / Math.hypot(1, tan);
        turn(columns[i], columns[j], cos, cos * tan);
        turn(right[i], right[j], cos, cos * tan);
      }
    }
  }
  const kept = ranking(columns.map((column) => dot(column, column))).slice(0, rank);
  return table.map((row, t) => row.map((_, s) => sum(kept.map((n) => columns[n][t] * right[n][s]))));
}

/**
 * What the summarizer writes where one of its attentions is replaced. data: what `storyDesk` needs; most, the most
 * tokens of a headline; places, [{place, name, says, begins, ends}], how the names of attentions begin and end; ways,
 * [{name, label, sizes, places, random}]; measured, [[place, name, size, share of exact headlines], ...], counted on so
 * many stories; what to begin with, {place, name, step}, a step of its sizes.
 */
function swapAttention(root, data) {
  const { places, ways, measured, begin } = data, { model, vocabulary } = Object.values(data.shipped)[0];
  const { num_heads: numHeads, num_encoder_layers: numLayers, d_model: width } = model.config;
  const state = { ...begin, seed: 0, layer: 0, head: 0 }, wayOf = (name) => ways.find((way) => way.name === name);
  const offered = () => ways.filter((way) => way.places.includes(state.place)).map(({ name }) => name);
  const labelOf = (name, step) => wayOf(name).label.replace("{}", wayOf(name).sizes[step]);
  const turn = (change) => {
    Object.assign(state, change);
    wayKnob.offer(offered());
    if (!offered().includes(state.name)) state.name = offered()[0];
    wayKnob.pick(state.name);
    sizeKnob.pick(state.step);
    set(drawKnob, { disabled: !wayOf(state.name).random });
    show();
  };
  const desk = storyDesk(data, vocabulary, (story) => {
    state.story = story;
    known.clear();
    show();
  });
  const placeKnob = choice("replace", places.map(({ place, name }) => [place, name]), begin.place,
    (place) => turn({ place }));
  const wayKnob = menu("by", offered(), begin.name, (name) => turn({ name }));
  const sizeKnob = slider("size", wayOf(begin.name).sizes.map((_, step) => step), begin.step, (step) => turn({ step }),
    (step) => labelOf(state.name, step));
  const drawKnob = button("draw anew", () => turn({ seed: state.seed + 1 }));
  const heads = Array.from({ length: numLayers * numHeads }, (_, n) => [n, `layer ${Math.floor(n / numHeads) + 1}, ` +
    `head ${(n % numHeads) + 1}`]);
  const headKnob = menu("weights of", heads, 0, (n) =>
    turn({ layer: Math.floor(n / numHeads), head: n % numHeads }));
  const table = rowsOfText(["attention", "text", "exact"], 4), before = cellMap("full"), after = cellMap("replaced");
  set(table.made, { class: "tfm-rows tfm-tall" });
  const say = layOut(root, "Swap the attention inside a trained summarizer",
    [...desk.knobs, placeKnob, wayKnob, sizeKnob, drawKnob, headKnob], [
      set(panel("what it writes (marked: not with full attention)", table.made), { class: "tfm-panel tfm-swapped" }),
      set(panel("weights: rows look at columns", before.made, after.made), { class: "tfm-panel tfm-cell-maps" }),
    ]);
  const known = new Map(); // what was written of the story, and its "memory" where the encoder is whole
  const keyOf = (name, size) => JSON.stringify([state.place, name, size, wayOf(name)?.random && state.seed]);
  let asked = 0;

  function once(key, compute) {
    if (!known.has(key)) known.set(key, compute());
    return known.get(key);
  }

  /** The story written with a way to attend: {text, weights}, those of each layer (T, H, S). */
  function written(name, size) {
    return once(keyOf(name, size), () => writeWith(name, size));
  }

  function writeWith(name, size) {
    const slots = vocabulary.slotWords(state.story), src = vocabulary.encode(state.story, slots);
    const { begins, ends } = places.find(({ place }) => place === state.place);
    const there = (attention) => attention.startsWith(begins) && attention.endsWith(ends);
    const other = REPLACEMENTS[name](size, state.seed, width / numHeads);
    const encode = () => model.encode(src);
    let tokens;
    const outputs = record(() => attending(
      (query, key, attention) => (there(attention) ? other : attentionWeights)(query, key), () => {
        const memory = begins === "encoder" ? encode() : once("memory", encode);
        tokens = greedy(model, src, data.most, { memory });
      }));
    const weights = Array.from({ length: numLayers }, (_, n) => outputs[`${begins}.layers.${n}.${ends}.weights`]);
    return { text: vocabulary.decode(tokens, slots), weights };
  }

  /** One headline at a time, so that the first one stands there at once: each next one follows a paint. */
  function show() {
    const number = ++asked, { place, name, step, layer, head } = state, size = wayOf(name).sizes[step];
    const lines = { full: ["full", 0], none: ["none", 0], mean: ["mean", 0], own: [name, size] };
    const isKnown = (line) => known.has(keyOf(...lines[line])), whole = () => Object.keys(lines).every(isKnown);
    const next = ["full", "own", "none", "mean"].find((line) => !isKnown(line));
    if (next) written(...lines[next]);
    if (!whole()) requestAnimationFrame(() => setTimeout(() => number === asked && show()));
    const shareOf = (row) => measured.find((one) => row.every((value, i) => value === one[i]))[3];
    const [full, none, mean, own] = Object.entries(lines).map(([line, way]) =>
      ({ text: "", ...(isKnown(line) && written(...way)), share: shareOf([place, ...way]) }));
    const told = [["full", full], ["none at all", none], ["plain mean", mean], [name, own]];
    table.show(told.map(([called, { text, share }]) => [called, markedWords(text, full.text), percent(share)]), 4,
      (row) => row === 3);
    const mapOf = ({ weights }) => weights?.[layer].map((row) => row[head]);
    before.show(mapOf(full));
    after.show(mapOf(own));
    const changed = newWords(own.text, full.text).filter((isNew) => isNew).length;
    const compared = own.text === full.text ? ", as with full attention"
      : sentence("swap, new words", changed, full.text);
    const shares = [own, full, none, mean].map(({ share }) => percent(share));
    const { says } = places.find((one) => one.place === place);
    const said = sentence("swap", labelOf(name, step), says, own.text, compared, data.count, ...shares);
    say(isKnown("own") ? said : "…",
      { ...state, whole: whole(), size, full: full.text, none: none.text, mean: mean.text, own: own.text,
        weights: mapOf(own) ?? null });
  }

  set(drawKnob, { disabled: !wayOf(begin.name).random });
  desk.begin();
}

/** For each word of a text whether it is new: not, or not so often, in the other. */
function newWords(text, other) {
  const left = storyTokens(other);
  return storyTokens(text).map((word) => {
    const place = left.indexOf(word);
    if (place >= 0) left.splice(place, 1);
    return place < 0;
  });
}

/** A text whose new words are marked. */
function markedWords(text, other) {
  const marked = newWords(text, other);
  return storyTokens(text).flatMap((word, n) => {
    const space = n && !/^[.,!?;:]/.test(word) ? [" "] : [];
    return [...space, marked[n] ? element("mark", {}, word) : word];
  });
}

/** A small map of weights, `show(weights)` (T, S): rows look at columns; what a row cannot see yet stays empty. */
function cellMap(title) {
  const canvas = element("canvas", { class: "tfm-cells", role: "img", "aria-label": `weights, ${title}` });
  let values;
  const paint = () => {
    if (!values) return canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
    const [width, height] = [values.at(-1).length, values.length];
    set(canvas, { width, height });
    const all = values.map((row) => Array.from({ length: width }, (_, s) => row[s]));
    canvas.getContext("2d").drawImage(coloredCells(canvas, { values: all, limit: 1 }), 0, 0);
  };
  onNewColors(paint);
  const show = (weights) => {
    values = weights;
    paint();
  };
  return { made: element("div", {}, element("div", { class: "tfm-quiet" }, title), canvas), show };
}
