// Code, tables, formulas and pictures that are wider than the page scroll; with this they do so by keyboard, too.
const WIDE = "article pre, article div.math, article .table-wrapper, article p:has(img)";

function reachable() {
  for (const box of document.querySelectorAll(WIDE)) {
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}

addEventListener("load", reachable);
addEventListener("resize", reachable);
addEventListener("toggle", reachable, true); // what was folded had no width
