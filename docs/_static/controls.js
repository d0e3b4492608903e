// The controls of a page come to life, those that read a model when they come near, or are touched: its weights
// are a script of 2.7 MB.
document.documentElement.dataset.live = ""; // quizzes can be answered
const FOLDER = document.currentScript.src; // weights lie beside this script
const loading = {};

/** The checkpoint of that name: fetched as a script, since a page in a folder can fetch nothing else. */
function weightsOf(name) {
  return (loading[name] ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(`${name}.js`, FOLDER);
    script.onload = () => resolve(tfm.loadCheckpoint(tfm.fromBase64(globalThis[name])));
    script.onerror = () => {
      delete loading[name]; // the next touch tries again
      reject(new Error(`${script.src} cannot be read`));
    };
    document.head.append(script);
  }));
}

document.addEventListener("DOMContentLoaded", () => {
  const near = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      near.unobserve(target);
      tfm.onPage(tfm, target, weightsOf);
    }
  }, { rootMargin: "200px" });
  document.querySelectorAll(".tfm-control").forEach((root) => near.observe(root));
});
