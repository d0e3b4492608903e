// What the controls of the newsroom have in common: the desk where a story is chosen, turned and typed, and words.

/**
 * A desk with a story. data: stories, {name: text}; the story to begin with; kinds, [{name, words}], the menus for who,
 * where, ...; longest, the most tokens that are read. What the menus say is found in the text, so that they agree with
 * it, and turned they change that word there. reader: who reads [unk]. `read(text, fresh)` is called for each text that
 * can be read, fresh where a whole new one was chosen. Returns {knobs, area, begin}; area is where it is typed.
 */
function storyDesk({ stories, story, kinds, longest }, vocabulary, read, reader = "The model") {
  const ready = Object.entries(stories).map(([name, text]) => [text, name]);
  const choose = menu("story", [...ready, [null, "your own"]], null, (text) => {
    if (text === null) area.select();
    else set(area, { value: text });
    take(text !== null);
  });
  const area = element("textarea", { rows: 3, spellcheck: "false", oninput: () => take(false) });
  const note = element("p", { class: "tfm-note", role: "status" });
  const menus = kinds.map(({ name, words }) => {
    const found = () => wordAmong(words, area.value);
    const knob = menu(name, words, null, (word) => {
      const { start, end, capital } = found(), text = area.value;
      const written = capital ? word[0].toUpperCase() + word.slice(1) : word;
      set(area, { value: text.slice(0, start) + written + text.slice(end) });
      take(false);
    });
    return { knob, found, words };
  });

  function take(fresh) {
    const text = area.value, length = vocabulary.encode(text).length, readable = length >= 1 && length <= longest;
    choose.pick(ready.some(([one]) => one === text) ? text : null);
    for (const { knob, found, words } of menus) {
      const word = found()?.word, field = knob.querySelector("select");
      if (field.disabled === Boolean(word)) knob.offer(word ? words : ["not found"]);
      knob.pick(word ?? "not found");
      set(field, { disabled: !word });
    }
    const unknown = [...new Set(vocabulary.unknownWords(text))].map((word) => element("mark", {}, word));
    const listed = unknown.slice(0, 8).flatMap((mark, i) => (i ? [", ", mark] : [mark]));
    if (unknown.length > 8) listed.push(` and ${unknown.length - 8} more`);
    if (!readable) note.replaceChildren(`${length} tokens: from 1 to ${longest} can be read. The last answer stands.`);
    else if (!listed.length) note.replaceChildren(`${length} tokens, each of them in the vocabulary.`);
    else note.replaceChildren("Not in the vocabulary: ", ...listed, `. ${reader} reads [unk] instead.`);
    if (readable) read(text, fresh);
  }

  const asks = element("span", {}, "Change any word, or tell a story of your own:");
  const typed = element("label", { class: "tfm-knob tfm-story" }, asks, area);
  const begin = () => {
    set(area, { value: story });
    take(false);
  };
  return { knobs: [choose, ...menus.map(({ knob }) => knob), typed, note], area, begin };
}

/** The first of some words in a text, in capitals or not: {word, start, end, capital}; null where there is none. */
function wordAmong(words, text) {
  const letter = "[^\\p{White_Space}[\\].,!?;:]"; // as in WORDS
  const found = new RegExp(`(?<!${letter})(?:${words.join("|")})(?!${letter})`, "iu").exec(text);
  if (!found) return null;
  const word = words.find((one) => one.toLowerCase() === found[0].toLowerCase());
  return { word, start: found.index, end: found.index + found[0].length, capital: /^\p{Lu}/u.test(found[0]) };
}

/** The words and marks of a text as they stand there, one a token. */
function storyTokens(text) {
  return text.match(WORDS) ?? [];
}

/** The text of each id by itself, special tokens too; a slot reads as one of `words`. */
function tokenTexts(vocabulary, ids, words) {
  return ids.map((id) => vocabulary.decode([id], words) || vocabulary.pieces[id]);
}

/** Names, days and numbers that a summary may have: `made(word)`, whether it is one of these and not in the story. */
function factsOf({ kinds, digits }, story) {
  const inStory = new Set(storyTokens(asWritten(story)).flatMap((word) => [word, digits[word]]));
  const names = storyTokens(asWritten(kinds.flatMap(({ words }) => words).join(" ")));
  const facts = new Set([...names, ...Object.values(digits)]);
  return { made: (word) => facts.has(word) && !inStory.has(word) };
}

/** A sentence on the names, days and numbers of a summary that are not in its story; empty where all are. */
function notInStory(data, story, summary) {
  const made = [...new Set(summary.filter(factsOf(data, story).made))];
  return made.length ? sentence("not in story", quotedList(made)) : "";
}

function quotedList(words) {
  return words.map((word) => `“${word}”`).join(", ");
}

/**
 * Up to `count` words in lines, `show([{text, kind, style, title}, ...])`. kind: a look of control.css. With
 * `press(place)` each is a button, and one of the kind "chosen" is pressed.
 */
function wordRow(name, count, press = null) {
  const words = Array.from({ length: count }, (_, place) => press
    ? element("button", { type: "button", class: "tfm-word", onclick: () => press(place) })
    : element("span", { class: "tfm-word" }));
  const made = element("div", { class: "tfm-word-row", role: "group", "aria-label": name }, ...words);
  made.show = (shown) => words.forEach((word, place) => {
    const { text = "", kind = null, style = null, title = null } = shown[place] ?? {}, hidden = place >= shown.length;
    set(word, { text, style, title, hidden, "data-kind": kind });
    if (press) set(word, { disabled: hidden, "aria-pressed": String(kind === "chosen") });
  });
  return made;
}
