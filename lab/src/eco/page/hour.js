// From now on the page is told of an hour in which three causes took their turn: one until 30 minutes ago, one for a
// minute 5 minutes ago, one in the last 30 s.
const real = window.fetch;
const [latest, earlier, first] = arguments;
const LAST = 4000;
const causeOf = (ago) => (ago < 30 ? latest : ago >= 300 && ago < 360 ? earlier : ago >= 1800 ? first : null);
const began = Date.now();
function sample(n) {
  const ago = LAST - n, cause = causeOf(ago);
  return {
    n, at_unix_ms: began - 1000 * ago, run: 1, state: "Running", triggers_per_s: 1000, events_per_s: 500, bytes_per_s: 1e6,
    dead_time: cause ? [{ cause, fraction: 0.5 }] : [], outstanding: 1, p50_us: 100, p99_us: 1000,
  };
}
window.fetch = async (path, options) => {
  if (!path.startsWith("/v1/history")) return real(path, options);
  const after = Number(path.split("=")[1]);
  const samples = Array.from({ length: Math.max(LAST - after, 0) }, (_, i) => sample(after + 1 + i));
  return new Response(JSON.stringify({ next: LAST, samples }), { status: 200 });
};
// What the legend of dead time names, with the colours of its swatches.
const background = (node) => node && getComputedStyle(node).backgroundColor;
window.legend = () => {
  const entries = [...document.querySelectorAll("#chart-dead figcaption > span")].filter((entry) => !entry.hidden);
  return Object.fromEntries(entries.map((entry) => [entry.children[1].textContent, background(entry.firstChild)]));
};
// The colour of a source or builder in its table.
window.swatch = (section, id) => {
  const cell = [...document.querySelectorAll(`#${section} tbody td:first-child`)].find((cell) => cell.textContent === id);
  return background(cell?.querySelector("i"));
};
window.drawn = () => {
  const canvas = document.querySelector("#chart-dead canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(`rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`);
  return Object.values(legend()).filter((colour) => seen.has(colour)).length;
};
