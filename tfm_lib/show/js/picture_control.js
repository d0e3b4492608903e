/**
 * Lesson 18: a shape that is dragged over a picture, and what a Transformer makes of it. data: side and patch in pixels;
 * sizes and colors by name, shapes; unseen, the captions that no training picture shows; shown, the shape to begin with;
 * describes, whether the text model describes it (else the shape is named); weights, the name of what is shipped.
 */
function pictureControl(root, data) {
  const { side, patch, sizes, colors, shapes, unseen, describes } = data;
  const { model, vocabulary } = data.shipped[data.weights];
  const state = { ...data.shown, layer: 2, head: 0, gate: 1, word: 3 };
  const heads = model.config.num_heads, layers = model.config.num_encoder_layers, across = side / patch;
  const knob = (name, kind, label, options, text) => kind(label, options, state[name], (value) => {
    state[name] = value;
    show();
  }, text);
  const counted = (length) => Array.from({ length }, (_, i) => i + 1);
  const knobs = [
    knob("size", choice, "size", Object.keys(sizes)), knob("color", menu, "color", Object.keys(colors)),
    knob("shape", menu, "shape", shapes), knob("layer", choice, "layer", counted(layers)),
    knob("head", menu, "head", [[0, "all, averaged"], ...counted(heads)]),
  ];
  if (describes) {
    const turns = Array.from({ length: 21 }, (_, i) => i / 20);
    knobs.push(knob("gate", slider, "gate", turns, decimal));
  }

  const unit = 12, full = side * unit;
  const square = (width, x, y) => element("rect", { x, y, width, height: width });
  const pixels = counted(side * side).map((n) =>
    square(unit + 0.5, ((n - 1) % side) * unit, Math.floor((n - 1) / side) * unit));
  const lines = counted(across - 1).flatMap((n) => [[n, n, 0, across], [0, across, n, n]]).map(([x1, x2, y1, y2]) =>
    element("line", {
      x1: x1 * patch * unit, x2: x2 * patch * unit, y1: y1 * patch * unit, y2: y2 * patch * unit,
      style: "stroke: #52606d; stroke-dasharray: 3 3",
    }));
  const held = element("g", {
    tabindex: 0, role: "slider", "aria-label": "place of the shape", "aria-valuemin": 0, "aria-valuemax": side,
    onkeydown: (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      move(state.x + step[0], state.y + step[1]);
    },
  }, square(full, 0, 0));
  set(held.firstChild, { style: "fill: transparent; stroke: var(--tfm-line)" });
  const picture = drawing(full, full, "the picture, cut into patches", ...pixels, ...lines, held);
  set(picture, { role: "group" });
  draggable(held, picture, ({ x, y }) => move(x / unit, y / unit));

  const cells = counted(across * across).map((n) => {
    const x = ((n - 1) % across) * patch * unit, y = Math.floor((n - 1) / across) * patch * unit, middle = (patch * unit) / 2;
    return {
      ground: square(patch * unit - 2, x + 1, y + 1),
      number: element("text", { x: x + middle, y: y + middle + 5, "text-anchor": "middle" }),
    };
  });
  const looks = drawing(full, full, "how much is looked at each patch", ...cells.flatMap((cell) => Object.values(cell)));
  const bars = probabilityBars(shapes.length);
  const press = (n) => {
    state.word = n;
    show();
  };
  const words = counted(4).map((n) => element("button", { type: "button", class: "tfm-word", onclick: () => press(n - 1) }));
  const written = element("p", { class: "tfm-line" }, ...words.flatMap((word) => [word, " "]));
  const say = layOut(root, describes ? "A text model that looks" : "A shape and the patches", knobs, [
    panel("drag the shape", picture), panel(describes ? "what the word looks at, %" : "what [first] looks at, %", looks),
    describes ? panel("it writes; press a word", written, bars) : panel("it says", bars),
  ]);

  function move(x, y) {
    Object.assign(state, { x: Math.round(x), y: Math.round(y) });
    show();
  }

  function show() {
    const margin = sizes[state.size], inside = (at) => Math.min(side - margin, Math.max(margin, at));
    Object.assign(state, { x: inside(state.x), y: inside(state.y) });
    const drawn = drawnShape(data, state), patches = patchesOf(drawn, side, patch);
    drawn.forEach((color, n) => set(pixels[n], { style: `fill: rgb(${color.map((value) => Math.round(255 * value))})` }));
    const caption = `a ${state.size} ${state.color} ${state.shape}`, isNew = unseen.includes(caption);
    const novel = isNew ? ", which no training picture shows" : "";
    set(held, { "aria-valuenow": state.x, "aria-valuetext": `${caption}, at ${state.x}, ${state.y}` });
    let told, chances, about;
    const maps = record(() => (told = describes
      ? model.describe(patches, state.gate, vocabulary.startId) : model.shape(patches)));
    const part = describes ? ["describer.looks", "cross_attention"] : ["shape_eye.layers", "self_attention"];
    const row = maps[`${part[0]}.${state.layer - 1}.${part[1]}.weights`][describes ? state.word : 0]; // (H, S)
    const chosen = state.head ? [row[state.head - 1]] : row;
    const weights = chosen[0].map((_, s) => sum(chosen.map((head) => head[s])) / chosen.length); // (1 + P,)
    cells.forEach(({ ground, number }, n) => {
      set(ground, { style: shade(weights[n + 1]) });
      set(number, { text: Math.round(100 * weights[n + 1]), style: onShade(weights[n + 1]) });
    });
    const best = ranking(weights.slice(1))[0];
    const looked = `row ${Math.floor(best / across) + 1}, column ${(best % across) + 1}, with ${percent(weights[best + 1])}`;
    if (describes) {
      const texts = told.map(({ id }) => vocabulary.decode([id]));
      texts.forEach((text, n) => set(words[n], {
        text, "aria-label": `what is likely in the place of “${text}”`, "aria-pressed": String(n === state.word),
        "data-kind": n === state.word ? "chosen" : "written",
      }));
      chances = told[state.word].chances;
      bars.show(ranking(chances).slice(0, shapes.length).map((id) => ({
        name: vocabulary.decode([id]) || "the end", p: chances[id], chosen: id === told[state.word].id })));
      about = texts.join(" ");
      const seen = [decimal(state.gate), about, texts[state.word], state.layer, looked];
      say(sentence("picture, described", caption, novel, ...seen),
        { ...state, text: about, chances, weights });
    } else {
      chances = told;
      const [first] = ranking(chances);
      bars.show(shapes.map((name, n) => ({ name, p: chances[n], chosen: n === first })));
      say(sentence("picture", caption, novel, shapes[first], percent(chances[first]), state.layer, looked),
        { ...state, chances, weights });
    }
  }

  show();
}
