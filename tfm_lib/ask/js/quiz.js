/**
 * The questions of a lesson: choose, read why, choose again. data: questions, each with its HTML, the letter of the
 * right choice, a key by which the letters chosen up to that one are kept, and choices {letter, text, comment};
 * onward: where an opening quiz sends a reader who needs not read the lesson, else null.
 */
function lessonQuiz(root, { questions, onward }, keep) {
  let kept = { ...keep.read() };
  const tried = questions.map(({ key, choices }) => {
    const letters = typeof kept[key] === "string" ? kept[key] : "";
    return [...letters].every((letter) => choices.some((choice) => choice.letter === letter)) ? letters : "";
  });
  const asked = questions.map((question, place) => quizQuestion(question, place + 1, (letter) => {
    if (!tried[place].includes(question.right) && !tried[place].includes(letter)) tried[place] += letter;
    kept = { ...kept, [question.key]: tried[place] };
    conclude();
    keep.write(kept);
  }));
  const title = onward === null ? [] : [element("div", { class: "tfm-title" }, "Read or skip?")];
  const score = element("p", { class: "tfm-words tfm-score", role: "status" });
  const anew = button("begin anew", () => {
    tried.fill("");
    asked.forEach((one) => one.clear());
    kept = {};
    asked[0].querySelector("button").focus(); // where it begins
    conclude();
    keep.write(kept);
  });
  set(root, { role: "group", "aria-label": onward === null ? "Quiz" : "Read or skip?" });
  root.replaceChildren(...title, ...asked, element("div", { class: "tfm-conclusion" }, score, anew));

  function conclude() {
    const count = questions.length, answered = tried.filter(Boolean).length;
    const solved = questions.filter(({ right }, place) => tried[place].includes(right)).length;
    const atOnce = questions.filter(({ right }, place) => tried[place] === right).length;
    const first = `${atOnce} of ${count} right at the first try`;
    const advice = `${first}: ${atOnce === count ? onward : "read this lesson"}.`;
    const opening = answered === count ? advice : `${answered} of ${count} answered.`;
    const closing = `Score: ${solved} of ${count} right, ${atOnce} at the first try.`;
    set(score, { text: onward === null ? closing : opening });
    set(anew, { disabled: answered === 0 });
    root.shown = { answered, solved, atOnce };
  }

  tried.forEach((letters, place) => [...letters].forEach((letter) => asked[place].show(letter)));
  conclude();
}

/** One question: a button for each choice and, below, what is to be said of the one chosen last. */
function quizQuestion({ question, right, choices }, number, choose) {
  const comment = element("div", { class: "tfm-comment", "aria-live": "polite" });
  const rows = choices.map(({ letter, text }) => {
    const mark = element("span", { class: "tfm-letter" }, letter), said = element("span");
    said.innerHTML = text;
    const row = set(button("", () => {
      made.show(letter);
      choose(letter);
    }), { class: "tfm-choose" });
    row.append(mark, " ", said);
    return { row, mark };
  });
  const head = element("legend");
  head.innerHTML = `${number}. ${question}`;
  const made = element("fieldset", { class: "tfm-question" }, head, ...rows.map(({ row }) => row), comment);
  made.show = (letter) => {
    const place = choices.findIndex((choice) => choice.letter === letter), verdict = letter === right ? "right" : "wrong";
    set(rows[place].row, { "data-verdict": verdict });
    set(rows[place].mark, { text: `${letter} ${letter === right ? "✓" : "✗"}` });
    set(comment, { "data-verdict": verdict });
    comment.innerHTML = choices[place].comment;
  };
  made.clear = () => {
    rows.forEach(({ row, mark }, place) => {
      set(row, { "data-verdict": null });
      set(mark, { text: choices[place].letter });
    });
    set(comment, { "data-verdict": null, text: "" });
  };
  return made;
}
