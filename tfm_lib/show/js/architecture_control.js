// Lessons 00 and 06: the model as boxes to press, and what it computes in each while it reads and writes.

const BOX_COLORS = {
  embedding: "crimson", positions: "vermilion", attention: "blue", "feed-forward": "green", norm: "olive",
  encoder: "teal", output: "purple",
};
const SIZES = { H: "heads", S: "story", T: "summary", D: "numbers per word", V: "vocabulary" };

/**
 * Boxes that can be pressed, and the real tensor of the opened one: attention and scores as a heat map, vectors as bars
 * of their lengths. columns: for encoder and decoder, from left to right, their boxes from the bottom to the top, {name
 * in PyTorch, label, role, lesson, about}; layout: where they are drawn, as in model_layout.py; most: tokens of a summary.
 */
function architectureControl(root, { story, opened, most, columns, layout, shipped }) {
  const [{ model, vocabulary }] = Object.values(shipped), { num_heads, max_length } = model.config;
  const found = Object.entries(columns).flatMap(([side, column]) => column.map((box) => ({ ...box, side })));
  const vectors = found.filter(({ role }) => role !== "attention" && role !== "output");
  const state = { box: found.find(({ name }) => name === opened), vectors, head: "mean", row: 0, column: 0 };
  let run, view;

  const note = element("p", { class: "tfm-note", role: "status" });
  const typed = element("textarea", { rows: 2, value: story, oninput: () => read(typed.value) });
  const heads = choice("head", ["mean", ...Array(num_heads).keys()], "mean", (head) => {
    state.head = head;
    view = boxView(run, state);
    show();
  });
  const title = element("div", { class: "tfm-title" }), name = element("code"), shape = element("div");
  const low = element("span"), bar = element("span", { class: "tfm-ramp" }), high = element("span");
  const link = element("a"), map = heatMap("numbers of the box; arrow keys move", (row, column) => {
    Object.assign(state, { row, column });
    show();
  });
  const inside = element("div", { class: "tfm-panel tfm-inside" });
  const { made, mark } = drawModel(columns, layout, (box) => {
    open(found.find((one) => one.name === box.name));
    if (inside.offsetTop > made.parentElement.offsetTop) inside.scrollIntoView({ block: "nearest" }); // it lies below
  });
  inside.append(title, element("div", {}, name), shape, heads, map.made,
    element("div", { class: "tfm-legend" }, low, bar, high, link));
  const say = layOut(root, "The model as boxes, and what each of them computes", [
    element("label", { class: "tfm-knob tfm-typed" }, element("span", {}, "story"), typed), note,
  ], [
    element("div", { class: "tfm-panel tfm-model" }, element("div", { class: "tfm-title" }, "press a box"), made),
    inside,
  ]);

  function read(text) {
    const src = vocabulary.encode(text), unknown = [...new Set(vocabulary.unknownWords(text))];
    if (src.length < 1 || src.length > max_length) {
      set(note, { text: `The model reads 1 to ${max_length} words and punctuation marks; this story has ${src.length}.` });
      root.shown = { ...root.shown, refused: src.length };
      return;
    }
    run = runModel(model, vocabulary, src, most);
    const lacking = unknown.map((word) => `“${word}”`).join(", ");
    set(note, {
      text: `The model writes: “${vocabulary.decode(run.summary)}”.` +
        (unknown.length ? ` Its vocabulary lacks ${lacking}; it reads [unk].` : ""),
    });
    open(state.box);
  }

  function open(box) {
    state.box = box;
    view = boxView(run, state);
    const sizes = view.values.map((values) => Math.max(...values.map((value) => Math.abs(value ?? 0))));
    state.row = sizes.indexOf(Math.max(...sizes)); // where the largest number stands
    state.column = view.values[state.row].findIndex((value) => Math.abs(value) === sizes[state.row]);
    show();
  }

  function show() {
    const { box, row, column } = state, { letters, values, limit } = view, sizes = tensorSizes(view.tensor);
    const layer = box.name.match(/layers\.(\d+)/), attends = box.role === "attention";
    const side = box.side === "encoder" ? "Encoder" : "Decoder", value = values[row][column];
    const named = `${side}${layer ? `, layer ${layer[1]}` : ""}: ${box.label}`, reading = boxReading(view, state);
    mark(box.name);
    set(title, { text: named });
    set(name, { text: box.name });
    set(shape, {
      text: `shape (${letters.join(", ")}) = (${sizes.join(", ")}): ` +
        [...new Set(letters)].map((letter) => SIZES[letter]).join(", "),
    });
    set(heads, { style: attends ? null : "visibility: hidden" });
    heads.querySelectorAll("input").forEach((input) => set(input, { disabled: !attends }));
    set(low, { text: view.keys ? (view.signed ? decimal(-limit) : "0") : "lengths" });
    set(high, { text: view.keys ? (limit === 1 ? "1" : decimal(limit)) : `0 to ${limit.toFixed(1)}` });
    set(bar, { "data-signed": String(view.signed), style: view.keys ? null : "display: none" });
    set(link, { ...leadingTo(box.lesson), text: `explained in lesson ${box.lesson.slice(0, 2)}` });
    map.show(view, row, column, reading);
    say(`${named}. ${box.about} ${reading}`, {
      box: box.name, shape: sizes, tensor: view.tensor, head: state.head, row, column, value: value ?? 0,
      source: run.source, target: run.target, link: link.getAttribute("href"),
    });
  }

  read(story);
}

