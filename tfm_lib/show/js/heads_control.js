// Lesson 03: where each head of a trained encoder looks from a word, and the mean of all heads.

/** A row for each head of the chosen layer: the sentence, each word shaded by the weight that the query gives it. */
function headsControl(root, { story, layer, query, shipped }) {
  const [{ model, vocabulary }] = Object.values(shipped), { num_encoder_layers, num_heads } = model.config;
  const src = vocabulary.encode(story), seen = record(() => model.encode(src)), state = { layer, query };
  const words = src.map((id) => vocabulary.pieces[id]);
  const names = words.map((word, place) => (words.indexOf(word) === words.lastIndexOf(word)
    ? `“${word}”` : `“${word}” (${place})`));
  const turn = (name) => (value) => {
    state[name] = value;
    show();
  };
  const layers = Array.from({ length: num_encoder_layers }, (_, place) => place);
  const asking = words.map((word, place) => set(button(word, () => turn("query")(place)), { class: "tfm-chip" }));
  const rows = [...Array.from({ length: num_heads }, (_, head) => `head ${head}`), "mean"].map((name) => {
    const chips = words.map((word, place) =>
      element("span", { class: "tfm-chip", onclick: () => turn("query")(place) }, word));
    const favorite = element("span", { class: "tfm-favorite" });
    return { chips, favorite, made: chipRow(element("span", { class: "tfm-quiet" }, name), favorite, chips) };
  });
  const say = layOut(root, "Where each head looks", [choice("layer", layers, layer, turn("layer"))], [
    element("div", { class: "tfm-chip-rows" }, element("div", { class: "tfm-title" }, "press a word: it is the query"),
      chipRow(element("b", {}, "query"), "most weight on", asking), ...rows.map((row) => row.made)),
  ]);

  function show() {
    const heads = seen[`encoder.layers.${state.layer}.self_attention.weights`][state.query]; // (H, S)
    const mean = words.map((_, s) => sum(heads.map((weights) => weights[s])) / num_heads);
    const best = [...heads, mean].map((weights) => weights.indexOf(Math.max(...weights)));
    const number = (row) => [...heads, mean][row][best[row]].toFixed(2);
    asking.forEach((chip, place) => set(chip, { "aria-pressed": String(place === state.query) }));
    rows.forEach(({ chips, favorite }, row) => {
      chips.forEach((chip, s) => {
        const share = Math.round(100 * [...heads, mean][row][s]);
        set(chip, { style: `--tfm-share: ${share}%`, "data-best": String(s === best[row]) });
      });
      set(favorite, { text: `${words[best[row]]} ${number(row)}` });
    });
    const favorites = heads.map((_, head) => `${names[best[head]]} (${number(head)})`).join(", ");
    const different = new Set(best.slice(0, num_heads)).size, most = names[best[num_heads]];
    say(sentence("heads", names[state.query], state.layer, num_heads - 1, favorites, different, number(num_heads), most),
      { layer: state.layer, query: state.query, heads: heads.map((weights) => Array.from(weights)), mean });
  }

  show();
}

/** A row of words, behind what it is called and its favorite. */
function chipRow(name, favorite, chips) {
  const head = element("div", { class: "tfm-chip-head" }, name, favorite);
  return element("div", { class: "tfm-chip-row" }, head, element("div", { class: "tfm-chips" }, ...chips));
}
