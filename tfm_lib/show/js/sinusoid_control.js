/**
 * Lesson 04: two rows of the table of sinusoids, as hands of clocks and by their dot product. data: the widths to
 * choose from, how many positions the table has, how far an offset reaches; width, position and offset to begin with.
 */
function sinusoidControl(root, { widths, positions, reach, ...start }) {
  const state = { ...start };
  const turn = (name) => (value) => {
    state[name] = value;
    show();
  };
  const span = (low, high) => Array.from({ length: high - low + 1 }, (_, n) => low + n);
  const knobs = {
    width: slider("width d", widths, state.width, turn("width")),
    position: slider("position", span(reach, positions - 1 - reach), state.position, turn("position")),
    offset: slider("offset", span(-reach, reach), state.offset, turn("offset"), (value) => decimal(value, 0)),
  };
  const drag = (name, low, high, value) => {
    state[name] = Math.max(low, Math.min(high, Math.round(value)));
    knobs[name].pick(state[name]);
    show();
  };
  const quiet = (x, y, anchor, text = "") =>
    element("text", { x, y, "text-anchor": anchor, class: "tfm-quiet" }, text);
  const line = (ends, style) => element("line", { ...ends, style });
  const finger = { r: 14, style: "fill: transparent" }, blue = "var(--tfm-blue)", vermilion = "var(--tfm-vermilion)";
  const disc = (r) => [element("circle", { ...finger }), element("circle", { r, style: `fill: ${blue}` })];
  const square = (r) => [element("circle", { ...finger }),
    element("rect", { x: -r, y: -r, width: 2 * r, height: 2 * r, style: `fill: ${vermilion}` })];

  // The table: a pixel a cell, under a drawing of its axes and of the two rows.
  const box = { left: 44, top: 8, right: 334, bottom: 300 };
  const rowAt = scale([-0.5, positions - 0.5], [box.top, box.bottom]);
  const pixels = element("canvas", { height: positions, style:
    `left: ${box.left / 3.6}%; width: ${(box.right - box.left) / 3.6}%; ` +
    `top: ${box.top / 3.3}%; height: ${(box.bottom - box.top) / 3.3}%` });
  const high = rowAt(1) - rowAt(0) + 2, [left, right] = [box.left - 2, box.right + 2]; // a frame hides no cell of its row
  const frame = (style) => element("rect", { x: left, y: -high / 2, width: right - left, height: high,
    style: `fill: none; ${style}` });
  const edge = "stroke: var(--tfm-ground); stroke-width: 2.5";
  const rows = [
    element("g", {}, frame(edge), frame(`stroke: ${blue}; stroke-width: 1.5`),
      element("g", { transform: `translate(${left - 6} 0)` }, ...disc(5))),
    element("g", {}, frame(edge), frame(`stroke: ${vermilion}; stroke-width: 1.5; stroke-dasharray: 9 4`),
      element("g", { transform: `translate(${right + 6} 0)` }, ...square(5))),
  ];
  const lastColumn = quiet(box.right, 316, "end");
  const table = drawing(360, 330, "the table, two of its rows marked",
    ...[0, 20, 40, 60, 80, 100].map((row) => quiet(box.left - 16, rowAt(row) + 4, "end", row)),
    quiet(box.left, 316, "start", "0"), quiet((box.left + box.right) / 2, 316, "middle", "column"), lastColumn,
    set(quiet(0, 0, "middle", "position"), { transform: `translate(10 ${rowAt(50)}) rotate(-90)` }), ...rows);
  draggable(rows[0].lastChild, table,
    ({ y }) => drag("position", reach, positions - 1 - reach, rowAt.invert(y)));
  draggable(rows[1].lastChild, table, ({ y }) => drag("offset", -reach, reach, rowAt.invert(y) - state.position));

  // Four hands, the position's solid and broad, so that it shows on both sides of a dashed one that lies on it.
  const clocks = [45, 135, 225, 315].map((x) => {
    const name = quiet(0, -42, "middle"), ends = { x1: 0, y1: 0 };
    const hands = [line(ends, `stroke: ${blue}; stroke-width: 5`),
      line(ends, `stroke: ${vermilion}; stroke-width: 2; stroke-dasharray: 5 3`)];
    const tips = [element("g", {}, disc(5)[1]), element("g", {}, square(3)[1])];
    const face = element("circle", { r: 34, style: "fill: none; stroke: var(--tfm-line); stroke-width: 1.5" });
    const place = { transform: `translate(${x} 58)` };
    return { name, hands, tips, made: element("g", place, name, face, hands[0], tips[0], hands[1], tips[1]) };
  });

  // The dot product by offset, in shares of the most that it can be, so that its axis holds for all widths.
  const offsetAt = scale([-reach, reach], [40, 344]), shareAt = scale([0, 1], [144, 14]);
  const level = (y) => line({ x1: 36, x2: 350, y1: y, y2: y }, "stroke: var(--tfm-line)");
  const curve = element("polyline", { style: "fill: none; stroke: var(--tfm-quiet); stroke-width: 2" });
  const here = element("g", {}, disc(6)[1]), there = element("g", {}, ...square(6));
  const products = drawing(360, 190, "curve of the dot product by offset",
    ...[[0, "0"], [0.5, "d/4"], [1, "d/2"]].flatMap(([share, text]) =>
      [level(shareAt(share)), quiet(30, shareAt(share) + 4, "end", text)]),
    ...[-reach, 0, reach].map((offset) => quiet(offsetAt(offset), 168, "middle", decimal(offset, 0))),
    quiet(offsetAt(0), 184, "middle", "offset"), curve, here, there);
  draggable(there, products, ({ x }) => drag("offset", -reach, reach, offsetAt.invert(x)));

  const say = layOut(root, "Width, position and offset of sinusoids", Object.values(knobs), [
    panel("table, from −1 (blue) to 1 (orange)", element("div", { class: "tfm-layers" }, pixels, table)),
    element("div", { class: "tfm-panel" },
      panel("hands: ● position, ■ position + offset",
        drawing(360, 100, "four hands as clocks", ...clocks.map((clock) => clock.made))),
      panel("dot product of the two rows", products)),
  ]);
  const tables = {};
  let drawn;

  function show() {
    const { width, position, offset } = state, brush = pixels.getContext("2d");
    const values = (tables[width] ??= sinusoids(positions, width)); // (P, D)
    const own = values[position], further = values[position + offset];
    if (drawn !== width) {
      set(pixels, { width });
      brush.putImageData(new ImageData(divergingPixels(values.flat()), width), 0, 0);
      set(lastColumn, { text: width - 1 });
      drawn = width;
    }
    set(rows[0], { transform: `translate(0 ${rowAt(position)})` });
    set(rows[1], { transform: `translate(0 ${rowAt(position + offset)})` });

    const hands = [...new Set([0, 1, 2, 3].map((part) => Math.floor((part * (width / 2 - 1)) / 3)))];
    clocks.forEach(({ made, name, hands: lines, tips }, place) => {
      const hand = hands[place];
      set(made, { visibility: hand === undefined ? "hidden" : "visible" });
      if (hand === undefined) return;
      set(name, { text: `hand ${hand}` });
      [own, further].forEach((row, which) => {
        const [x, y] = [34 * row[2 * hand], -34 * row[2 * hand + 1]];
        set(lines[which], { x2: x, y2: y });
        set(tips[which], { transform: `translate(${x} ${y})` });
      });
    });

    const found = span(-reach, reach).map((by) => dot(own, values[position + by])); // (2 reach + 1,)
    const point = (by) => [offsetAt(by), shareAt(found[by + reach] / (width / 2))].join(" ");
    set(curve, { points: span(-reach, reach).map(point).join(", ") });
    set(here, { transform: `translate(${point(0)})` });
    set(there, { transform: `translate(${point(offset)})` });

    const turns = hands.map((hand) => (180 / Math.PI) * offset * 10000 ** ((-2 * hand) / width));
    const turned = hands.map((hand, place) => `${decimal(turns[place], 1)}° (hand ${hand})`).join(", ");
    const product = decimal(found[offset + reach]), other = position + offset, by = decimal(offset, 0);
    say(sentence("sinusoids", width, position, other, by, turned, product, width / 2),
      { ...state, hands, turns, products: found });
  }

  show();
}

/** Sines and cosines of d / 2 frequencies by turns (P, D), as tfm_lib.positions.sinusoidal_table. */
function sinusoids(numPositions, d) {
  const angle = (position, column) => position * 10000 ** ((-2 * Math.floor(column / 2)) / d);
  return Array.from({ length: numPositions }, (_, p) =>
    Array.from({ length: d }, (_, column) => (column % 2 ? Math.cos : Math.sin)(angle(p, column))));
}

/** Values from -1 to 1 as pixels in the colors of DIVERGING in tfm_lib/show/figure.py, in light and dark the same. */
function divergingPixels(values) {
  const stops = [[8, 48, 107], [91, 143, 199], [247, 247, 247], [253, 198, 122], [236, 138, 28]];
  const pixels = new Uint8ClampedArray(4 * values.length);
  values.forEach((value, cell) => {
    const place = 2 * (value + 1), stop = Math.min(3, Math.floor(place)), share = place - stop;
    for (let color = 0; color < 3; color += 1) {
      pixels[4 * cell + color] = (1 - share) * stops[stop][color] + share * stops[stop + 1][color];
    }
    pixels[4 * cell + 3] = 255;
  });
  return pixels;
}
