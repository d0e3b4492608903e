/**
 * Lesson 07: where the words of a summary look in their story. data: what `storyDesk` needs; most, the most tokens of a
 * summary; place, the word to begin with. Layers, heads and words are counted from 1 on the screen.
 */
function attentionControl(root, data) {
  const { model, vocabulary } = Object.values(data.shipped)[0];
  const { num_decoder_layers: numLayers, num_heads: numHeads } = model.config;
  const state = { layer: numLayers - 1, head: "mean", place: data.place };
  let story, summary, maps; // words as they stand there, and for each layer the weights (T, H, S)
  const turn = (name) => (value) => {
    state[name] = value;
    show();
  };
  const wide = (title, words) => set(panel(title, words), { class: "tfm-panel tfm-wide" });
  const numbered = (count) => Array.from({ length: count }, (_, i) => [i, i + 1]);
  const desk = storyDesk(data, vocabulary, read);
  const above = wordRow("story", data.longest), below = wordRow("summary", data.most, turn("place"));
  const say = layOut(root, "Where the words of a summary look in their story", [
    ...desk.knobs,
    choice("layer", numbered(numLayers), state.layer, turn("layer")),
    choice("head", [["mean", "mean"], ...numbered(numHeads)], state.head, turn("head")),
  ], [
    wide("story: shaded by weight", above),
    wide("summary: press a word", below),
  ]);

  function read(text) {
    const slots = vocabulary.slotWords(text), src = vocabulary.encode(text, slots);
    let tokens;
    const outputs = record(() => (tokens = greedy(model, src, data.most)));
    maps = numbered(numLayers).map(([layer]) => outputs[`decoder.layers.${layer}.cross_attention.weights`]);
    [state.story, story, summary] = [text, storyTokens(text), tokenTexts(vocabulary, tokens, slots)];
    state.place = Math.min(state.place, summary.length - 1);
    show();
  }

  function show() {
    const { layer, head, place } = state, heads = maps[layer][place]; // (H, S)
    const chosen = head === "mean" ? heads : [heads[head]];
    const weights = story.map((_, s) => sum(chosen.map((one) => one[s])) / chosen.length); // (S,)
    above.show(story.map((text, s) => {
      const weight = weights[s];
      return { text, title: weight.toFixed(2), style: `--weight: ${Math.round(100 * weight)}%` };
    }));
    below.show(summary.map((text, t) => ({ text, kind: t === place ? "chosen" : "plain" })));
    const most = ranking(weights).slice(0, 3).map((s) => `“${story[s]}” (${weights[s].toFixed(2)})`).join(", ");
    const who = head === "mean" ? "the mean of all heads" : `head ${head + 1}`;
    const made = notInStory(data, state.story, summary);
    say(sentence("attention", place + 1, summary[place], who, layer + 1, most, made),
      { ...state, summary, weights });
  }

  desk.begin();
}
