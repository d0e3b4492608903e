/**
 * The first page and lesson 00: the summarizer, whole, at work, and broken. data: what `storyDesk` needs; pieces, the
 * plain model's vocabulary by id; most, the most tokens of a headline; choices, how many words are offered; models,
 * [[name, label], ...] of what is shipped; name, a story with a name that nobody has; parts, [{kind, label, says, why,
 * lesson, names: [[name, label], ...]}], what can be switched off, by name; measured, {name: share of exact headlines}
 * of so many stories (count), "" of the whole; lessons, {read, write, copy}; run, what the plain model writes of the
 * first story, and the place to begin with.
 *
 * Until the reader touches it, that run is shown; then the weights come.
 */
function machine(root, data) {
  const { models, parts, measured, load } = data;
  const state = {
    story: data.story, model: models[0][0], chosen: [], place: data.place, temperature: 0, beams: 1, kind: "", off: "",
    seed: 0,
  };
  const shipped = {}, known = new Map(), partOf = (name) => parts.find(({ kind }) => kind === name);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let asked = 0, playing = null, written = Infinity; // written: how many words of the headline are there by now

  const desk = storyDesk(data, plainVocabulary(data.pieces), (story) => {
    if (story !== state.story) turn({ story, chosen: [] });
    else if (root.shown) show();
  }, "The plain model");
  const sheet = ribbonSheet(desk.area, plainVocabulary(data.pieces), data.most, (place) => turn({ place }));
  const [choose, ...rest] = desk.knobs, typed = rest.splice(-2, 1)[0];

  const title = element("span"), bars = probabilityBars(data.choices);
  const writing = button("write it", () => {
    turn({ chosen: [], seed: state.seed + 1 });
    play();
  });
  const warmth = slider("temperature", [0, 0.5, 1, 1.5, 2], 0, (temperature) => turn({ temperature, chosen: [] }),
    (value) => (value ? String(value) : "0: the likeliest"));
  const width = choice("beams", [1, 2, 4], 1, (beams) => turn({ beams, chosen: [] }));
  const taken = choice("Switch off", parts.map(({ kind, label }) => [kind, label]), "", (kind) => {
    which.offer(partOf(kind).names.map(([name, label]) => [name, label]));
    which.pick(partOf(kind).names[0][0]);
    set(which, { hidden: partOf(kind).names.length < 2 });
    turn({ kind, off: partOf(kind).names[0][0], chosen: [] });
  });
  const which = menu("which", partOf("").names, "", (off) => turn({ off, chosen: [] }));
  set(which, { hidden: true });
  const stranger = button("a name that nobody has", () => {
    set(desk.area, { value: data.name });
    state.place = 0;
    desk.area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const role = choice("model", models, models[0][0], (model) => turn({ model, chosen: [] }));
  const why = element("p", { class: "tfm-why" }), row = (...knobs) => element("div", { class: "tfm-knobs" }, ...knobs);
  const heading = (text, ...more) => element("div", { class: "tfm-title tfm-wide" }, text, ...more);
  const part = (...children) => element("div", { class: "tfm-panel" }, ...children);

  const say = layOut(root, "A machine that writes headlines", [
    heading("1 It reads a story", lessonLink(data.lessons.read, "how it learned to")), choose, ...rest,
  ], [
    element("div", { class: "tfm-wide" }, typed, sheet.made),
    part(heading("2 It writes", lessonLink(data.lessons.write, "how it chooses")),
      row(writing, width, warmth), title, bars),
    part(heading("3 Break it"), row(taken, which), why, row(stranger, role, lessonLink(data.lessons.copy, "copying"))),
  ]);
  set(root, { class: "tfm-control tfm-machine" });

  /** What the reader did; the model is there, or comes. */
  function turn(change) {
    stop();
    Object.assign(state, change);
    set(warmth.querySelector("input"), { disabled: state.beams > 1 });
    const number = ++asked, names = [...new Set([models[0][0], state.model])];
    if (known.has(keyOf(state))) show();
    else if (!names.every((name) => shipped[name])) say("The model is on its way: 2.7 MB, once.", { ...state, number });
    Promise.all(names.map(async (name) => (shipped[name] ??= await load(name)))).then(
      () => number === asked && !playing && show(),
      (error) => number === asked && say(`The model did not come: ${error.message}. What stands here is older.`,
        { ...state, number }));
    if (names.every((name) => shipped[name])) show();
  }

  /** Write the headline before the reader's eyes, once the model is there. */
  function play() {
    if (calm.matches) return;
    const goOn = () => {
      if (!shipped[state.model]) return;
      state.place = written;
      written += 1;
      if (written >= runOf(state).texts.length) stop();
      show();
    };
    written = 0;
    playing = setInterval(goOn, 350);
    goOn();
  }

  function stop() {
    clearInterval(playing);
    [playing, written] = [null, Infinity];
  }

  function keyOf({ story, model, chosen, temperature, beams, off, seed }) {
    return JSON.stringify([story, model, chosen, temperature, beams, off, temperature && beams === 1 ? seed : 0]);
  }

  function runOf(of) {
    const key = keyOf(of);
    if (known.size > 50) known.clear();
    if (!known.has(key)) known.set(key, headlineRun(shipped[of.model], of, data));
    return known.get(key);
  }

  function show() {
    const run = runOf(state), { texts, steps } = run;
    state.place = Math.min(state.place, texts.length - 1);
    const { place, off, kind } = state, step = steps[place], part = partOf(kind);
    set(title, { text: `word ${place + 1}: the likeliest; press one to have it written` });
    bars.show(step.names.map((name, i) => ({
      name, p: step.probs[i], chosen: run.tokens[place] === step.best[i],
      press: () => turn({ chosen: [...run.tokens.slice(0, place), step.best[i]], place }),
    })));
    const whole = off && shipped[state.model] ? runOf({ ...state, off: "", kind: "" }) : run;
    const often = (words, text) => words.filter((word) => word === text).length;
    const other = texts.map((text, t) => often(texts.slice(0, t + 1), text) > often(whole.texts, text));
    sheet.show(run, place, Math.min(written, texts.length), other);
    const called = part.names.length > 1 ? part.names.find(([name]) => name === off)[1] : "";
    why.replaceChildren(part.why, lessonLink(part.lesson));
    if (playing) return; // it says so once, at the end

    const story = storyTokens(state.story), best = step.weights.indexOf(Math.max(...step.weights));
    let message = off ? `Without ${called || part.says} it writes “${run.text}”` : sentence("machine", run.text);
    if (off && shipped[state.model]) {
      message += whole.text === run.text ? ", as before." : `; whole it writes “${whole.text}”.`;
    } else message += ".";
    if (off && state.model === models[0][0]) {
      message += ` Of ${data.count} test stories it then writes ${percent(measured[off])} exactly right; whole, ` +
        `${percent(measured[""])}.`;
    }
    if (state.beams > 1 && shipped[state.model]) {
      const greedy = runOf({ ...state, beams: 1, temperature: 0 }).text;
      message += ` With 1 beam it writes ${greedy === run.text ? "the same" : `“${greedy}”`}. Beams draw nothing, so the ` +
        "temperature rests.";
    }
    const end = texts[place] === "[eos]" ? ", the sign that ends it," : ",";
    message += sentence("machine, word", place + 1, texts[place], end, percent(step.p));
    message += step.weights[best] ? sentence("machine, looks", story[best], decimal(step.weights[best])) : ".";
    const copied = texts.filter((_, t) => steps[t].copied);
    if (state.model !== models[0][0]) message += ` Copied: ${copied.length ? quotedList(copied) : "nothing"}.`;
    say(message + notInStory(data, state.story, texts), { ...state, ...run, written });
  }

  known.set(keyOf(state), data.run);
  desk.begin();
  show();
}

/** The words of a model that copies nothing. */
function plainVocabulary(pieces) {
  return new Vocabulary({ model: { vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])) } });
}

