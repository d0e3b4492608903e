// What every control is made of: elements, knobs, axes, bars of probability, and in words what there is to see.
//
// A control is a function (root, data, keep) that fills an empty element and then runs by itself:
//   root   a <div class="tfm-control">; after each answer `root.shown` holds what was computed, for tests to compare
//   data   what Python gave it (JSON), and under `shipped` the checkpoints that it asked for, {model, vocabulary, rules};
//          one that asked for them later has `load(name, hear)` instead, the promise of one; on a page that a host sends,
//          `hear(name, bytes)` is told how much of it has come
//   keep   {read(), write(value)}: what the reader has done, kept in the browser or beside the notebook
// It may return a function that takes new data while the kernel runs. Elements are made once and then changed, so that
// the focus stays where it is.

const SVG = new Set(["svg", "g", "rect", "line", "circle", "path", "polyline", "text", "tspan"]);

/** An element of HTML or SVG. Attributes as in `set`; children are elements or text. */
function element(name, attributes = {}, ...children) {
  const space = SVG.has(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = set(document.createElementNS(space, name), attributes);
  made.append(...children);
  return made;
}

/** Change an element: `text` is its content, `onclick` and the like listen, null and false take an attribute away. */
function set(changed, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") {
      if (changed.textContent !== String(value)) changed.textContent = value;
    } else if (name === "value" || name === "checked" || name === "disabled") changed[name] = value;
    else if (name.startsWith("on")) changed.addEventListener(name.slice(2), value);
    else if (value === null || value === false) changed.removeAttribute(name);
    else if (changed.getAttribute(name) !== String(value)) changed.setAttribute(name, value === true ? "" : value);
  }
  return changed;
}

/**
 * Lay a control out: knobs in rows, below them panels side by side as there is room, below these the words. Returns
 * `say(words, shown)`, which ends every answer; after its first sentence come numbers that are drawn, too, in small.
 * label: what a screen reader calls the control.
 */
function layOut(root, label, knobs, panels) {
  const words = element("p", { class: "tfm-words", role: "status" });
  set(root, { role: "group", "aria-label": label });
  root.replaceChildren(
    element("div", { class: "tfm-knobs" }, ...knobs), element("div", { class: "tfm-panels" }, ...panels), words);
  return (said, shown) => {
    const message = said.replace(/(?<=[<>]) | (?=%)/g, "\u00a0"); // a percentage stays in one line
    const [first] = /^.*?[.!?]”?(?= )/s.exec(message) ?? [message];
    if (words.textContent !== message) {
      words.replaceChildren(first, element("span", { class: "tfm-numbers" }, message.slice(first.length)));
    }
    root.shown = shown;
  };
}

/** What Python says, too: a sentence of words.json, with these values in place of its braces. */
function sentence(name, ...values) {
  return SENTENCES[name].replace(/\{\}/g, () => values.shift());
}

/** A drawing of so many units, which is as wide as its panel, up to a pixel a unit. name: what a screen reader says. */
function drawing(width, height, name, ...children) {
  const view = { viewBox: `0 0 ${width} ${height}`, style: `max-width: ${width}px`, role: "img", "aria-label": name };
  return element("svg", { class: "tfm-drawing", ...view }, ...children);
}

/** A panel: a title and what stands under it. */
function panel(title, ...children) {
  return element("div", { class: "tfm-panel" }, element("div", { class: "tfm-title" }, title), ...children);
}

// ---- Knobs. Each calls `turn(value)` when the reader turns it; its `pick(value)` turns it without that. ----

/** A slider over a list of values. text: how one is written. */
function slider(label, values, value, turn, text = String) {
  const write = (index) => {
    set(input, { "aria-valuetext": text(values[index]) });
    set(said, { text: text(values[index]) });
  };
  const input = element("input", { type: "range", min: 0, max: values.length - 1, step: 1, oninput: () => {
    write(input.value);
    turn(values[input.value]);
  } });
  const said = element("span", { class: "tfm-said", "aria-hidden": "true" });
  const made = element("label", { class: "tfm-knob" }, element("span", {}, label), input, said);
  made.pick = (picked) => {
    set(input, { value: values.indexOf(picked) });
    write(input.value);
  };
  made.pick(value);
  return made;
}

/** A box to tick. */
function tick(label, value, turn) {
  const input = element("input", { type: "checkbox", checked: value, onchange: () => turn(input.checked) });
  const made = element("label", { class: "tfm-knob" }, input, element("span", {}, label));
  made.pick = (picked) => set(input, { checked: picked });
  return made;
}