/** What every part of the model computes while it reads src (S,) and writes its summary, by the parts' names. */
function runModel(model, vocabulary, src, most) {
  let summary;
  const tensors = record(() => (summary = greedy(model, src, most)));
  const target = [model.config.start_id, ...summary.slice(0, -1)], rows = (ids) => ids.map((id) => model.tokens[id]);
  Object.assign(tensors, { "encoder.embedding.tokens": rows(src), "decoder.embedding.tokens": rows(target) });
  tensors.output = tensors.decoder.map((x) => model.output(x));
  tensors.softmax = tensors.output.map(softmax);
  const words = (ids) => ids.map((id) => vocabulary.pieces[id]);
  return { tensors, summary, pieces: vocabulary.pieces, source: words(src), target: words(target) };
}

/**
 * A box's tensor, and how it is shown: values[row][column], undefined where a mask hides it, under the words of rows and
 * columns; limit: the number that has the full color. Of vectors the lengths, without words of columns; limit: the
 * longest one on this side of the model.
 */
function boxView({ tensors, pieces, source, target }, { box: { name, role, side }, vectors, head }) {
  const rows = side === "encoder" ? source : target, length = side === "encoder" ? "S" : "T";
  const largest = (values) => Math.max(...values.map((row) => Math.max(...row.map(Math.abs))));
  if (role === "attention") {
    const masked = side === "decoder" && name.endsWith("self_attention"), keys = masked ? target : source;
    const weights = tensors[`${name}.weights`]; // (T, H, S), and of the past alone where the future is masked
    const tensor = weights[0].map((_, h) => weights.map((all) => keys.map((_, s) => all[h][s] ?? 0))); // (H, T, S)
    const visible = (s, t) => !masked || s <= t;
    const chosen = head === "mean" ? tensor : [tensor[head]];
    const values = rows.map((_, t) => keys.map((_, s) =>
      (visible(s, t) ? sum(chosen.map((one) => one[t][s])) / chosen.length : undefined)));
    const letters = ["H", length, masked ? "T" : "S"];
    return { tensor, letters, rows, keys, values, limit: Math.max(...tensor.map(largest)), signed: false };
  }
  const tensor = tensors[name].map((row) => Array.from(row));
  if (role === "output") {
    const likely = [...new Set(tensor.flatMap((row) => ranking(row).slice(0, 2)))];
    const values = tensor.map((row) => likely.map((token) => row[token])), signed = name === "output";
    const keys = likely.map((token) => pieces[token]);
    return { tensor, letters: ["T", "V"], rows, keys, values, limit: signed ? largest(tensor) : 1, signed };
  }
  const lengths = (rows) => rows.map((vector) => [Math.sqrt(dot(vector, vector))]);
  const limit = Math.max(...vectors.map((one) => (one.side === side ? largest(lengths(tensors[one.name])) : 0)));
  return { tensor, letters: [length, "D"], rows, keys: null, values: lengths(tensor), limit, signed: false };
}

function tensorSizes(tensor) {
  return Array.isArray(tensor) ? [tensor.length, ...tensorSizes(tensor[0])] : [];
}

/** The number at a place of a box's tensor, in words. */
function boxReading({ rows, keys, values }, { box: { name, role }, head, row, column }) {
  const at = `“${rows[row]}” (position ${row})`, value = values[row][column], key = keys && `“${keys[column]}”`;
  if (role === "attention") {
    if (value === undefined) return `At ${at}, ${key} (position ${column}) is hidden by the causal mask.`;
    const who = head === "mean" ? "the mean of all heads" : `head ${head}`;
    return sentence("at weight", at, key, column, value.toFixed(2), who);
  }
  if (name === "output") return sentence("at logit", at, key, decimal(value));
  if (name === "softmax") return sentence("at probability", at, key, percent(value));
  return sentence("at length", at, value.toFixed(1), (sum(values.flat()) / values.length).toFixed(1));
}

