/**
 * Lesson 17: the summarizer with fewer bits a weight. data: points, {bits, per, bytes, exact, headline} of what
 * benchmarks/adapt_and_compress/compressing.py has measured on so many stories; wanted, the right headline; bits and per to begin with.
 */
function bitsControl(root, { points, wanted, stories, bits, per }) {
  const state = { bits, per }, box = { left: 34, right: 350, top: 10, bottom: 200 };
  const unique = (name) => [...new Set(points.map((point) => point[name]))];
  const turn = (change) => {
    Object.assign(state, change);
    bitsKnob.pick(state.bits);
    perKnob.pick(state.per);
    show();
  };
  const bitsKnob = slider("bits", unique("bits").sort((one, other) => other - one), bits, (value) =>
    turn({ bits: value }));
  const perKnob = choice("a step for each", unique("per"), per, (value) => turn({ per: value }));

  const at = scale([200000, 1120000], [box.left, box.right]), height = scale([0, 1], [box.bottom, box.top]);
  const colors = ["--tfm-vermilion", "--tfm-blue", "--tfm-green"].map((name) => `var(${name})`);
  const quiet = (about, text) => element("text", { class: "tfm-quiet", ...about }, text);
  const grid = [0, 0.5, 1].flatMap((share) => [
    element("line", { x1: box.left, x2: box.right, y1: height(share), y2: height(share), style: "stroke: var(--tfm-line)" }),
    quiet({ x: box.left - 5, y: height(share) + 4, "text-anchor": "end" }, String(100 * share)),
  ]);
  const ticks = [250, 500, 750, 1000].map((kilobytes) =>
    quiet({ x: at(1000 * kilobytes), y: box.bottom + 18, "text-anchor": "middle" }, String(kilobytes)));
  const place = ({ bytes, exact }) => `${at(bytes)} ${height(exact)}`;
  const curves = unique("per").map((own, n) => element("polyline", {
    points: points.filter((point) => point.per === own).map(place).join(", "),
    style: `fill: none; stroke: ${colors[n]}; stroke-width: 1.5`,
  }));
  const dots = points.map((point) =>
    element("circle", { r: 3.5, transform: `translate(${place(point)})`, style: `fill: ${colors[unique("per").indexOf(point.per)]}` }));
  const ring = element("circle", { r: 8, style: "fill: none; stroke: var(--tfm-ink); stroke-width: 2" });
  const chart = drawing(360, 240, "headlines that are right, by the bytes of the file",
    ...grid, ...ticks, ...curves, ...dots, ring,
    quiet({ x: (box.left + box.right) / 2, y: 236, "text-anchor": "middle" }, "kB of the file"));

  const bar = probabilityBars(1), written = element("span"), right = element("span", {}, wanted);
  const line = (name, text) => element("p", { class: "tfm-line" }, element("b", {}, `${name}: `), text);
  const say = layOut(root, "Fewer bits: bytes against quality", [bitsKnob, perKnob], [
    panel("exactly right, %, by kB", chart),
    panel("of all headlines, and one of them", bar, line("wanted", right), line("writes", written)),
  ]);

  function show() {
    const chosen = points.find((point) => point.bits === state.bits && point.per === state.per);
    set(ring, { transform: `translate(${place(chosen)})` });
    bar.show([{ name: "exactly right", p: chosen.exact }]);
    set(written, { text: chosen.headline });
    const bytes = chosen.bytes.toLocaleString("en-US");
    say(sentence("bits", chosen.bits, chosen.per, bytes, percent(chosen.exact), stories, chosen.headline), chosen);
  }

  show();
}
