/**
 * Lesson 08: beam search step by step. data: story; most, the tokens of a text at most; widths and penalties, and those
 * to begin with. Texts stand in rows, and what becomes of each is told by a sign and a word.
 */
function beamControl(root, { story, most, widths, penalties, width, penalty, shipped }) {
  const { model, vocabulary } = Object.values(shipped)[0], src = vocabulary.encode(story), widest = widths.at(-1);
  const writer = new SharingWriter(new Writer(model, model.encode(src))), plain = greedyText(writer.copy(), most);
  const state = { width, penalty, step: 1 };
  let steps = [];
  const turn = (name) => (value) => {
    state[name] = value;
    search();
  };
  const stepKnob = slider("step", [...Array(most).keys()].map((n) => n + 1), 1, (step) => {
    state.step = step;
    show();
  }, (step) => `${step} of ${steps.length}`);
  const knobs = [
    choice("width", widths, width, turn("width")), choice("length penalty", penalties, penalty, turn("penalty")),
    stepKnob,
  ];
  const beamRows = rowsOfText(["beam", "text", "total"], widest);
  const candidateRows = rowsOfText(["beam", "next word", "p", "total", "then"], 2 * widest);
  const endedRows = rowsOfText(["rank", "text", "total", "score"], widest + 1);
  set(beamRows.made, { class: "tfm-rows tfm-tall" }); // as high as the candidates beside them, two for a beam
  const say = layOut(root, "Beam search step by step", knobs, [
    element("p", { class: "tfm-wide" }, story),
    panel("beams that are continued", beamRows.made), panel("their best continuations", candidateRows.made),
    element("div", { class: "tfm-wide" }, panel("texts that have ended, and greedy's", endedRows.made)),
  ]);
  const quoted = (tokens) => (tokens.length ? `“${vocabulary.decode(tokens)}”` : "the empty text");
  const scored = (text) => ({ ...text, score: text.total / text.tokens.length ** state.penalty });

  function search() {
    const options = { numBeams: state.width, lengthPenalty: state.penalty, writer: writer.copy() };
    steps = [...beamSteps(model, src, most, options)];
    state.step = Math.min(state.step, steps.length);
    set(stepKnob.querySelector("input"), { max: steps.length - 1 });
    stepKnob.pick(state.step);
    show();
  }

  function show() {
    const { beams, candidates, hypotheses, goesOn } = steps[state.step - 1], atEnd = state.step === steps.length;
    const found = candidates.map((candidate, rank) => {
      let fate = atEnd ? "✗ search stops" : "✗ dropped";
      if (candidate.ended) fate = rank < state.width ? "■ has ended" : "✗ ends too low";
      if (goesOn.includes(candidate)) fate = `→ beam ${goesOn.indexOf(candidate) + 1}`;
      return { ...candidate, fate, p: Math.exp(candidate.total - candidate.beam.total) };
    });
    const texts = hypotheses.map((text) => ({ ...text, total: text.score * text.tokens.length ** state.penalty }));
    const rival = scored(plain), empty = Array.from({ length: state.width - texts.length }, () => ["–", "", "", ""]);
    const row = (name, { tokens, total, score }) => [name, quoted(tokens), decimal(total), decimal(score)];
    beamRows.show(beams.map(({ tokens, total }, n) => [n + 1, quoted(tokens), decimal(total)]), state.width);
    candidateRows.show(found.map(({ beam, token, p, total, fate }) =>
      [beams.indexOf(beam) + 1, vocabulary.pieces[token], percent(p), decimal(total), fate]), 2 * state.width,
      (n) => !found[n].fate.startsWith("✗"));
    const listed = texts.map((text, n) => row(atEnd && n === 0 ? "★ 1" : n + 1, text));
    endedRows.show([...listed, ...empty, row("greedy", rival)], state.width + 1, (n) => atEnd && n === 0);
    say(atEnd ? theEnd(texts[0], rival) : onTheWay(beams, found, goesOn, texts), {
      beams: beams.map(({ tokens, total }) => ({ tokens, total })),
      candidates: found.map(({ tokens, total, p, fate }) => ({ tokens, total, p, fate })),
      texts, greedy: rival, steps: steps.length,
    });
  }

  function onTheWay(beams, found, goesOn, texts) {
    const continued = beams.length === 1 ? `one beam, ${quoted(beams[0].tokens)}` : `${beams.length} beams`;
    const [first] = goesOn, { p } = found.find(({ tokens }) => tokens === first.tokens);
    const ended = texts.length > 1 ? `${texts.length} texts have ended, the best of them` : "One text has ended,";
    const best = texts.length ? sentence("beam, ended", ended, quoted(texts[0].tokens), decimal(texts[0].score))
      : sentence("beam, none has ended");
    return sentence("beam", state.step, continued, found.length, goesOn.length, goesOn.length > 1 ? "are" : "is",
      quoted(first.tokens), percent(p), decimal(first.total), best);
  }

  function theEnd(best, rival) {
    const compared = best.total > rival.total ? "more" : "less", higher = best.score > rival.score;
    const verdict = String(best.tokens) === String(rival.tokens) ? "Greedy decoding writes the same text." :
      `Greedy decoding writes ${quoted(rival.tokens)}, with a total of ${decimal(rival.total)} and a score of ` +
      `${decimal(rival.score)}: the text of the search is ${compared} probable, and its score is ` +
      `${higher ? "higher" : "lower"}.`;
    return `The search stops after step ${state.step}. Its best text is ${quoted(best.tokens)}, with a total of ` +
      `${decimal(best.total)} and a score of ${decimal(best.score)}. ${verdict}`;
  }

  search();
}

/** The text of greedy decoding, and its total, the sum of log p of its tokens. */
function greedyText(writer, most) {
  let total = 0;
  const mostLikely = (logits) => {
    const token = ranking(logits)[0];
    total += logSoftmax(logits)[token];
    return token;
  };
  return { tokens: [...write(writer, most, mostLikely)], total };
}
