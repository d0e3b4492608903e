// Search finds sections: the index knows them as page#section. The best of them are shown.
const MOST = 30;
const inPages = Search.performTermsSearch;

Search.performTermsSearch = (...terms) => {
  const found = inPages(...terms).sort((a, b) => b[4] - a[4]).slice(0, MOST);
  return found.map(([name, title, , ...rest]) => {
    const [page, section] = name.split("#");
    return [page, title, `#${section}`, ...rest];
  });
};

Documentation.addTranslations({
  locale: "en",
  plural_expr: "n == 1 ? 0 : 1",
  messages: {
    "Search finished, found one page matching the search query.": ["In one section:", "In ${resultCount} sections:"],
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "In no section, neither as a word nor as a part of one. Fewer words find more.",
  },
});
