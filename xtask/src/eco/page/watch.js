window.watched = { violations: [], shifts: [] };
document.addEventListener("securitypolicyviolation", (event) => {
  window.watched.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
// The end of a bar, and a unit beside its number, go with the number that has changed.
const moves = (node) => !node || (node.closest ? node : node.parentElement)?.closest(".gauge, #bar, .unit, .value");
const place = (node) => `${node.nodeName} in ${node.parentElement?.id || node.parentElement?.className}: ${node.textContent.slice(0, 30)}`;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map((source) => source.node).filter((node) => !moves(node));
    if (moved.length) window.watched.shifts.push([entry.value, moved.map(place).join(" | ")]);
  }
}).observe({ type: "layout-shift" });
