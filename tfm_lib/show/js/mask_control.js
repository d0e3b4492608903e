/**
 * Lesson 02: a mask that is built cell by cell or taken ready-made, and the weights that its softmax leaves. data:
 * scores (T, S) with T = S; labels of the words, and names, as sentences call them; the valid length to begin with.
 */
function maskControl(root, { scores, labels, names, length }) {
  const count = labels.length, state = { length, causal: true, window: false };
  let mask = madeOfKnobs(), stop = [0, 0]; // (T, S) of booleans; the cell that Tab reaches

  /** What the knobs say: no key from the valid length on, none of the future, none further back than the window. */
  function madeOfKnobs() {
    return scores.map((row, t) => row.map((_, s) =>
      s < state.length && (s <= t || !state.causal) && (s >= t - 2 || !state.window)));
  }

  const make = (change) => {
    Object.assign(state, change);
    mask = madeOfKnobs();
    show();
  };
  const someReal = () => (state.length < count ? state.length : count - 1);
  const ready = {
    all: () => ({ length: count, causal: false, window: false }),
    padding: () => ({ length: someReal(), causal: false, window: false }),
    causal: () => ({ length: count, causal: true, window: false }),
    both: () => ({ length: someReal(), causal: true, window: false }),
    "window of 2": () => ({ length: count, causal: true, window: true }),
  };
  const lengths = Array.from({ length: count + 1 }, (_, words) => words);
  const lengthKnob = slider("valid length", lengths, state.length, (value) => make({ length: value }));
  const causalKnob = tick("causal", state.causal, (causal) => make({ causal, window: false }));
  const readyKnob = choice("mask", Object.keys(ready), null, (name) => make(ready[name]()));

  const side = maskSide(labels), signs = maskSigns(side);
  const code = element("pre", { class: "tfm-code" });
  const pairs = maskCells(labels, side, (t, s) => {
    const sign = element("path", { "stroke-width": side / 14 });
    const cell = element("g", {}, element("rect", { width: side - 2, height: side - 2, rx: 3 }), sign);
    pressable(cell, "", () => {
      stand(t, s);
      mask[t][s] = !mask[t][s];
      show();
    });
    return set(cell, { role: "gridcell", tabindex: -1 });
  });
  const shades = maskCells(labels, side, () => {
    const middle = { x: side / 2 - 1, y: side / 2 + 3, "text-anchor": "middle" };
    return element("g", {}, element("rect", { width: side - 2, height: side - 2, rx: 3 }), element("text", middle));
  });
  pairs.rows.forEach((row) => set(row, { role: "row" }));
  set(pairs.svg, { role: "grid", "aria-label": "mask, rows are queries and columns keys", onkeydown: (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    stand(...stop.map((place, axis) => Math.max(0, Math.min(count - 1, place + step[axis]))));
    pairs.cells[stop[0]][stop[1]].focus();
  } });
  const say = layOut(root, "A mask to build, and the weights that it leaves", [lengthKnob, causalKnob, readyKnob], [
    panel("mask: press a cell to allow or hide it", pairs.svg, code), panel("weights", shades.svg),
  ]);

  function stand(t, s) {
    set(pairs.cells[stop[0]][stop[1]], { tabindex: -1 });
    stop = [t, s];
    set(pairs.cells[t][s], { tabindex: 0 });
  }

  function show() {
    const weights = scores.map((row, t) => maskedSoftmax(row, mask[t]));
    const own = String(mask) !== String(madeOfKnobs()), padded = state.length < count;
    lengthKnob.pick(state.length);
    causalKnob.pick(state.causal);
    const [open, closed] = state.causal ? ["causal", "both"] : ["all", "padding"];
    readyKnob.pick(own ? null : state.window ? "window of 2" : padded ? closed : open);
    mask.forEach((row, t) => row.forEach((allowed, s) => {
      const [ground, sign] = pairs.cells[t][s].children, [shaded, number] = shades.cells[t][s].children;
      set(pairs.cells[t][s], { "aria-label": `query ${names[t]}, key ${names[s]}: ${allowed ? "allowed" : "hidden"}` });
      set(ground, { style: `fill: var(${allowed ? "--tfm-blue-fill" : "--tfm-empty"})` });
      set(sign, allowed ? signs.dot : signs.cross);
      set(shaded, { style: shade(weights[t][s]) });
      const text = weights[t][s] ? twoDigits(weights[t][s]) : "0";
      set(number, { text: side < 34 ? text.replace(/^0(?=\.)|\.00$/, "") : text, style: onShade(weights[t][s]) });
    }));
    const written = own ? "your own mask" : maskCode(state, count);
    const title = own ? "Your own mask" : maskName(state, count);
    set(code, { text: written });
    say(`${title}: ${maskWords(mask, weights, names)}`, { mask, weights, code: written });
  }

  stand(0, 0);
  show();
}

/** The weights of one query: a row that sees nothing gets zeros, as in tfm_lib.masks. */
function maskedSoftmax(scores, allowed) {
  if (!allowed.includes(true)) return scores.map(() => 0);
  return softmax(scores.map((score, key) => (allowed[key] ? score : -Infinity)));
}

