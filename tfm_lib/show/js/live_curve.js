/**
 * A learning curve that grows while the kernel trains: returns the function that takes what is new. data: the number of
 * steps of the whole run, and once one is taken `points` [step, loss], evenly thinned out where they are many, and the
 * first and the lowest. The axis of the loss begins at 0 where no loss is negative; it grows with the loss, and never
 * shrinks.
 */
function liveCurve(root, data) {
  const box = { left: 40, right: 336, top: 12, bottom: 170 }, most = 7, seen = { low: 0, high: 0 };
  const at = scale([0, data.steps], [box.left, box.right]), stroke = "stroke: var(--tfm-line)";
  const quiet = (about, text = "") => element("text", { class: "tfm-quiet", ...about }, text);
  const whole = ticksOver(0, data.steps).filter((step) => Number.isInteger(step) && step <= data.steps);
  const steps = whole.map((step) =>
    quiet({ x: at(step), y: box.bottom + 18, "text-anchor": "middle" }, step));
  const ticks = Array.from({ length: most }, () => ({
    line: element("line", { x1: box.left, x2: box.right, style: stroke, visibility: "hidden" }),
    number: quiet({ x: box.left - 6, "text-anchor": "end" }),
  }));
  const ground = element("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, style: stroke });
  const curve = element("polyline", { style: "fill: none; stroke: var(--tfm-blue); stroke-width: 2" });
  const edge = "fill: var(--tfm-ground); stroke: var(--tfm-ink); stroke-width: 1.5";
  const least = element("path", { d: "M 0 -6 L 6 0 L 0 6 L -6 0 Z", style: edge });
  const now = element("circle", { r: 5, style: "fill: var(--tfm-blue)" });
  const say = layOut(root, "A learning curve that grows", [], [
    panel("loss by step: ● now, ◇ lowest", drawing(360, 208, "curve of the loss",
      ground, ...ticks.flatMap(({ line, number }) => [line, number]), ...steps,
      quiet({ x: (box.left + box.right) / 2, y: 206, "text-anchor": "middle" }, "step"), curve, least, now)),
  ]);

  function show({ steps, points, first, lowest }) {
    [now, least].forEach((mark) => set(mark, { visibility: points.length ? "visible" : "hidden" }));
    if (!points.length) return say("No step was taken yet: the curve grows while the training runs.", { points });
    const losses = points.map(([, loss]) => loss), [step, loss] = points.at(-1);
    seen.low = Math.min(seen.low, ...losses);
    seen.high = Math.max(seen.high, ...losses);
    const values = ticksOver(seen.low, seen.high), height = scale([values[0], values.at(-1)], [box.bottom, box.top]);
    const digits = Math.max(0, -Math.floor(Math.log10(values[1] - values[0])));
    ticks.forEach(({ line, number }, place) => {
      const [value, here] = [values[place], place < values.length];
      [line, number].forEach((drawn) => set(drawn, { visibility: here ? "visible" : "hidden" }));
      if (!here) return;
      set(line, { y1: height(value), y2: height(value) });
      set(number, { y: height(value) + 4, text: decimal(value, digits) });
    });
    const point = ([step, loss]) => `${at(step)} ${height(loss)}`;
    set(curve, { points: points.map(point).join(", ") });
    set(now, { transform: `translate(${point([step, loss])})` });
    set(least, { transform: `translate(${point(lowest)})` });
    return say(
      `Step ${step} of ${steps}: the loss is ${decimal(loss)}. It was ${decimal(first[1])} in step ${first[0]}, and ` +
      `its lowest so far is ${decimal(lowest[1])}, in step ${lowest[0]}.`,
      { points, axis: [values[0], values.at(-1)] });
  }

  show(data);
  return show;
}

/** Two to seven numbers, a round step apart, of which the first is not above `low`, and the last not below `high`. */
function ticksOver(low, high) {
  const least = (high - low || 1) / 5, power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((round) => round * power >= least);
  const from = Math.floor(low / step), to = Math.max(from + 1, Math.ceil(high / step));
  return Array.from({ length: to - from + 1 }, (_, n) => (from + n) * step);
}