/** One of a few, side by side. options: values, or pairs of a value and its text. */
function choice(label, options, value, turn) {
  const name = `tfm-choice-${Math.random()}`; // no other control's, whose script in a notebook is another copy
  const inputs = pairs(options).map(([option, text]) => {
    const input = element("input", { type: "radio", name, onchange: () => turn(option) });
    return { option, input, made: element("label", {}, input, element("span", {}, text)) };
  });
  const about = { class: "tfm-knob tfm-choice", role: "radiogroup", "aria-label": label };
  const made = element("div", about, element("span", {}, label), ...inputs.map((one) => one.made));
  made.pick = (picked) => inputs.forEach(({ option, input }) => set(input, { checked: option === picked }));
  made.pick(value);
  return made;
}

/** One of many, in a list that opens; `offer(options)` puts others in its place. */
function menu(label, options, value, turn) {
  let offered;
  const field = element("select", { onchange: () => turn(offered[field.selectedIndex][0]) });
  const made = element("label", { class: "tfm-knob" }, element("span", {}, label), field);
  made.pick = (picked) => (field.selectedIndex = offered.findIndex(([option]) => option === picked));
  made.offer = (others) => {
    offered = pairs(others);
    field.replaceChildren(...offered.map(([, text]) => element("option", {}, text)));
  };
  made.offer(options);
  made.pick(value);
  return made;
}

/** A button. */
function button(text, press) {
  return element("button", { type: "button", class: "tfm-button", onclick: press }, text);
}

function pairs(options) {
  return options.map((option) => (Array.isArray(option) ? option : [option, String(option)]));
}

/** Let an element of a drawing be pressed: by mouse, finger, Enter and space. name: what a screen reader calls it. */
function pressable(pressed, name, press) {
  return set(pressed, {
    tabindex: 0, role: "button", "aria-label": name, onclick: press,
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    },
  });
}

/**
 * Let something be dragged: `move({x, y})` in units of the drawing, while a mouse or finger holds it. The page stays
 * under the finger; `sideways`: only along, so that a finger up and down scrolls.
 */
function draggable(held, svg, move, sideways = false) {
  const follow = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    move({ x, y });
  };
  const pull = (event) => held.hasPointerCapture(event.pointerId) && follow(event);
  const take = (event) => {
    event.preventDefault();
    held.setPointerCapture(event.pointerId);
    held.focus?.({ preventScroll: true }); // or the picture would leap away under the finger
    follow(event);
  };
  // Browsers heed touch-action on a drawing as a whole, not on its parts.
  if (sideways) svg.style.touchAction = "pan-y";
  else held.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  return set(held, { class: "tfm-held", onpointerdown: take, onpointermove: pull });
}

// ---- Numbers ----

/** A probability, as it is written everywhere: 97.3 %, and never a 0 or a 100 that it is not. */
function percent(p) {
  if (p === 0 || p === 1) return `${100 * p} %`;
  if (p >= 0.0005 && p < 0.9995) return `${(100 * p).toFixed(1)} %`;
  return p < 0.5 ? "< 0.1 %" : "> 99.9 %";
}

/** A number with a true minus sign. */
function decimal(number, digits = 2) {
  return number.toFixed(digits).replace(/^-(?=.*[1-9])/, "\u2212").replace(/^-/, "");
}

/** From a value to its place in a drawing, along a line; `places.invert` goes back. */
function scale([low, high], [from, to]) {
  const place = (value) => from + ((value - low) / (high - low)) * (to - from);
  place.invert = (at) => low + ((at - from) / (to - from)) * (high - low);
  return place;
}

/** How dark a cell of a weight in [0, 1] is, and the letters on it, whose contrast is at least 4.5 on each. */
function shade(weight) {
  const share = Math.round(100 * Math.min(1, Math.max(0, weight)));
  return `fill: color-mix(in oklab, var(--tfm-full) ${share}%, var(--tfm-empty))`;
}

function onShade(weight) {
  return `fill: light-dark(${weight < 0.63 ? "#000, " : "#fff, "}${weight < 0.54 ? "#fff" : "#000"})`;
}

/**
 * Probabilities as bars, so many rows: `show([{name, p, chosen, press}, ...])`. Rows with `press` can be chosen; what
 * is shown never moves a row, so that what lies under the pointer stays what it was.
 */
function probabilityBars(count) {
  const rows = Array.from({ length: count }, () => {
    const row = { name: element("span", { class: "tfm-bar-name" }), bar: element("span", { class: "tfm-bar-fill" }) };
    row.number = element("span", { class: "tfm-bar-number" });
    const track = element("span", { class: "tfm-bar-track" }, row.bar);
    row.made = element("button", { type: "button", class: "tfm-bar", onclick: () => row.press?.() });
    row.made.append(row.name, track, row.number);
    return row;
  });
  const made = element("div", { class: "tfm-bars" }, ...rows.map((row) => row.made));
  made.show = (shown) => rows.forEach((row, place) => {
    const { name = "", p = 0, chosen = false, press = null } = shown[place] ?? {};
    row.press = press;
    set(row.name, { text: name });
    set(row.bar, { style: `width: ${100 * p}%` });
    set(row.number, { text: name ? percent(p) : "" });
    set(row.made, { disabled: !press, "data-chosen": chosen, "aria-label": name ? `${name}: ${percent(p)}` : null });
    set(row.made, { "aria-pressed": press ? String(chosen) : null });
  });
  return made;
}

