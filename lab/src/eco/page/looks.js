const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = channels(getComputedStyle(node).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const families = new Set(), sizes = new Set();
let worst = { contrast: Infinity };
for (const node of document.querySelectorAll("body *")) {
  const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  if (!hasText || !node.checkVisibility() || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  families.add(style.fontFamily);
  sizes.add(style.fontSize);
  const [a, b] = [luminance(channels(style.color)), luminance(behind(node))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < worst.contrast) worst = { contrast, where: `${node.id || node.className || node.tagName}: ${node.textContent.slice(0, 30)}` };
}
const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
// What is cut off, and the smallest distance between the texts of two cells side by side.
const parts = "#builders, #sources, #runs, #charts figure, #control, #ledger dd, .huge, td, th";
const cut = [...document.querySelectorAll(parts)].filter((node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1);
const rectangles = (cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return [...range.getClientRects()].filter((rectangle) => rectangle.width);
};
let gap = Infinity;
for (const row of document.querySelectorAll("tr, #sums")) {
  const cells = [...row.querySelectorAll("td, th, dt, dd")].filter((cell) => cell.checkVisibility()).map(rectangles);
  for (const [i, cell] of cells.entries()) {
    for (const a of cell) for (const b of cells.slice(i + 1).flat()) {
      const isBeside = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
      if (isBeside) gap = Math.min(gap, Math.max(a.left, b.left) - Math.min(a.right, b.right));
    }
  }
}
const cutOff = cut.map((node) => `${node.id || node.tagName}: ${node.textContent.slice(0, 30)}`);
return { ...worst, families: families.size, sizes: sizes.size, over, gap, cut: cutOff };
