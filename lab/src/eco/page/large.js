// From now on the page is told of 256 sources and 64 builders.
const real = window.fetch;
const copies = (peer, count) => Array.from({ length: count }, (_, i) => ({ ...peer, id: i + 1, last: 7919 * i % 256 }));
let told = 0, shown = 0;
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  if (path !== "/v1/status") return answer;
  const status = await answer.json();
  status.survey.sources = copies(status.survey.sources[0], 256);
  status.survey.builders = copies(status.survey.builders[0], 64);
  const body = JSON.stringify(status);
  told ||= performance.now();
  return new Response(body, { status: 200 });
};
new MutationObserver((_, observer) => {
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { shown = performance.now(); }));
}).observe(document.querySelector("#sources .note"), { childList: true, characterData: true, subtree: true });
window.large = async () => {
  while (!shown) await new Promise((done) => setTimeout(done, 10));
  // The best of three: the machine has other things to do.
  let best = Infinity, rows = 0;
  for (let i = 0; i < 6; i++) {
    const began = performance.now();
    for (const button of document.querySelectorAll("#peers h2 button")) button.click();
    document.body.getBoundingClientRect();
    const now = document.querySelectorAll("#peers tbody tr").length;
    if (now > 20) [best, rows] = [Math.min(best, performance.now() - began), now];
  }
  return [shown - told, best, rows];
};
