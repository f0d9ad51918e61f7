window.watched = { violations: [], shifts: [] };
document.addEventListener("securitypolicyviolation", (event) => {
  window.watched.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map((source) => source.node?.id || source.node?.className || source.node?.nodeName);
    window.watched.shifts.push([entry.value, moved.join(" ")]);
  }
}).observe({ type: "layout-shift" });