/**
 * Rows of cells under headings, so many at most; what stands under "text" may wrap, and is text or a list of text and
 * elements. `show([[cell, ...], ...], places, strong)` leaves the other places empty, so that nothing below jumps;
 * `strong(row)`: whether a row stands out.
 */
function rowsOfText(headings, count) {
  const rows = Array.from({ length: count }, () => {
    const cells = headings.map((heading) => element("td", { class: heading === "text" ? "tfm-text" : null }));
    return { cells, made: element("tr", {}, ...cells) };
  });
  const head = element("tr", {}, ...headings.map((heading) => element("th", { scope: "col" }, heading)));
  const body = element("tbody", {}, ...rows.map((row) => row.made));
  const made = element("table", { class: "tfm-rows" }, element("thead", {}, head), body);
  const show = (shown, places = shown.length, strong = () => false) => rows.forEach((row, n) => {
    row.cells.forEach((cell, i) => {
      const content = shown[n]?.[i] ?? "";
      if (Array.isArray(content)) cell.replaceChildren(...content);
      else set(cell, { text: content });
    });
    set(row.made, { hidden: n >= places, "data-strong": n < shown.length && strong(n) ? "true" : null });
  });
  return { made, show };
}

// ---- Where a control runs ----

/** What anywidget loads: the control that the widget names, in a cell of a notebook. */
function inNotebook(controls) {
  return {
    render({ model, el }) {
      // What JupyterLab does with arrow keys and Enter would keep them from native knobs.
      const root = element("div", { class: "tfm-control", onkeydown: (event) => event.stopPropagation() });
      el.append(root);
      const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      const checkpoint = (name) => loadCheckpoint(bytes(model.get("weights")[name]));
      const names = model.get("later") ? [] : Object.keys(model.get("weights"));
      const shipped = Object.fromEntries(names.map((name) => [name, checkpoint(name)]));
      const load = async (name) => checkpoint(name);
      const write = (answers) => {
        model.set("answers", answers);
        model.save_changes();
      };
      const keep = { read: () => model.get("answers"), write };
      const take = controls[model.get("name")](root, { ...model.get("data"), shipped, load }, keep);
      if (!take) return null;
      const hear = () => take(model.get("data"));
      model.on("change:data", hear);
      return () => model.off("change:data", hear); // when the output is cleared
    },
  };
}

/**
 * The control that a page holds: <div class="tfm-control" data-name="..."> around its data in JSON. weights: from a
 * name to the promise of its checkpoint.
 */
async function onPage(controls, root, weights) {
  const { name, data, weights: names, later } = JSON.parse(root.querySelector("script").textContent);
  const place = `tfm:${name}:${data.name}`;
  const quietly = (act) => { // a browser may keep nothing
    try {
      return act();
    } catch {
      return null;
    }
  };
  const keep = {
    read: () => quietly(() => JSON.parse(localStorage.getItem(place))),
    write: (kept) => quietly(() => localStorage.setItem(place, JSON.stringify(kept))),
  };
  const wanted = later ? [] : names, loaded = await Promise.all(wanted.map((one) => weights(one)));
  const shipped = Object.fromEntries(wanted.map((one, i) => [one, loaded[i]]));
  controls[name](root, { ...data, shipped, load: weights }, keep);
}

/** What makes a link lead to a lesson: on a page to its page, in a notebook to the file beside it. */
function leadingTo(lesson) {
  const top = document.documentElement.dataset.content_root; // of pages
  const href = top === undefined ? `${lesson}.ipynb` : `${top}notebooks/${lesson}.html`;
  return { href, target: top === undefined ? "_blank" : null, onclick: besideNotebook };
}

/** Leads the link of an event to the notebook's folder: JupyterLab's own address is another one after a reload. */
function besideNotebook({ currentTarget: link }) {
  const config = document.getElementById("jupyter-config-data"), panel = link.closest(".jp-NotebookPanel");
  const tab = panel && document.querySelector(`.lm-TabBar-tab[data-id="${panel.id}"]`);
  const path = /^Path: (.*)$/m.exec(tab?.title ?? "")?.[1], file = link.getAttribute("href").split("/").at(-1);
  if (!config || !path) return;
  const base = JSON.parse(config.textContent).baseUrl, folder = path.split("/").slice(0, -1).map(encodeURIComponent);
  set(link, { href: [`${base}lab/tree`, ...folder, file].join("/") });
}
