// Chromium leaves room behind a root for the widest of its signs. With this the line goes on where the root ends.
function tighten() {
  for (const root of document.querySelectorAll("msqrt")) {
    const room = root.getBoundingClientRect().right - root.lastElementChild.getBoundingClientRect().right;
    if (room > 0) root.style.marginInlineEnd = `${-room / parseFloat(getComputedStyle(root).fontSize)}em`;
  }
}

addEventListener("load", () => document.fonts.ready.then(tighten));
addEventListener("toggle", tighten, true); // what was folded had no width
