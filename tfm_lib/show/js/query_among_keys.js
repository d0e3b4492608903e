/**
 * Lesson 01: a query that is dragged among keys in the plane. data: names and points (S, 2) of the keys, which are the
 * values too, and the query to begin with. Disc and line of a key grow with its weight.
 */
function queryAmongKeys(root, { names, points, query }) {
  const reach = 4, step = 0.25, fine = 0.05; // of the arrow keys; and of a drag, so that two digits are the whole truth
  const state = { query, score: "product" };
  const kinds = [["product", "dot product / √2"], ["distance", "minus distance² / 2"]];
  const kind = choice("score", kinds, state.score, (score) => {
    state.score = score;
    show();
  });
  const frame = { left: 34, top: 6, right: 354, bottom: 326 }, ends = [-reach - 0.5, reach + 0.5];
  const across = scale(ends, [frame.left, frame.right]), up = scale(ends, [frame.bottom, frame.top]);
  const grid = (ends) => element("line", { ...ends, style: "stroke: var(--tfm-line)" });
  const axes = [-4, -2, 0, 2, 4].flatMap((n) => [
    grid({ x1: across(n), x2: across(n), y1: frame.top, y2: frame.bottom }),
    grid({ x1: frame.left, x2: frame.right, y1: up(n), y2: up(n) }),
    element("text", { x: across(n), y: 342, "text-anchor": "middle", class: "tfm-quiet" }, decimal(n, 0)),
    element("text", { x: 30, y: up(n) + 4, "text-anchor": "end", class: "tfm-quiet" }, decimal(n, 0)),
  ]);
  axes.push(
    element("text", { x: across(0), y: 358, "text-anchor": "middle", class: "tfm-quiet" }, "water"),
    element("text", { transform: `translate(11 ${up(0)}) rotate(-90)`, "text-anchor": "middle", class: "tfm-quiet" },
      "building"));
  const letters = new OffscreenCanvas(1, 1).getContext("2d"), pitch = Math.min(34, 320 / names.length);
  letters.font = "12px system-ui, sans-serif";
  const keys = names.map((name, key) => {
    const [x, y] = [across(points[key][0]), up(points[key][1])], row = 6 + pitch * (key + 0.5);
    const text = name.length > 14 ? `${name.slice(0, 13)}…` : name;
    const number = element("text", { y: row + 4 });
    return {
      x, y, number, width: letters.measureText(text).width + 4,
      line: element("line", { x2: x, y2: y, style: "stroke: var(--tfm-blue)" }),
      leader: element("line", { x1: x, y1: y, style: "stroke: var(--tfm-quiet)" }),
      disc: element("circle", { cx: x, cy: y, style: "fill: var(--tfm-vermilion-fill); stroke: var(--tfm-vermilion)" }),
      label: element("text", { "text-anchor": "middle", class: "tfm-over" }, text),
      bar: element("rect", { x: 104, y: row - pitch * 0.36, height: pitch * 0.72, style: "fill: var(--tfm-blue)" }),
      name: element("text", { x: 98, y: row + 4, "text-anchor": "end" }, text),
    };
  });
  const edge = "stroke: var(--tfm-ink); stroke-width: 1.5";
  const mixed = element("path", { d: "M 0 -8 L 8 0 L 0 8 L -8 0 Z", style: `fill: var(--tfm-ground); ${edge}` });
  const star = Array.from({ length: 10 }, (_, point) => {
    const angle = (Math.PI * point) / 5, radius = point % 2 ? 5 : 12;
    return `${radius * Math.sin(angle)} ${-radius * Math.cos(angle)}`;
  });
  const asks = element("g", {
    tabindex: 0, role: "slider", "aria-label": "query", "aria-valuemin": -reach, "aria-valuemax": reach,
    onkeydown: (event) => {
      const moves = { ArrowRight: [step, 0], ArrowLeft: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (!moves[event.key]) return;
      event.preventDefault();
      move(...moves[event.key].map((by, axis) => state.query[axis] + by));
    },
  }, element("circle", { r: 20, style: "fill: transparent" }),
  element("path", { d: `M ${star.join(" L ")} Z`, style: `fill: var(--tfm-blue); ${edge}` }));
  const of = (part) => keys.map((key) => key[part]);
  const plane = drawing(360, 362, "the plane of query and keys",
    ...axes, ...of("leader"), ...of("line"), ...of("disc"), ...of("label"), mixed, asks);
  set(plane, { role: "group" }); // a picture could hold nothing to be turned
  draggable(asks, plane, ({ x, y }) => move(across.invert(x), up.invert(y)));
  const zero = grid({ x1: 104, x2: 104, y1: 6, y2: 6 + pitch * names.length });
  const bars = [zero, ...of("bar"), ...of("name"), ...of("number")];
  const say = layOut(root, "A query among keys in the plane", [kind], [
    panel("drag the query ★; the mixture is ◇", plane),
    panel("weight of each key", drawing(360, 12 + pitch * names.length, "bars of the weights", ...bars)),
  ]);

  function move(...place) {
    state.query = place.map((at) => Math.round(Math.max(-reach, Math.min(reach, at)) / fine) * fine);
    show();
  }

  function show() {
    const { query, score } = state;
    const scores = points.map((point) => score === "product"
      ? dot(point, query) / Math.SQRT2 : -((point[0] - query[0]) ** 2 + (point[1] - query[1]) ** 2) / 2);
    const weights = softmax(scores); // (S,)
    const mixture = [0, 1].map((axis) => dot(weights, points.map((point) => point[axis]))); // (S,) @ (S, 2) -> (2,)
    const [x, y] = [across(query[0]), up(query[1])], [right, down] = [across(mixture[0]), up(mixture[1])];
    const text = `water ${decimal(query[0])}, building ${decimal(query[1])}`;
    set(asks, { transform: `translate(${x} ${y})`, "aria-valuenow": query[0].toFixed(2), "aria-valuetext": text });
    set(mixed, { transform: `translate(${right} ${down})` });
    keys.forEach((key, place) => {
      key.radius = Math.sqrt(20 + 420 * weights[place]);
      set(key.line, { x1: x, y1: y, "stroke-width": 10 * weights[place] });
      set(key.disc, { r: key.radius });
      set(key.bar, { width: 210 * weights[place] });
      set(key.number, { x: 108 + 210 * weights[place], text: weights[place].toFixed(2) });
    });
    placeLabels(keys, [x, y], [boxAround(x, y, 24, 24), boxAround(right, down, 16, 16)], frame);
    for (const { label, leader, box, far } of keys) {
      const middle = (box.left + box.right) / 2;
      set(label, { x: middle, y: box.bottom - 4 });
      set(leader, { x2: middle, y2: box.bottom - 8, visibility: far ? "visible" : "hidden" });
    }
    const order = ranking(weights), [first, second] = order, least = weights.indexOf(Math.min(...weights));
    const weight = (key) => weights[key].toFixed(2), place = (point) => point.map((at) => decimal(at)).join(", ");
    const given = (key) => `${weight(key)} to “${names[key]}”`;
    say(sentence("query", place(query), given(first), given(second), names[least], weight(least), place(mixture),
      score === "product" ? "the dot product / √2" : "minus half of the squared distance"),
      { query, scores, weights, mixture });
  }

  show();
}

function boxAround(x, y, width, height) {
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
}

function overlap(one, other) {
  const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const tall = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  return Math.max(0, wide) * Math.max(0, tall);
}

// Where a label may stand: above its disc, best of all, and then around it; and how far off.
const SIDES = [[0, -1], [0, 1], [1, 0], [-1, 0], [0.8, -0.8], [-0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]];
const FAR_OFF = [0, 18, 36, 54, 72, 90];

/**
 * Give each key a `box` for its label, which covers no disc, no label, none of the marks, and few lines from the query.
 * A label stays on its side as long as it is free there.
 */
function placeLabels(keys, query, marks, frame) {
  const discs = keys.map(({ x, y, radius }) => boxAround(x, y, 2 * radius, 2 * radius)), placed = [];
  // Points along a line stand for it; faint lines may be written over.
  const onLines = keys.filter(({ line }) => line.getAttribute("stroke-width") > 0.5).flatMap(({ x, y }) =>
    Array.from({ length: 16 }, (_, n) => [query[0] + ((x - query[0]) * n) / 16, query[1] + ((y - query[1]) * n) / 16]));
  keys.forEach((key, own) => {
    const taken = [...discs.filter((_, other) => other !== own), ...marks, ...placed];
    let least = Infinity, chosen;
    FAR_OFF.forEach((far, ring) => SIDES.forEach(([right, down], side) => {
      const away = key.radius + 2 + far, height = 15;
      const box = boxAround(
        key.x + right * (away + key.width / 2), key.y + down * (away + height / 2), key.width, height);
      const outside = key.width * height - overlap(box, frame);
      const covered = taken.reduce((total, other) => total + overlap(box, other), 0);
      const struck = onLines.filter(([x, y]) => x > box.left && x < box.right && y > box.top && y < box.bottom).length;
      const cost = 10 * (outside + covered) + 5 * struck + 30 * ring + side - (side === key.side ? 8 : 0);
      if (cost < least) [least, chosen] = [cost, { box, side, far }];
    }));
    Object.assign(key, chosen);
    placed.push(key.box);
  });
}