/** Both sides as boxes, in their layout, taller for fingers; `mark(name)` gives one a thick frame. */
function drawModel(columns, { width: wide, height: high, tall, boxes, frames, streams, arrows, memory }, press) {
  const pressed = {}, parts = [], stretch = matchMedia("(pointer: coarse)").matches ? 1.5 : 1;
  const down = (y) => stretch * (high - y); // from the top
  const path = (corners) => `M${corners.map(([x, y]) => `${x} ${down(y)}`).join("L")}`;
  const behind = frames.flatMap(([x, width, y, height, label, name]) => [
    element("rect", {
      x, y: down(y + height), width, height: stretch * height, rx: 7,
      style: "fill: var(--tfm-empty); stroke: var(--tfm-line)",
    }),
    element("text", {
      x: label, y: down(y + height / 2), "text-anchor": "middle", "dominant-baseline": "middle", class: "tfm-quiet",
      transform: `rotate(-90 ${label} ${down(y + height / 2)})`,
    }, name),
  ]);
  const line = (corners, color, thick) =>
    behind.push(element("path", { d: path(corners), style: `fill: none; stroke: var(--tfm-${color}); stroke-width: ${thick}` }));
  const arrow = (corners, color) => {
    const [[from], [x, y]] = corners.slice(-2), back = from < x ? -5 : 5;
    line(corners, color, 1.5);
    line([[x + back, y + 3], [x, y], [x + back, y - 3]], color, 1.5);
  };
  streams.forEach((corners) => line(corners, "olive", 2.5));
  arrows.forEach((corners) => arrow(corners, "quiet"));
  memory.forEach((corners) => arrow(corners, "teal"));
  Object.entries(columns).forEach(([side, column], place) => {
    column.forEach((box, i) => {
      const layer = box.name.match(/layers\.(\d+)/)?.[1], [x, width, y] = boxes[box.name];
      const of = { "Norm": layer && ` before ${column[i + 1].label}`, "Add": ` after ${column[i - 1]?.label}` };
      pressed[box.name] = pressable(element("g", { class: "tfm-box" },
        element("rect", {
          x, y: down(y + tall), width, height: stretch * tall, rx: 5,
          style: `fill: var(--tfm-${BOX_COLORS[box.role]}-fill)`,
        }),
        element("text", { x: x + width / 2, y: down(y + tall / 2) + 4, "text-anchor": "middle" },
          box.label === "Add" ? "+" : box.label),
      ), `${side}${layer ? ` layer ${layer}` : ""}: ${box.label}${of[box.label.split(" ")[0]] ?? ""}`, () => press(box));
      parts.push(pressed[box.name]);
    });
    const [x, width] = boxes[column[0].name];
    behind.push(element("text", { x: x + width / 2, y: down(6), "text-anchor": "middle", class: "tfm-quiet" },
      place ? "↑ summary so far" : "↑ story"));
  });
  const name = "encoder and decoder, read upward";
  const made = set(drawing(wide, stretch * high, name, ...behind, ...parts), { role: "group" });
  const mark = (name) => Object.entries(pressed).forEach(([one, box]) =>
    set(box, { "aria-pressed": String(one === name) }));
  return { made, mark };
}

/**
 * Numbers as colored cells, lengths as bars, with words at their rows, on a canvas. `show(view, row, column, reading)` paints it with a
 * frame around one cell; `move(row, column)` is called where a pointer or the arrow keys go.
 */
