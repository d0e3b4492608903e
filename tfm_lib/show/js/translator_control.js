/**
 * Lesson 12: a translator of Firefox. Press a word of a translation to see where the aligned head looked, and what else
 * might stand there. data: recorded, what `translated` gives of some sentences; name, that of the model, which is loaded
 * when the reader wants a sentence of their own translated; size, its megabytes; longest, the most subwords; choices.
 */
function translatorControl(root, data) {
  const ready = data.recorded.map((one) => [one, one.text]);
  let now = data.recorded[0], place = data.place, translator = null;
  const choose = menu("sentence", [...ready, [null, "your own"]], now, (one) => {
    if (one) show(one, 0);
    else area.select();
  });
  const area = element("textarea", { rows: 2, oninput: () => {
    choose.pick(null);
    say("Not translated yet: press the button.", { text: area.value });
  } });
  const press = button("", translate), typed = element("label", { class: "tfm-knob tfm-story" });
  typed.append(element("span", {}, "Change it, or type another in English:"), area);
  const most = 3 * data.longest, source = wordRow("sentence", data.longest);
  const words = wordRow("translation", most, (chosen) => show(now, chosen)), bars = probabilityBars(data.choices);
  const wide = (title, row) => set(panel(title, row), { class: "tfm-panel tfm-wide" });
  const say = layOut(root, "A translator of Firefox, from English to Portuguese", [choose, typed, press], [
    wide("sentence: shaded by weight", source),
    wide("translation: press a word", words),
    panel("most probable subwords", bars),
  ]);

  function idle() {
    set(press, { disabled: false, text: translator ? "Translate" : `Load the translator (${data.size} MB) and translate` });
  }

  async function translate() {
    const text = area.value;
    set(press, { disabled: true, text: translator ? "Translating …" : "Loading …" });
    say(translator ? "Translating …" : `Loading ${data.size} MB …`, { text });
    await new Promise((done) => setTimeout(done, 30)); // so that this is seen
    try {
      translator ??= await data.load(data.name);
    } catch {
      say(`The translator cannot be loaded here. Choose one of the ${ready.length} sentences in the menu.`, { text });
      return idle();
    }
    const length = translator.vocabulary.encode(text).length;
    if (length < 1 || length > data.longest) {
      say(`The sentence has ${length} subwords: from 1 to ${data.longest} can be translated here.`, { text });
    } else show(translated(translator, text, data.choices), 0);
    return idle();
  }

  function show(one, chosen) {
    [now, place] = [one, Math.min(chosen, one.words.length - 1)];
    choose.pick(data.recorded.find(({ text }) => text === one.text) ?? null);
    if (area.value !== one.text) set(area, { value: one.text });
    const { piece, looks, next } = now.words[place];
    source.show(now.source.map((text, s) => {
      const weight = looks[s];
      return { text, title: weight.toFixed(2), style: `--weight: ${Math.round(100 * weight)}%` };
    }));
    words.show(now.words.map((word, t) => ({ text: word.piece, kind: t === place ? "chosen" : "plain" })));
    bars.show(next.map(([other, p]) => ({ name: other, p, chosen: other === piece })));
    const best = ranking(looks)[0];
    const [[, p], [second, q]] = next, where = [now.source[best], looks[best].toFixed(2)];
    say(sentence("translator", now.translation, place + 1, piece, percent(p), second, percent(q), ...where),
      { ...now, place });
  }

  idle();
  show(now, place);
}
