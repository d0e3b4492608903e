/**
 * Lesson 14: three models that repeat digits. data: what benchmarks/before_and_beside/copying_digits.py has written, in the order of
 * lengths: strings that are heard; of each model the share of whole strings right, what it wrote, and where it looked,
 * in percent (null: it cannot look); n, the length to begin with, and looks, the model whose map is shown.
 */
function bottleneckControl(root, { lengths, strings, models, n, looks }) {
  const state = { n, looks };
  const show = (turned) => {
    Object.assign(state, turned);
    tell();
  };
  const lookers = models.filter((model) => model.looked[0]).map((model) => model.name);
  const knobs = [
    slider("digits", lengths, n, (value) => show({ n: value })),
    choice("map of", lookers, looks, (value) => show({ looks: value })),
  ];

  const bars = probabilityBars(models.length);
  const heard = element("span"), written = models.map(() => element("span"));
  const line = (name, text) => element("p", { class: "tfm-line" }, element("b", {}, `${name}: `), text);
  const texts = panel("one string (underlined: wrong)",
    line("heard", heard), ...models.map((model, at) => line(model.name, written[at])));

  const longest = Math.max(...lengths), side = 300, edge = 22;
  const cells = Array.from({ length: longest ** 2 }, () => element("rect"));
  const labels = Array.from({ length: 2 * longest }, () => element("text", { "text-anchor": "middle", class: "tfm-quiet" }));
  const map = drawing(360, 350, "attention map: a row for each digit that is written, a column for each that was heard",
    ...cells, ...labels, element("text", { x: edge + side / 2, y: 346, "text-anchor": "middle" }, "heard; each row is a digit to write"));

  const say = layOut(root, "The bottleneck: more digits through one vector", knobs, [
    panel("whole strings right", bars), texts, panel("where the GRU with attention looks", map),
  ]);

  function drawMap(weights, digits) {
    const size = side / digits.length, center = (i) => edge + (i + 0.5) * size;
    cells.forEach((cell, at) => {
      const row = Math.floor(at / digits.length), column = at % digits.length, there = row < digits.length;
      const where = { x: edge + column * size, y: edge + row * size - edge / 2, width: size - 0.5, height: size - 0.5 };
      set(cell, there ? { ...where, style: shade(weights[row][column] / 100) } : { width: 0, height: 0 });
    });
    labels.forEach((label, at) => {
      const i = at % longest, down = at >= longest;
      set(label, { text: digits[i] ?? "" });
      set(label, down ? { x: edge / 2, y: edge / 2 + (i + 0.5) * size + 4 } : { x: center(i), y: edge / 2 + side + 15 });
    });
  }

  function tell() {
    const at = lengths.indexOf(state.n), digits = strings[at];
    bars.show(models.map((model) => ({ name: model.name.replace(" with ", "+"), p: model.whole[at] })));
    set(heard, { text: digits });
    models.forEach((model, number) => {
      const signs = [...model.wrote[at]];
      written[number].replaceChildren(...signs.map((sign, i) => (sign === digits[i] ? sign : element("u", {}, sign))));
    });
    const weights = models.find((model) => model.name === state.looks).looked[at];
    const own = weights.reduce((sum, row, i) => sum + row[i], 0) / digits.length;
    drawMap(weights, digits);
    const shares = models.map((model) => `${model.name} ${percent(model.whole[at])}`).join(", ");
    const wrote = models.map((model) => `${model.name} ${model.wrote[at]}`).join(", ");
    say(sentence("bottleneck", state.n, shares, digits, wrote, state.looks, own.toFixed(0)),
      { n: state.n, looks: state.looks, whole: models.map((model) => model.whole[at]), own });
  }

  tell();
}
