/**
 * Lesson 01: the softmax of one query over keys. data: products[width] (S,), the dot products before any division;
 * temperatures, and the width and temperature to begin with. The axes stand still: what leaves them is cut off, and
 * its number stays.
 */
function softmaxTemperature(root, { products, temperatures, width, temperature }) {
  const widths = Object.keys(products).map(Number), numKeys = products[width].length, reach = 6;
  const state = { width, temperature, divide: true };
  const turn = (name) => (value) => {
    state[name] = value;
    show();
  };
  const knobs = [
    slider("temperature", temperatures, temperature, turn("temperature"), (value) => value.toFixed(2)),
    slider("width d", widths, width, turn("width")),
    tick("divide by √d", true, turn("divide")),
  ];
  const scoreAt = scale([-reach, reach], [190, 14]), weightAt = scale([0, 1], [190, 24]), step = 330 / numKeys;
  const place = (key) => 24 + step * (key + 0.5);
  const bars = (color) => Array.from({ length: numKeys }, (_, key) => ({
    bar: element("rect", { x: place(key) - step * 0.36, width: step * 0.72, style: `fill: var(--tfm-${color})` }),
    number: element("text", { x: place(key), "text-anchor": "middle" }),
    key: element("text", { x: place(key), y: 216, "text-anchor": "middle", class: "tfm-quiet" }, `${key + 1}`),
  }));
  const line = (y) => element("line", { x1: 24, x2: 354, y1: y, y2: y, style: "stroke: var(--tfm-line)" });
  const mark = (y, text) => element("text", { x: 18, y: y + 4, "text-anchor": "end", class: "tfm-quiet" }, text);
  const inputs = bars("vermilion"), outputs = bars("blue");
  const all = (drawn) => drawn.flatMap(({ bar, number, key }) => [bar, number, key]);
  const left = [-reach, 0, reach].flatMap((y) => [line(scoreAt(y)), mark(scoreAt(y), decimal(y, 0))]);
  const right = [0, 1].flatMap((y) => [line(weightAt(y)), mark(weightAt(y), y)]);
  const say = layOut(root, "Softmax under temperature, width and division by the root of d", knobs, [
    panel("in: scores of the keys", drawing(360, 224, "bars of the scores", ...left, ...all(inputs))),
    panel("out: weights of the keys", drawing(360, 224, "bars of the weights", ...right, ...all(outputs))),
  ]);

  function show() {
    const divisor = state.temperature * (state.divide ? Math.sqrt(state.width) : 1);
    const scores = products[state.width].map((product) => product / divisor), weights = softmax(scores);
    scores.forEach((score, key) => {
      const end = scoreAt(Math.max(-reach, Math.min(reach, score))), zero = scoreAt(0), beyond = Math.abs(score) > reach;
      const text = `${beyond ? (score > 0 ? "↑ " : "↓ ") : ""}${decimal(score, Math.abs(score) < 10 ? 1 : 0)}`;
      set(inputs[key].bar, { y: Math.min(end, zero), height: Math.abs(end - zero) });
      set(inputs[key].number, { y: score < 0 ? Math.min(end + 12, 202) : Math.max(end - 4, 10), text });
      set(outputs[key].bar, { y: weightAt(weights[key]), height: weightAt(0) - weightAt(weights[key]) });
      set(outputs[key].number, { y: weightAt(weights[key]) - 4, text: weights[key].toFixed(2) });
    });
    const top = Math.max(...weights), best = weights.indexOf(top) + 1;
    let held = 0, most = 0;
    for (const weight of [...weights].sort((one, other) => other - one)) {
      most += 1;
      if ((held += weight) >= 0.9) break;
    }
    const divided = state.divide ? `divided by √${state.width}` : "as they are", gradient = (top * (1 - top)).toFixed(3);
    const ends = [Math.min(...scores), Math.max(...scores)].map((score) => decimal(score));
    say(sentence("softmax", state.width, state.temperature.toFixed(2), divided, ...ends, top.toFixed(2), best, most,
      numKeys, best, gradient), { scores, weights });
  }

  show();
}
