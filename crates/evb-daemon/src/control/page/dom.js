// The document: what has not changed is not touched. Text of the server only ever goes in as text.

export const $ = (selector) => document.querySelector(selector);

export function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

export function text(node, value) {
  const string = String(value);
  if (node.textContent !== string) node.textContent = string;
}

export function name(node, className) {
  if (node.className !== className) node.className = className;
}

/// With a colour of page.css, by its name.
export function paint(node, name) {
  if (node.painted === name) return;
  node.style.background = `var(--${name})`;
  node.painted = name;
}

/// Of a part in a bar. What is there at all can be seen.
export function width(node, share) {
  const percent = `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(3)}%`;
  if (node.share === percent) return;
  node.style.width = node.share = percent;
  node.style.minWidth = share > 0 ? "2px" : "";
}

/// One row for each item, by its key; rows move only if their order has changed.
export function rows(body, items, keyOf, create, fill) {
  const known = body.known ??= new Map();
  const wanted = new Set(items.map(keyOf));
  for (const [key, row] of known) {
    if (!wanted.has(key)) {
      row.remove();
      known.delete(key);
    }
  }
  let place = body.firstElementChild;
  for (const item of items) {
    let row = known.get(keyOf(item));
    if (!row) known.set(keyOf(item), row = create());
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
    fill(row, item);
  }
}

/// A row with a cell for each head of the table, with the head's class and words. A narrow screen shows these words.
export function cells(table) {
  const heads = [...table.querySelectorAll("th")];
  return () => make("tr", "", ...heads.map((head) => {
    const cell = make("td", head.className);
    cell.dataset.head = head.textContent;
    return cell;
  }));
}

/// A bar of so many parts, with a number beside it.
export function gauge(cell, ...parts) {
  cell.append(make("div", "with", make("div", "gauge", ...parts.map((part) => make("i", part))), make("span")));
}
