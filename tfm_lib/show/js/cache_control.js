/**
 * Lesson 09: the cache that grows. data: words, one written in each step; source, the tokens of the story; row, the
 * numbers that a token leaves in the cache, each of so many bytes (size); kept and anew, for each step what it
 * multiplies, part by part, with a cache and without.
 */
function cacheControl(root, { words, source, row, size, kept, anew }) {
  const state = { step: words.length, cached: true }, top = 36, bottom = 136;
  const move = (step) => {
    state.step = step;
    show();
  };
  const steps = words.map((_, n) => n + 1), together = (parts) => sum(Object.values(parts));
  const count = (number) => number.toLocaleString("en-US");
  const stepKnob = slider("words written", steps, state.step, move, (step) => `${step} of ${words.length}`);
  const cacheKnob = tick("with a cache", true, (cached) => {
    state.cached = cached;
    show();
  });

  // Keys and values: a row a token, both attentions on one scale.
  const pitch = Math.min(14, 180 / Math.max(source, words.length)), mark = { "text-anchor": "start" };
  const stores = [["self-attention", 2, words.length], ["cross-attention", 190, source]].map(([name, x, length]) => {
    const rows = Array.from({ length }, (_, n) => ["vermilion", "green"].map((color, side) =>
      ({ color, rect: element("rect", { x: x + 82 * side, y: top + n * pitch, width: 78, height: pitch * 0.8 }) })));
    const texts = [0, 1].map((n) => element("text", { x, y: top + 196 + 15 * n, ...mark }));
    const heads = [[name, x, 14], ["keys", x, 30], ["values", x + 82, 30]].map(([text, at, y]) =>
      element("text", { x: at, y, ...mark, class: y > 14 ? "tfm-quiet" : null }, text));
    return { rows, texts, all: [...heads, ...rows.flat().map(({ rect }) => rect), ...texts] };
  });

  // Multiplications: two bars a step, the one that is asked for full, the other one dashed.
  const most = Math.max(...anew.map(together)), barAt = scale([0, most], [bottom, 20]), across = 352 / words.length;
  const bars = [kept, anew].map((ways, side) => ways.map((parts, n) => {
    const y = barAt(together(parts)), x = 4 + across * (n + 0.1 + 0.42 * side);
    return element("rect", { x, y, width: across * 0.38, height: bottom - y });
  }));
  const names = steps.map((step, n) =>
    element("text", { x: 4 + across * (n + 0.5), y: bottom + 16, "text-anchor": "middle" }, step));
  const legend = element("text", { x: 4, y: 12, class: "tfm-quiet" });
  const ground = element("line", { x1: 4, x2: 356, y1: bottom, y2: bottom, style: "stroke: var(--tfm-line)" });
  const area = element("rect", { x: 4, y: 0, width: 352, height: bottom + 20 });
  set(area, { style: "fill: transparent" });
  const chart = drawing(360, 156, "bars of the multiplications", ground, legend, ...bars.flat(), ...names, area);
  draggable(area, chart, ({ x }) => {
    move(Math.min(words.length, Math.max(1, Math.ceil((x - 4) / across))));
    stepKnob.pick(state.step);
  }, true);
  const parts = Object.keys(kept[0]), partRows = rowsOfText(["part", "with", "without"], parts.length + 1);
  const written = element("span"), rest = element("span", { style: "visibility: hidden" }); // its room is there
  const say = layOut(root, "The cache of a decoder, word by word", [stepKnob, cacheKnob], [
    element("p", { class: "tfm-wide" }, written, rest),
    panel("keys and values, a row a token; strong: new",
      drawing(360, 250, "rows of the cache", ...stores.flatMap((store) => store.all))),
    panel("multiplications of each step", chart, partRows.made),
  ]);

  function show() {
    const { step, cached } = state, first = step === 1;
    const [few, many] = [kept, anew].map((way) => together(way[step - 1]));
    const kib = (tokens) => `${((tokens * row * size) / 1024).toFixed(1)} KiB`;
    const held = (tokens) => `${count(tokens * row)} numbers in ${kib(tokens)}`;
    set(written, { text: `written: ${words.slice(0, step).join(" ")} ` });
    set(rest, { text: words.slice(step).join(" ") });
    [[step, cached ? 1 : step], [source, cached && !first ? 0 : source]].forEach(([there, fresh], n) => {
      stores[n].rows.forEach((sides, token) => sides.forEach(({ color, rect }) => set(rect, {
        display: token < there ? null : "none",
        style: `fill: var(--tfm-${color}${token < there - fresh ? "-fill" : ""})`,
      })));
      set(stores[n].texts[0], { text: `${there} ${there > 1 ? "rows" : "row"}, ${fresh || "none"} new` });
      set(stores[n].texts[1], { text: cached ? `${count(there * row)} numbers, ${kib(there)}` : "nothing is kept" });
    });
    const filled = "fill: var(--tfm-blue)", dashed = "fill: none; stroke: var(--tfm-quiet); stroke-dasharray: 3 2";
    bars.forEach((way, side) => way.forEach((bar, n) =>
      set(bar, { display: n < step ? null : "none", style: cached === (side === 0) ? filled : dashed })));
    names.forEach((name, n) => set(name, { style: n + 1 === step ? "font-weight: 700" : null }));
    const [asked, other] = cached ? ["with a cache", "without"] : ["without a cache", "with"];
    set(legend, { text: `filled: ${asked}; dashed: ${other}` });
    const numbers = parts.map((part) => [kept, anew].map((way) => way[step - 1][part]));
    const rows = [...parts, "together"].map((part, n) => [part, ...(numbers[n] ?? [few, many]).map(count)]);
    partRows.show(rows, rows.length, (n) => n === parts.length);
    const begins = sentence("cache, step", step, ["[start]", ...words][step - 1], words[step - 1]);
    const tokens = `${step} ${first ? "token" : "tokens"}`, without = first ? ", as many as without a cache." :
      sentence("cache, less", count(many), (many / few).toFixed(1));
    const holds = sentence("cache", tokens, held(step), source, held(source), count(few), without);
    say(cached ? `${begins} ${holds}` :
      `${begins} Nothing is kept: it makes keys and values of ${tokens} of the text and of the story's ${source} for ` +
      `this word alone. The step takes ${count(many)} multiplications; with a cache it would take ${count(few)}.`,
      { step, kept: cached ? [step * row, source * row] : [0, 0], with: kept[step - 1], without: anew[step - 1] });
  }

  show();
}