/** A link to a lesson, from a page or a notebook. about: what it explains. */
function lessonLink(lesson, about = "") {
  const text = `${about && `${about}: `}lesson ${lesson.slice(0, 2)}`;
  return element("a", { class: "tfm-lesson", ...leadingTo(lesson) }, text);
}

/**
 * What a model writes: {tokens, texts, text, steps}, and at each step the likeliest words, best, names and probs; p, of
 * the word that was written; weights (S,), the mean of the heads of the last layer that works; copied, whether more
 * than half of p comes from the story. off: a part that is switched off, or "".
 */
function headlineRun({ model, vocabulary }, { story, chosen, temperature, beams, off, seed }, { most, choices }) {
  const slots = vocabulary.slotWords(story), src = vocabulary.encode(story, slots);
  const { start_id, eos_id, num_decoder_layers: depth } = model.config, tokens = [], steps = [];
  const layers = Array.from({ length: depth }, (_, n) => `decoder.layers.${n}`);
  const seen = `${layers.findLast((name) => name !== off)}.cross_attention.weights`;
  const random = randomNumbers(seed), options = temperature ? { temperature } : {};
  const likeliest = (logits) => logits.indexOf(Math.max(...logits));
  const next = (logits) => (temperature ? draw(nextTokenProbs(Array.from(logits), options), random) : likeliest(logits));

  breaking(off ? [off] : [], () => {
    const memory = model.encode(src);
    const fresh = () => (off === "causal" ? new RereadingWriter(model, memory) : new Writer(model, memory));
    let forced = chosen;
    if (beams > 1 && chosen.at(-1) !== eos_id) {
      const writer = new BegunWriter(fresh(), [...chosen]), left = most - chosen.length;
      forced = [...chosen, ...beamSearch(model, src, left, { numBeams: beams, writer })];
    }
    const writer = fresh();
    while (tokens.length < most && tokens.at(-1) !== eos_id) {
      let logits;
      const outputs = record(() => (logits = writer.nextLogits(tokens.at(-1) ?? start_id)));
      const token = forced[tokens.length] ?? next(logits), logProb = logSoftmax(Array.from(logits))[token];
      const probs = nextTokenProbs(Array.from(logits), beams > 1 ? {} : options), best = ranking(probs).slice(0, choices);
      const heads = outputs[seen].at(-1), weights = heads[0].map((_, s) => sum(heads.map((row) => row[s])) / heads.length);
      const copied = outputs.pointer ? copiedShare(outputs.pointer.at(-1), src, token, logProb) > 0.5 : false;
      const named = { best, names: tokenTexts(vocabulary, best, slots), probs: best.map((one) => probs[one]) };
      steps.push({ ...named, p: probs[token], weights, copied });
      tokens.push(token);
    }
  });
  return { tokens, texts: tokenTexts(vocabulary, tokens, slots), text: vocabulary.decode(tokens, slots), steps };
}

