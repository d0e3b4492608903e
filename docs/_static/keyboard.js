// Code, tables, formulas and pictures that are wider than the page scroll; with this they do so by keyboard, too, and
// fade where they go on.
const WIDE = "article pre, article div.math, article .table-wrapper, article :is(p, .image-reference):has(> img)";

function fade(box) {
  box.toggleAttribute("data-more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
}

function reachable() {
  for (const box of document.querySelectorAll(WIDE)) {
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
    fade(box);
  }
}

addEventListener("load", reachable);
addEventListener("resize", reachable);
addEventListener("toggle", reachable, true); // what was folded had no width
addEventListener("scroll", ({ target }) => target.matches?.(WIDE) && fade(target), true);

// On a phone a picture is swiped, and must not lead away from the lesson.
addEventListener("click", (event) => {
  if (event.target.closest?.(".image-reference") && matchMedia("(max-width: 46em)").matches) event.preventDefault();
});
