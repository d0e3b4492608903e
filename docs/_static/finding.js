// Search finds sections: the index knows them as page#section. The best of them are shown, with how they begin.
const MOST = 30;
const inPages = Search.performTermsSearch;
const ONE = "Search finished, found one page matching the search query.";
const NONE = "Your search did not match any documents. Please make sure that all words are spelled correctly and that " +
  "you've selected enough categories.";
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // which fetches whole pages

Search.performTermsSearch = (words, ...rest) => {
  const found = inPages(words, ...rest).sort((a, b) => b[4] - a[4]);
  const many = found.length > MOST ? `In ${found.length} sections, of which these fit best:` : "In ${resultCount} sections:";
  const asked = new URLSearchParams(location.search).get("q");
  const more = [...words].length > 1 ? "Fewer words find more." : "Is it spelled so, or has it another name?";
  const none = `No section contains “${asked}”, neither as a word nor as a part of one. ${more}`;
  Documentation.addTranslations({
    locale: "en", plural_expr: "n == 1 ? 0 : 1", messages: { [ONE]: ["In one section:", many], [NONE]: none },
  });
  return found.slice(0, MOST).map(([name, title, , ...others]) => {
    const [page, section] = name.split("#");
    return [page, title, `#${section}`, ...others];
  });
};

/** Under a section that was found stands how it begins. */
function begin(item) {
  const link = item.querySelector("a"), [page, section] = link.getAttribute("href").split("#");
  const name = `${page === "index.html" ? "docs/index" : page.replace(/\.html$/, "")}#${section}`;
  const said = document.createElement("p");
  said.className = "context";
  said.textContent = BEGINNINGS[name] ?? "";
  item.append(said);
}

new MutationObserver((changes) => {
  const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
  added.filter((node) => node.matches?.("#search-results li")).forEach(begin);
}).observe(document.documentElement, { childList: true, subtree: true });
