/**
 * Lesson 07: a headline after the steps of a training. data: what benchmarks/training_on_toy_summaries/newsroom_steps.py has written; step and
 * place to begin with; names of what is told right; enough, the share of stories from which on it counts as learned.
 */
function stepsControl(root, { steps, story, places, others, curve, looks, step, place, names, enough }) {
  const state = { step, place }, seen = looks.map((look) => look.step), told = Object.entries(names);
  const show = (turned) => {
    Object.assign(state, turned);
    tell();
  };
  const stepKnob = slider("after step", seen, step, (value) => show({ step: value }));
  const knobs = [stepKnob, choice("next word", Object.keys(places), place, (value) => show({ place: value }))];

  const right = new Set(story.summary.split(/[ ,]+/)), written = element("span");
  const line = (name, ...children) => element("p", { class: "tfm-line" }, element("b", {}, `${name}: `), ...children);
  const texts = panel("headline (underlined: not in the right one)",
    line("story", story.article), line("right", story.summary), set(line("wrote", written), { style: "min-height: 2.8em" }));
  const asked = element("span"), nextBars = probabilityBars(looks[0].next[place].length);
  const rightBars = probabilityBars(told.length);

  const highest = Math.ceil(Math.max(...curve.loss, ...looks.map((look) => look.loss)));
  const x = scale([0, steps], [24, 346]), y = scale([0, highest], [150, 12]);
  const points = curve.step.map((at, n) => `${x(at)},${y(curve.loss[n])}`).join(" ");
  const mark = (at, text, anchor) => element("text", { ...at, "text-anchor": anchor, class: "tfm-quiet" }, text);
  const marker = element("circle", { r: 7, style: "fill: var(--tfm-vermilion)" });
  const pole = element("line", { y1: 12, y2: 150, style: "stroke: var(--tfm-vermilion); stroke-dasharray: 3 2" });
  const area = element("rect", { x: 12, y: 0, width: 348, height: 170 });
  const chart = drawing(360, 172, "the learning curve",
    ...[0, highest].map((loss) => mark({ x: 18, y: y(loss) + 4 }, loss, "end")),
    ...[0, steps / 2, steps].map((at) => mark({ x: x(at), y: 166 }, at, "middle")),
    element("line", { x1: 24, x2: 346, y1: 150, y2: 150, style: "stroke: var(--tfm-line)" }),
    element("polyline", { points, style: "fill: none; stroke: var(--tfm-blue); stroke-width: 2" }), pole, marker, area);
  draggable(area, chart, (at) => {
    const wanted = x.invert(at.x), away = (one) => Math.abs(one - wanted);
    show({ step: seen.reduce((best, one) => (away(one) < away(best) ? one : best)) });
    stepKnob.pick(state.step);
  }, true);
  set(area, { style: "fill: transparent" });

  const say = layOut(root, "What a training has learned, step by step", knobs, [
    texts, panel(asked, nextBars), panel(`right in ${others} other test stories`, rightBars),
    panel("loss, a mean over ten steps", chart),
  ]);

  function tell() {
    const look = looks[seen.indexOf(state.step)], next = look.next[state.place], [before, wanted] = places[state.place];
    const pieces = look.text.split(/([ ,]+)/); // words, and what stands between them
    written.replaceChildren(...pieces.map((piece, n) => (n % 2 || right.has(piece) ? piece : element("u", {}, piece))));
    set(asked, { text: before ? `next word after “${before}”` : "first word" });
    nextBars.show(next.map(([name, p]) => ({ name: name === wanted ? `✓ ${name}` : name, p, chosen: name === wanted })));
    const shares = told.map(([key, name]) => ({ name, p: look.right[key] }));
    rightBars.show(shares.map(({ name, p }) => ({ name: p >= enough ? `✓ ${name}` : name, p })));
    set(marker, { cx: x(look.step), cy: y(look.loss) });
    set(pole, { x1: x(look.step), x2: x(look.step) });
    const list = (kept) => shares.filter(kept).map(({ name }) => name).join(", ") || "none";
    const after = before ? `After “${before}”` : "At the start", [[best, p]] = next;
    say(sentence("steps", look.step, steps, look.loss.toFixed(2), look.text, after, best, percent(p), wanted, others,
      list((one) => one.p >= enough), list((one) => one.p < enough)),
      { step: look.step, text: look.text, loss: look.loss, next, right: look.right });
  }

  tell();
}
