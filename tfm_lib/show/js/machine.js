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
  const shipped = {}, arrived = {}, known = new Map(), partOf = (name) => parts.find(({ kind }) => kind === name);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let asked = 0, playing = null, written = Infinity; // written: how many words of the headline are there by now

  const desk = storyDesk(data, plainVocabulary(data.pieces), (story) => {
    if (story !== state.story) turn({ story, chosen: [] });
    else if (root.shown) show();
  }, "The plain model");
  const sheet = ribbonSheet(desk.area, plainVocabulary(data.pieces), data.most, (place) => turn({ place }));
  const [choose, ...rest] = desk.knobs, [typed, note] = rest.splice(-2);

  const title = element("span"), bars = probabilityBars(data.choices);
  const writing = set(button("write it", () => {
    turn({ chosen: [], seed: state.seed + 1 });
    play();
  }), { class: "tfm-button tfm-primary" });
  const warmth = slider("temperature", [0, 0.5, 1, 1.5, 2], 0, (temperature) => turn({ temperature, chosen: [] }),
    (value) => (value ? String(value) : "0: greedy"));
  const width = choice("beams", [1, 2, 4], 1, (beams) => turn({ beams, chosen: [] }));
  const taken = choice("Switch off", parts.map(({ kind, label }) => [kind, label]), "", (kind) => {
    which.offer(partOf(kind).names.map(([name, label]) => [name, label]));
    which.pick(partOf(kind).names[0][0]);
    set(which, { hidden: partOf(kind).names.length < 2 });
    turn({ kind, off: partOf(kind).names[0][0], chosen: [] });
  });
  const shares = shareBars(taken, parts.map(({ names }) => measured[names[0][0]]));
  const which = menu("which", partOf("").names, "", (off) => turn({ off, chosen: [] }));
  set(which, { hidden: true });
  const stranger = button("a name that nobody has", () => {
    set(desk.area, { value: data.name });
    state.place = 0;
    desk.area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const role = choice("model", models, models[0][0], (model) => turn({ model, chosen: [] }));
  const why = element("p", { class: "tfm-why" }), row = (...knobs) => element("div", { class: "tfm-knobs" }, ...knobs);
  const part = (kind, ...children) => element("div", { class: `tfm-panel ${kind}` }, ...children);
  const heading = (text, ...more) => element("div", { class: "tfm-title" }, text, ...more);

  const say = layOut(root, "A machine that writes headlines", [writing, choose], [
    typed, sheet.made, note,
    part("tfm-wide", heading(`Break it: the bar is how many of ${data.count} headlines are then right`), taken,
      row(which), why),
    part("", heading("How it chooses", lessonLink(data.lessons.write)), row(width, warmth), title, bars),
    part("", heading("Change the story", lessonLink(data.lessons.read, "how it learned to read")), row(...rest),
      row(stranger), row(role, lessonLink(data.lessons.copy, "copying"))),
  ]);
  set(root, { class: "tfm-control tfm-machine" });
  why.after(root.querySelector(".tfm-words")); // what a missing part does is said beside what was switched

  /** What the reader did; the model is there, or comes. */
  function turn(change) {
    stop();
    Object.assign(state, change);
    set(warmth.querySelector("input"), { disabled: state.beams > 1 });
    const number = ++asked, names = missing();
    if (!names.length || known.has(keyOf(state))) show();
    if (!names.length) return;
    const size = sum(names.map((name) => data.size[name])).toFixed(1);
    if (!known.has(keyOf(state))) {
      wait(`The model is loading: ${size} MB, once.`, number, true);
      hear();
    }
    Promise.all(names.map(async (name) => (shipped[name] ??= await load(name, hear)))).then(
      () => number === asked && !playing && show(),
      (error) => number === asked && wait(
        `The model could not be loaded: ${error.message}. Without it nothing new can be written; press “write it” to try ` +
          "again.", number));
  }

  /** The models that an answer needs, and that are not there. */
  function missing() {
    return [...new Set([models[0][0], state.model])].filter((name) => !shipped[name]);
  }

  /** So many bytes of a model have come; while the reader waits, they see which share of all. */
  function hear(name, bytes) {
    if (name) arrived[name] = bytes;
    const [come, all] = [arrived, data.size].map((of) => sum(missing().map((one) => of[one] ?? 0)));
    if (root.shown.loading) sheet.arrive(Math.min(1, come / (1e6 * all)));
  }

  /** What was written of something else goes; in its place stands what the reader waits for. */
  function wait(message, number, loading = false) {
    set(root, { "data-waiting": true });
    sheet.wait(message);
    bars.show([]);
    set(title, { text: "" });
    say("", { ...state, number, waiting: message, loading });
  }

  /** Write the headline before the reader's eyes, once the model is there. */
  function play() {
    if (calm.matches) return;
    const goOn = () => {
      if (!shipped[state.model] && !known.has(keyOf(state))) return;
      state.place = written;
      written += 1;
      if (written >= runOf(state).texts.length) stop();
      show();
    };
    written = 0;
    playing = setInterval(goOn, 350);
    set(root, { "data-writing": true });
    goOn();
  }

  function stop() {
    clearInterval(playing);
    [playing, written] = [null, Infinity];
    set(root, { "data-writing": null });
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
    set(root, { "data-waiting": null });
    state.place = Math.min(state.place, texts.length - 1);
    const { place, off, kind } = state, step = steps[place], part = partOf(kind);
    set(title, { text: `most probable as word ${place + 1}: press one to write it` });
    bars.show(step.names.map((name, i) => ({
      name, p: step.probs[i], chosen: run.tokens[place] === step.best[i],
      press: () => turn({ chosen: [...run.tokens.slice(0, place), step.best[i]], place }),
    })).filter(({ name, chosen }) => chosen || !NEVER.includes(name)));
    const whole = off && shipped[state.model] ? runOf({ ...state, off: "", kind: "" }) : run;
    const often = (words, text) => words.filter((word) => word === text).length;
    const other = texts.map((text, t) => often(texts.slice(0, t + 1), text) > often(whole.texts, text));
    const facts = factsOf(data, state.story), invented = texts.map((text) => facts.made(text));
    sheet.show(run, place, Math.min(written, texts.length), other, invented);
    shares.show(parts.findIndex((one) => one.kind === kind), measured[off]);
    const called = part.names.length > 1 ? part.names.find(([name]) => name === off)[1] : "";
    why.replaceChildren(part.why, lessonLink(part.lesson));
    if (playing) return; // it says so once, at the end

    const story = storyTokens(state.story), best = step.weights.indexOf(Math.max(...step.weights));
    let message = off ? `Without ${called || part.says} it writes “${run.text}”` : sentence("machine", run.text);
    if (off && shipped[state.model]) {
      message += whole.text === run.text ? ", as before." : `; whole it writes “${whole.text}”.`;
    } else message += ".";
    if (other.some((found, t) => found && t !== place)) message += " On orange: what the whole model does not write.";
    if (off && state.model === models[0][0]) {
      message += ` Of ${data.count} test stories it then writes ${percent(measured[off])} exactly right; whole, ` +
        `${percent(measured[""])}.`;
    }
    if (state.beams > 1 && shipped[state.model]) {
      const greedy = runOf({ ...state, beams: 1, temperature: 0 }).text;
      message += ` With 1 beam it writes ${greedy === run.text ? "the same" : `“${greedy}”`}. Beams draw nothing, so the ` +
        "temperature rests.";
    }
    const end = texts[place] === "[eos]" ? ", the end token," : ",";
    message += sentence("machine, word", place + 1, texts[place], end, percent(step.p));
    message += step.weights[best] ? sentence("machine, looks", story[best], decimal(step.weights[best])) : ".";
    const copied = texts.filter((_, t) => steps[t].copied);
    if (state.model !== models[0][0]) message += ` Copied: ${copied.length ? quotedList(copied) : "nothing"}.`;
    say(message + notInStory(data, state.story, texts), { ...state, ...run, written });
  }

  known.set(keyOf(state), data.run);
  desk.begin();
  show();
  play(); // what stands there is written once before the reader's eyes
}

/** Under each choice the share of headlines that are right without it, as a bar: `show(place, share)` changes one. */
function shareBars(made, shares) {
  const rows = [...made.querySelectorAll("label span")].map((label) => {
    const number = element("small");
    label.append(number);
    return { label, number };
  });
  set(made, { class: "tfm-knob tfm-choice tfm-shares" });
  const show = (place, share) => {
    set(rows[place].label, { style: `--share: ${100 * share}%` });
    set(rows[place].number, { text: percent(share) });
  };
  shares.forEach((share, place) => show(place, share));
  return { show };
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
 * What a model writes: {tokens, texts, text, steps}, and at each step the most probable words, best, names and probs; p,
 * of the word that was written; weights (S,), the mean of the heads of the last layer that works; copied, whether more
 * than half of p comes from the story. off: a part that is switched off, or "". Padding and start are never drawn.
 */
function headlineRun({ model, vocabulary }, { story, chosen, temperature, beams, off, seed }, { most, choices }) {
  const slots = vocabulary.slotWords(story), src = vocabulary.encode(story, slots);
  const { pad_id, start_id, eos_id, num_decoder_layers: depth } = model.config, tokens = [], steps = [];
  const layers = Array.from({ length: depth }, (_, n) => `decoder.layers.${n}`);
  const seen = `${layers.findLast((name) => name !== off)}.cross_attention.weights`;
  const random = randomNumbers(seed), options = temperature ? { temperature } : {};
  const mostProbable = (logits) => logits.indexOf(Math.max(...logits));
  const drawn = (logits) => draw(nextTokenProbs(logits, options), random);
  const next = temperature ? drawn : mostProbable, rules = temperature ? { banned: [pad_id, start_id] } : {};

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
      const possible = forbid(Array.from(logits), [start_id, ...tokens], eos_id, rules);
      const token = forced[tokens.length] ?? next(possible), logProb = logSoftmax(Array.from(logits))[token];
      const probs = nextTokenProbs(possible, beams > 1 ? {} : options), best = ranking(probs).slice(0, choices);
      const heads = outputs[seen].at(-1), weights = heads[0].map((_, s) => sum(heads.map((row) => row[s])) / heads.length);
      const copied = outputs.pointer ? copiedShare(outputs.pointer.at(-1), src, token, logProb) > 0.5 : false;
      const named = { best, names: tokenTexts(vocabulary, best, slots), probs: best.map((one) => probs[one]) };
      steps.push({ ...named, p: probs[token], weights, copied });
      tokens.push(token);
    }
  });
  return { tokens, texts: tokenTexts(vocabulary, tokens, slots), text: vocabulary.decode(tokens, slots), steps };
}

