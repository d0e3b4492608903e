// An exercise that asks for one number is answered on its page, and judged as `check` judges it in a notebook.
const PLAIN = /^[\d\s.e+\-*/()]+$/i;
const THOUSANDS = /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/;

// A number or a calculation, such as 3 * 64 ** 2; with commas between thousands, or one for the decimal point.
function numberOf(text) {
  const plain = THOUSANDS.test(text.trim()) ? text.replaceAll(",", "") : text.replace(",", ".");
  try {
    return PLAIN.test(plain) ? Function(`"use strict"; return (${plain})`)() : NaN;
  } catch {
    return NaN;
  }
}

// The first of the known numbers, the right one or that of a mistake, that is near enough; zero has no size of its own.
function judged(text, known) {
  const came = numberOf(text);
  if (!Number.isFinite(came)) return ["✗", "A number is wanted, or a calculation such as 3 * 64 or 2 ** 10."];
  const place = known.findIndex(([value, tolerance]) => {
    const size = Math.abs(value) < 1e-12 ? 1 : Math.max(Math.abs(value), Math.abs(came));
    return Math.abs(came - value) <= tolerance * size;
  });
  return [place ? "✗" : "✓", known[place]?.[2] ?? "The number differs."];
}

for (const form of document.querySelectorAll("form.answer")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [sign, words] = judged(form.querySelector("input").value, JSON.parse(form.dataset.known));
    const output = form.querySelector("output");
    output.textContent = `${sign} ${words}`;
    output.className = sign === "✓" ? "right" : "wrong";
  });
}
