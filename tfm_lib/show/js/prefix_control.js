/**
 * Lesson 16: the mask of a prefix language model. data: words, an article of so many words and its headline behind it;
 * prefix and query, a place, to begin with.
 */
function prefixControl(root, { words, article, prefix, query }) {
  const count = words.length, state = { prefix, query };
  const names = { [count]: "BERT", [article]: "the article", 0: "GPT" };
  const turn = (change) => {
    Object.assign(state, change);
    show();
  };
  const knob = slider("prefix", Array.from({ length: count + 1 }, (_, k) => k), prefix, (value) =>
    turn({ prefix: value }));
  const stops = choice("stop at", [[0, "GPT"], [article, "the article"], [count, "BERT"]], prefix, (value) =>
    turn({ prefix: value }));

  const side = maskSide(words), signs = maskSigns(side);
  const grid = maskCells(words, side, () =>
    element("g", {}, element("rect", { width: side - 2, height: side - 2, rx: 3 }),
      element("path", { "stroke-width": side / 14 })));
  grid.rows.forEach((row, t) => pressable(row, "", () => turn({ query: t })));
  set(grid.svg, { role: "group", "aria-label": "mask, rows are queries and columns keys" });
  const say = layOut(root, "One mask, from GPT to BERT", [knob, stops], [
    panel("mask: press a row to read it", grid.svg),
  ]);

  function show() {
    const mask = words.map((_, t) => words.map((_, s) => s < state.prefix || s <= t));
    const asked = count - Math.max(1, state.prefix), sees = mask[state.query].filter(Boolean).length;
    knob.pick(state.prefix);
    stops.pick(state.prefix in names ? state.prefix : null);
    mask.forEach((row, t) => {
      set(grid.rows[t], {
        "aria-label": `what “${words[t]}” sees`, "aria-pressed": String(t === state.query),
        style: t === state.query ? "font-weight: bold" : "",
      });
      row.forEach((seen, s) => {
        const [ground, sign] = grid.cells[t][s].children, edge = t === state.query ? "--tfm-ink" : "--tfm-empty";
        set(ground, { style: `fill: var(${seen ? "--tfm-blue-fill" : "--tfm-empty"}); stroke: var(${edge})` });
        set(sign, seen ? signs.dot : signs.cross);
      });
    });
    const name = state.prefix in names ? `, ${names[state.prefix]}` : "";
    const task = asked ? sentence("prefix, asked", asked) : "No next word is left to ask for.";
    say(sentence("prefix", state.prefix, count, name, words[state.query], state.query + 1, sees, count, task),
      { prefix: state.prefix, mask, asked, sees });
  }

  show();
}