const NEVER = ["[pad]", "[start]"]; // no words of a headline, and offered to nobody
const INKS = ["blue", "vermilion", "green", "purple", "olive", "teal", "crimson"].map((ink) => `var(--tfm-${ink})`);

/**
 * A story to type in, and a headline of `most` words below it, with ribbons between them in a lane of their own: they
 * end under the words at which the model looked, which have a line in their color. `show(run, place, count, other,
 * invented)` draws the first so many words, with another ground those that the whole model does not write, and with a
 * wavy line names and numbers that the story does not have; `wait(message)` puts words in their place,
 * `arrive(share)` below them how much of what is waited for is there. area: the field of the story, under which lie its
 * words, to be found by the ribbons.
 */
function ribbonSheet(area, vocabulary, most, press) {
  const under = element("div", { class: "tfm-under", "aria-hidden": "true" });
  const paper = element("div", { class: "tfm-paper" }), lines = element("svg", { class: "tfm-ribbons" });
  const headline = wordRow("headline", most, press);
  area.replaceWith(paper);
  paper.append(under, area);
  const said = element("p", { role: "status" }), part = element("span", { "aria-hidden": "true" });
  const bar = element("progress", { "aria-label": "how much of the model is there" });
  const coming = element("div", { hidden: true }, bar, part);
  const waiting = element("div", { class: "tfm-waiting" }, said, coming);
  const made = element("div", { class: "tfm-headline" }, headline, waiting);
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
    const { top, bottom } = headline.getBoundingClientRect();
    const middle = ({ left, width }) => left + width / 2 - from.left;
    const spots = words.map((word) => word.getBoundingClientRect());
    const seen = words.map(() => [0, "transparent"]);
    lines.replaceChildren(...run.steps.slice(0, count).flatMap(({ weights }, t) => {
      const start = buttons[t].getBoundingClientRect(), x = middle(start), y = start.top - from.top;
      const ink = INKS[t % INKS.length];
      if (start.bottom <= top || start.top >= bottom) return []; // a long headline scrolls
      return weights.flatMap((weight, s) => {
        if (weight < 0.05) return [];
        if (weight > Math.max(0.2, seen[s][0])) seen[s] = [weight, ink]; // a line under what was looked at most
        const end = middle(spots[s]), half = y / 2;
        const look = `stroke: ${ink}; stroke-width: ${9 * weight}; opacity: ${t === place ? 0.9 : 0.3}`;
        return [element("path", { d: `M${x} ${y}C${x} ${half} ${end} ${half} ${end} 2`, style: look })];
      });
    }));
    words.forEach((word, s) => {
      const weight = Math.round(100 * Math.min(1, run.steps[place].weights[s] ?? 0));
      set(word, { style: `--weight: ${weight}%; --line: ${seen[s][1]}` });
    });
  }

  made.show = (run, place, count, other, invented) => {
    drawn = { run, place, count };
    lay();
    clear("");
    headline.show(run.texts.slice(0, count).map((text, t) => ({
      text, kind: t === place ? "chosen" : other[t] ? "other" : run.steps[t].copied ? "copied" : null,
      style: `border-bottom-color: ${INKS[t % INKS.length]}${invented[t] ? "; text-decoration: underline wavy" : ""}`,
      title: text === "[eos]" ? "the end of the headline" : invented[t] ? "not in the story" : null,
    })));
    const chip = headline.children[place], least = chip.offsetTop + chip.offsetHeight - headline.clientHeight;
    headline.scrollTop = Math.min(chip.offsetTop, Math.max(least, headline.scrollTop));
    draw();
  };
  made.wait = (message) => {
    drawn = null;
    headline.show([]);
    lines.replaceChildren();
    words.forEach((word) => set(word, { style: null }));
    clear(message);
  };
  const arrive = (share) => { // which stays 0 where a page in a folder reads the file
    set(coming, { hidden: share === 0 });
    set(bar, { value: share });
    set(part, { text: `${Math.floor(100 * share)} %` });
  };
  function clear(message) {
    set(said, { text: message });
    set(coming, { hidden: true });
  }
  area.addEventListener("input", lay);
  headline.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(made);
  new ResizeObserver(draw).observe(paper);
  return { made, show: made.show, wait: made.wait, arrive };
}
