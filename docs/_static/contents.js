// On a phone the contents of a page lie over it. Who has chosen a section wants to see it.
addEventListener("click", ({ target }) => {
  if (target.closest?.(".toc-drawer a")) document.getElementById("__toc").checked = false;
});
