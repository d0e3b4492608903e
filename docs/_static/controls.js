// The controls of a page come to life, those that read a model when they come near, or are touched. The models are
// files of about 1 MB.
document.documentElement.dataset.live = ""; // quizzes can be answered
const FOLDER = document.currentScript.src; // weights lie beside this script
const loading = {}, hearers = new Set(); // promises by name; who is told how many bytes of which have come

/**
 * The checkpoint of that name, once for all controls of the page; if it did not come, the next touch tries again.
 * `hear(name, bytes)` is told how much is there, by whomever it was asked for.
 */
function weightsOf(name, hear = null) {
  if (hear) hearers.add(hear);
  loading[name] ??= bytesOf(name).then(tfm.loadCheckpoint);
  loading[name].catch(() => delete loading[name]);
  return loading[name];
}

/** From a host the file itself; a page in a folder can read nothing but scripts. */
async function bytesOf(name) {
  if (location.protocol === "file:") return bytesOfScript(name);
  const answer = await fetch(new URL(`${name}.bin`, FOLDER));
  if (!answer.ok) throw new Error(`${answer.url} answers ${answer.status}`);
  const pieces = [], reader = answer.body.getReader();
  let count = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    pieces.push(next.value);
    count += next.value.length;
    hearers.forEach((hear) => hear(name, count));
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

function bytesOfScript(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(`${name}.js`, FOLDER);
    script.onload = () => resolve(tfm.fromBase64(globalThis[name]));
    script.onerror = () => reject(new Error(`${script.src} cannot be read`));
    document.head.append(script);
  });
}

document.addEventListener("DOMContentLoaded", () => {
  const roots = [...document.querySelectorAll(".tfm-control")];
  const ahead = roots.flatMap((root) => {
    const { data } = JSON.parse(root.querySelector("script").textContent);
    return Object.keys(data.size ?? {}).slice(0, 1); // the first model of a control that says how large it is
  });
  const near = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      near.unobserve(target);
      tfm.onPage(tfm, target, weightsOf);
    }
  }, { rootMargin: "200px" });
  roots.forEach((root) => near.observe(root));
  addEventListener("load", () => {
    if (navigator.connection?.saveData) return; // a reader who saves data waits after the first touch
    const idle = globalThis.requestIdleCallback ?? setTimeout;
    idle(() => ahead.forEach((name) => weightsOf(name).catch(() => null)));
  });
});