function heatMap(name, move) {
  const canvas = element("canvas", { class: "tfm-heat", role: "slider", tabindex: 0, "aria-label": name });
  let shown, place, cells;
  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const inside = (number, length) => Math.max(0, Math.min(length - 1, number));
  const go = (row, column) => {
    const next = [inside(row, shown.values.length), inside(column, shown.values[0].length)];
    if (next[0] !== place.row || next[1] !== place.column) move(...next);
  };
  const point = ({ offsetX, offsetY }) => {
    const row = Math.floor((offsetY - cells.top) / cells.tall), column = Math.floor((offsetX - cells.left) / cells.wide);
    if (row >= 0 && row < shown.values.length && column >= 0) go(row, column);
  };
  set(canvas, {
    onpointerdown: point,
    onpointermove: point,
    onkeydown: (event) => {
      if (!ARROWS[event.key]) return;
      event.preventDefault();
      go(place.row + ARROWS[event.key][0], place.column + ARROWS[event.key][1]);
    },
  });

  function paint() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !shown) return;
    const { values, rows, keys, limit } = shown, context = canvas.getContext("2d"), cut = (word) =>
      (word.length > 11 ? `${word.slice(0, 10)}…` : word);
    set(canvas, { width: Math.round(width * devicePixelRatio), height: Math.round(height * devicePixelRatio) });
    const begin = () => context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    begin();
    context.clearRect(0, 0, width, height);
    const font = "12px system-ui, sans-serif", color = (of) => `rgb(${canvasColor(canvas, of)})`;
    context.font = font;
    const left = Math.ceil(Math.max(...rows.map((word) => context.measureText(cut(word)).width))) + 6;
    const top = keys ? Math.ceil(Math.max(...keys.map((word) => context.measureText(cut(word)).width))) + 6 : 2;
    const tall = Math.min(26, (height - top - 2) / rows.length), wide = (width - left - 2) / values[0].length;
    cells = { left, top, tall, wide };
    context.textBaseline = "middle";
    context.imageSmoothingEnabled = false;
    const write = (text, lit, align, x, y, angle = 0) => {
      begin();
      context.translate(x, y);
      context.rotate(angle);
      context.font = lit ? `bold ${font}` : font;
      context.textAlign = align;
      context.fillStyle = color(lit ? "ink" : "quiet");
      context.fillText(text, 0, 0);
    };
    const down = Math.ceil(11.5 / tall), across = Math.ceil(13 / wide); // thinned out where they would touch
    const middle = (row) => top + (row + 0.5) * tall;
    rows.forEach((word, row) => row % down || write(cut(word), row === place.row, "right", left - 4, middle(row)));
    if (!keys) {
      values.forEach(([length], row) => {
        const lit = row === place.row, end = (wide - 36) * length / limit;
        begin();
        context.fillStyle = color(lit ? "full" : "shade");
        context.fillRect(left, middle(row) - 0.4 * tall, end, 0.8 * tall);
        if (row % down === 0) write(length.toFixed(1), lit, "left", left + end + 4, middle(row));
      });
      return;
    }
    begin();
    context.drawImage(coloredCells(canvas, shown), left, top, width - left - 2, tall * rows.length);
    keys.forEach((key, column) =>
      column % across || write(cut(key), column === place.column, "left", left + (column + 0.5) * wide, top - 4, -Math.PI / 2));
    begin();
    const frame = [Math.max(wide, 8), Math.max(tall, 8)];
    const corner = [left + (place.column + 0.5) * wide - frame[0] / 2, top + (place.row + 0.5) * tall - frame[1] / 2];
    for (const [thick, of] of [[4, "ground"], [2, "ink"]]) {
      Object.assign(context, { lineWidth: thick, strokeStyle: color(of) });
      context.strokeRect(...corner, ...frame);
    }
  }

  new ResizeObserver(paint).observe(canvas);
  onNewColors(paint);
  return {
    made: canvas,
    show(view, row, column, reading) {
      const wide = view.values[0].length;
      [shown, place] = [view, { row, column }];
      set(canvas, {
        "aria-valuemin": 0, "aria-valuemax": view.values.length * wide - 1, "aria-valuenow": row * wide + column,
        "aria-valuetext": reading,
      });
      paint();
    },
  };
}

/** Values as pixels, one each: from pale to dark blue, below 0 too where vermilion is above it. */
function coloredCells(canvas, { values, limit, signed }) {
  const image = element("canvas", { width: values[0].length, height: values.length });
  const [pale, middle, full, above] = ["empty", "shade", "full", "vermilion"].map((name) => canvasColor(canvas, name));
  const between = (one, other, share) => one.map((from, i) => from + share * (other[i] - from));
  const pixels = image.getContext("2d").createImageData(values[0].length, values.length);
  values.flat().forEach((value, place) => {
    if (value === undefined) return; // hidden: nothing is there
    const share = Math.min(1, Math.abs(value) / limit);
    const blue = share < 0.5 ? between(pale, middle, 2 * share) : between(middle, full, 2 * share - 1);
    pixels.data.set([...(signed && value > 0 ? between(pale, above, share) : blue), 255], 4 * place);
  });
  image.getContext("2d").putImageData(pixels, 0, 0);
  return image;
}

/** A color of control.css as a canvas needs it: red, green, blue. */
function canvasColor(canvas, name) {
  canvas.style.color = `var(--tfm-${name})`;
  return getComputedStyle(canvas).color.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** Have a canvas painted anew when colors change, light or dark: it knows no CSS. */
function onNewColors(paint) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  const themes = new MutationObserver(paint), attributeFilter = ["theme", "data-theme", "data-jp-theme-light"];
  for (const one of [document.documentElement, document.body]) themes.observe(one, { attributeFilter });
}
