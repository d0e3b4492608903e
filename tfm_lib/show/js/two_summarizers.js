/**
 * Lesson 11: what the model without copying and the one that copies write of the same story. data: what `storyDesk`
 * needs; plain and copying, their names among what is shipped; most, the most tokens of a summary.
 */
function twoSummarizers(root, data) {
  const plain = data.shipped[data.plain], copying = data.shipped[data.copying];
  const desk = storyDesk(data, plain.vocabulary, show, "The plain model");
  const lines = [0, 1].map(() => element("p", { class: "tfm-summary" }));
  const say = layOut(root, "Two summarizers side by side", desk.knobs, [
    panel("plain: it writes what it knows", lines[0]),
    panel("copying: underlined is copied from the story", lines[1]),
  ]);

  function show(story) {
    const written = [plain, copying].map((one) => summaryWithCopies(one, story, data.most));
    written.forEach(({ words }, i) => lines[i].replaceChildren(...words.flatMap(({ text, copied }, t) => {
      const word = copied ? element("u", {}, text) : text;
      return t && !/^[.,!?]/.test(text) ? [" ", word] : [word];
    })));
    const [alone, sister] = written, texts = (words) => words.map(({ text }) => text);
    const copied = texts(sister.words.filter((word) => word.copied));
    const [one, other] = written.map(({ words }) => notInStory(data, story, texts(words)));
    say(sentence("copying", alone.text, one, sister.text, copied.length ? quotedList(copied) : "nothing", other),
      { story, plain: alone.text, copying: sister.text, copied, shares: sister.shares });
  }

  desk.begin();
}

/** How much of a word's probability comes from its places in the story, as in tfm_lib/writing/tracing.py. */
function copiedShare({ gate, weights }, src, token, logProb) {
  return (sigmoid(gate) * sum(weights.filter((_, s) => src[s] === token))) / Math.exp(logProb);
}

/**
 * What a model writes greedily: {text, words: [{text, copied}], shares (T,)}. A word is copied where more than half of
 * its probability is copied; without a pointer nothing is.
 */
function summaryWithCopies({ model, vocabulary }, story, most) {
  const slots = vocabulary.slotWords(story), src = vocabulary.encode(story, slots), tokens = [], logProbs = [];
  const mostProbable = (logits) => logits.indexOf(Math.max(...logits));
  const { pointer } = record(() => {
    const choose = (logits) => {
      logProbs.push(logSoftmax(logits));
      return mostProbable(logits);
    };
    tokens.push(...write(new Writer(model, model.encode(src)), most, choose));
  });
  const shares = tokens.map((token, t) => (pointer ? copiedShare(pointer[t], src, token, logProbs[t][token]) : 0));
  const words = tokens.map((token, t) => ({ text: vocabulary.decode([token], slots), copied: shares[t] > 0.5 }));
  return { text: vocabulary.decode(tokens, slots), words: words.filter(({ text }) => text), shares };
}
