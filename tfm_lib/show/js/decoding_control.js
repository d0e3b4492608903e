/**
 * Lesson 08: a summary, written word by word. data: what `storyDesk` needs; written, the tokens to begin with; most,
 * the most tokens of a summary; choices, how many words are offered.
 *
 * The bars stand at one place of the summary, and stay there when a word is chosen: under the pointer lies what lay
 * there, and a second click tries another word. "next word" takes them on; a click on a word of the summary takes them
 * to it, and all up to it is then written.
 */
function decodingControl(root, data) {
  const { model, vocabulary } = Object.values(data.shipped)[0], { start_id, eos_id } = model.config;
  const state = { story: "", written: data.written, place: data.written.length };
  let memory, slots, rest = []; // rest: with what the model would go on
  const write = (written, place = written.length) => {
    Object.assign(state, { written, place });
    show();
  };
  const upTo = (place) => write([...state.written, ...rest].slice(0, place + 1), place);
  const desk = storyDesk(data, vocabulary, (text, fresh) => {
    slots = vocabulary.slotWords(text);
    memory = model.encode(vocabulary.encode(text, slots));
    state.story = text;
    if (fresh) write([]);
    else show();
  });
  const title = element("span"), bars = probabilityBars(data.choices), words = wordRow("summary", data.most, upTo);
  const back = button("one back", () => write(state.written.slice(0, -1)));
  const next = button("next word", () =>
    write(state.place < state.written.length ? state.written : [...state.written, rest[0]]));
  const follow = button("as it would", () => upTo(state.written.length + rest.length - 1));
  const say = layOut(root, "A summary, written word by word", desk.knobs, [
    panel(title, bars, element("div", { class: "tfm-knobs" }, back, next, follow)),
    panel("summary: filled is written, dotted is to come", words),
  ]);

  function show() {
    const { written, place } = state, ended = written.at(-1) === eos_id;
    const writer = new Writer(model, memory);
    const logProbs = [start_id, ...written].map((token) => logSoftmax(Array.from(writer.nextLogits(token))));
    const total = sum(written.map((token, t) => logProbs[t][token]));
    const probs = logProbs[place].map(Math.exp), best = ranking(probs).slice(0, data.choices);
    const mostProbable = (values) => values.indexOf(Math.max(...values));
    rest = [];
    for (let values = logProbs.at(-1); !ended && written.length + rest.length < data.most;) {
      rest.push(mostProbable(values));
      if (rest.at(-1) === eos_id) break;
      values = writer.nextLogits(rest.at(-1));
    }

    const names = tokenTexts(vocabulary, best, slots), texts = tokenTexts(vocabulary, [...written, ...rest], slots);
    set(title, { text: `word ${place + 1}: the most probable` });
    bars.show(best.map((token, i) => ({
      name: names[i], p: probs[token], chosen: written[place] === token,
      press: () => write([...written.slice(0, place), token], place),
    })));
    const kind = (t) => (t === place && t < written.length ? "chosen" : t < written.length ? "written" : "ahead");
    words.show(texts.map((text, t) => ({ text, kind: kind(t) })));
    set(back, { disabled: !written.length });
    set(next, { disabled: !rest.length });
    set(follow, { disabled: !rest.length });

    const [first, second] = best.map((token, i) => `“${names[i]}” with ${percent(probs[token])}`);
    const together = percent(sum(best.map((token) => probs[token])));
    const count = `${written.length} ${written.length === 1 ? "word" : "words"}`, p = percent(Math.exp(total));
    const end = ended ? "The text has ended." : `A summary has at most ${data.most}.`;
    const message = sentence("decoding", place + 1, first, second, best.length, together,
      written.length ? sentence("decoding, written", count, p) : "",
      rest.length ? sentence("decoding, rest", rest.length) : end, notInStory(data, state.story, texts));
    const shown = { written, rest, best, total, probs: best.map((token) => probs[token]) };
    say(message, { ...state, ...shown });
  }

  desk.begin();
}
