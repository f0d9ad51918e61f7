window.watched = { violations: [], shifts: [] };
document.addEventListener("securitypolicyviolation", (event) => {
  window.watched.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
// What goes with a number that has changed: the end of a bar, a unit, the words after it, a row of another rank.
const moves = (node) => !node || (node.closest ? node : node.parentElement)?.closest(".gauge, #bar, .unit, .value, #problems p, tbody");
const place = (node) => `${node.nodeName} in ${node.parentElement?.id || node.parentElement?.className}: ${node.textContent.slice(0, 30)}`;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map((source) => source.node).filter((node) => !moves(node));
    if (moved.length) window.watched.shifts.push([entry.value, moved.map(place).join(" | ")]);
  }
}).observe({ type: "layout-shift" });