/** A mask of the knobs as one writes it with tfm_lib.masks. */
function maskCode({ length, causal, window }, count) {
  const parts = [];
  if (length < count) parts.push(["length", `length_mask(torch.tensor([${length}]), ${count})`]);
  if (window) parts.push(["window", `causal_mask(${count}).triu(-2)`]);
  else if (causal) parts.push(["causal", `causal_mask(${count})`]);
  if (!parts.length) return "mask = None";
  if (parts.length === 1) return `mask = ${parts[0][1]}`;
  return [...parts.map((part) => part.join(" = ")), `mask = ${parts.map(([name]) => name).join(" & ")}`].join("\n");
}

function maskName({ length, causal, window }, count) {
  const said = length < count ? [`valid length ${length}`] : [];
  if (causal) said.push(window ? "a window of 2 words back" : "causal");
  const name = said.join(" and ") || "no mask";
  return name[0].toUpperCase() + name.slice(1);
}

function maskWords(mask, weights, names) {
  const last = names.length - 1, sees = mask[last].filter(Boolean).length, top = Math.max(...weights[last]);
  const best = names.filter((_, key) => mask[last][key] && weights[last][key] > top - 1e-6);
  const alike = sees === 1 ? sentence("mask, one key", best) : sentence("mask, all keys");
  const looks = best.length === sees ? alike : `most at ${namesInWords(best)}`;
  const blind = names.filter((_, query) => !mask[query].includes(true));
  const words = [sentence("mask, pairs", mask.flat().filter(Boolean).length, mask.flat().length)];
  if (blind.length === names.length) words.push("No query sees a key, so every weight is 0.");
  else {
    const keys = sees === 1 ? "key" : "keys", each = best.length > 1 ? " each" : "";
    words.push(sees ? sentence("mask, query", names[last], sees, keys, looks, twoDigits(top), each)
      : `The last query is ${names[last]}.`);
    if (blind.length) {
      words.push(`${namesInWords(blind)} ${blind.length > 1 ? "see no key, so all their" : "sees no key, so all its"} weights are 0.`);
    } else words.push(sentence(mask.flat().includes(false) ? "mask, hidden" : "mask, nothing hidden"));
  }
  return words.join(" ");
}

const namesInWords = (names) => names.join(", ").replace(/, (?=[^,]*$)/, " and ");

/** Two digits, halves up: 0.125 is 0.13 in Python, too. */
const twoDigits = (weight) => (weight + 1e-9).toFixed(2);

/** The side of a cell: a finger's room for ten words, and no more than 44. */
function maskSide(labels) {
  return Math.min(44, Math.floor((358 - maskLabelWidth(labels)) / labels.length));
}

function maskLabelWidth(labels) {
  return Math.max(44, ...labels.map((label) => 7.5 * Math.min(10, label.length) + 10));
}

function maskSigns(side) {
  const middle = side / 2 - 1, r = 0.18 * side;
  const dot = `M ${middle - r} ${middle} a ${r} ${r} 0 1 0 ${2 * r} 0 a ${r} ${r} 0 1 0 ${-2 * r} 0`;
  const arm = (x, y) => `M ${middle - r * x} ${middle - r * y} L ${middle + r * x} ${middle + r * y}`;
  return {
    dot: { d: dot, style: "fill: var(--tfm-full)" },
    cross: { d: `${arm(1, 1)} ${arm(1, -1)}`, style: "stroke: var(--tfm-hidden); fill: none" },
  };
}

/** A grid of queries by keys with the words around it. make(t, s): the content of a cell, a <g>. */
function maskCells(labels, side, make) {
  const left = maskLabelWidth(labels);
  const short = labels.map((text) => (text.length > 10 ? `${text.slice(0, 9)}…` : text));
  const upright = short.some((text) => 7 * text.length > side), top = upright ? left + 16 : 36;
  const place = (index) => index * side + 1, middle = (index) => (index + 0.5) * side;
  const word = (text, x, y, more) => element("text", { x, y, "aria-hidden": "true", ...more }, text);
  const axis = { class: "tfm-quiet" }, turned = (x, y) => ({ transform: `rotate(-90 ${x} ${y})` });
  const keys = short.map((text, s) => upright
    ? word(text, left + middle(s) + 4, top - 5, turned(left + middle(s) + 4, top - 5))
    : word(text, left + middle(s), top - 6, { "text-anchor": "middle" }));
  const cells = labels.map((_, t) => labels.map((_, s) =>
    set(make(t, s), { transform: `translate(${left + place(s)} ${top + place(t)})` })));
  const rows = short.map((text, t) => element("g", {},
    word(text, left - 6, top + middle(t) + 4, { "text-anchor": "end" }), ...cells[t]));
  const svg = drawing(left + side * labels.length, top + side * labels.length, "weights, rows are queries",
    word("key", left + (side * labels.length) / 2, 12, { "text-anchor": "middle", ...axis }),
    word("query", left - 6, top - 6, { "text-anchor": "end", ...axis }), ...keys, ...rows);
  return { svg, rows, cells };
}