const INKS = ["blue", "vermilion", "green", "purple", "olive", "teal", "crimson"].map((ink) => `var(--tfm-${ink})`);

/**
 * A story to type in, and a headline of `most` words below it, with ribbons between them: `show(run, place, count,
 * other)` draws the first so many words, with another ground those that the whole model does not write. area: the field
 * of the story, under which lie its words, to be found by the ribbons.
 */
function ribbonSheet(area, vocabulary, most, press) {
  const under = element("div", { class: "tfm-under", "aria-hidden": "true" });
  const paper = element("div", { class: "tfm-paper" }), lines = element("svg", { class: "tfm-ribbons" });
  const headline = wordRow("headline", most, press);
  area.replaceWith(paper);
  paper.append(under, area);
  const made = element("div", { class: "tfm-headline" }, headline);
  set(lines, { "aria-hidden": "true" });
  made.append(lines);
  let drawn = null, words = [];

  function lay() {
    const text = area.value, known = [...text.matchAll(WORDS)];
    words = known.map(([word]) => element("span", {}, word));
    let end = 0;
    const content = known.flatMap(({ index, 0: word }, n) => {
      const between = text.slice(end, index);
      end = index + word.length;
      return [between, words[n]];
    });
    under.replaceChildren(...content, `${text.slice(end)}\u200b`);
    words.forEach((word) => {
      if (vocabulary.unknownWords(word.textContent).length) set(word, { "data-kind": "unknown" });
    });
    if (drawn && drawn.run.steps[0].weights.length !== words.length) lines.replaceChildren(); // of another story
  }

  function draw() {
    if (!drawn || drawn.run.steps[0].weights.length !== words.length) return;
    const { run, place, count } = drawn, from = made.getBoundingClientRect(), buttons = [...headline.children];
    const middle = ({ left, width }) => left + width / 2 - from.left;
    const spots = words.map((word) => word.getBoundingClientRect());
    lines.replaceChildren(...run.steps.slice(0, count).flatMap(({ weights }, t) => {
      const start = buttons[t].getBoundingClientRect(), x = middle(start), y = start.top - from.top;
      return weights.flatMap((weight, s) => {
        if (weight < 0.05) return [];
        const end = middle(spots[s]), high = spots[s].bottom - from.top, half = (y + high) / 2;
        const look = `stroke: ${INKS[t % INKS.length]}; stroke-width: ${9 * weight}; opacity: ${t === place ? 0.8 : 0.3}`;
        return [element("path", { d: `M${x} ${y}C${x} ${half} ${end} ${half} ${end} ${high}`, style: look })];
      });
    }));
  }

  made.show = (run, place, count, other) => {
    drawn = { run, place, count };
    lay();
    headline.show(run.texts.slice(0, count).map((text, t) => ({
      text, kind: t === place ? "chosen" : other[t] ? "other" : run.steps[t].copied ? "copied" : null,
      style: `border-bottom-color: ${INKS[t % INKS.length]}`, title: text === "[eos]" ? "the end of the headline" : null,
    })));
    words.forEach((word, s) =>
      set(word, { style: `--weight: ${Math.round(100 * Math.min(1, run.steps[place].weights[s] ?? 0))}%` }));
    draw();
  };
  area.addEventListener("input", lay);
  new ResizeObserver(draw).observe(made);
  new ResizeObserver(draw).observe(paper);
  return { made, show: made.show };
}
