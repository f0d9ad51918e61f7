// Colours of sources, builders and causes of dead time. A colour follows from the id alone, so it is the same in every
// chart, table and browser, and after every reload.

/// Number of the colours `--p0`, `--p1`, … in page.css. It is a prime, so ids in steps of 10 or 16 differ in colour too.
const PEERS = 11;

const place = (id) => (id + PEERS - 1) % PEERS;

export const ofSource = (id) => `p${place(id)}`;

/// Builders count from the last colour, so that the first sources and the first builders differ.
export const ofBuilder = (id) => `p${PEERS - 1 - place(id)}`;

/// Causes that are neither a source nor a builder.
const OTHERS = new Map([
  ["paused", "grey"],
  ["builders are busy", "muted"],
  ["no source is up", "red"],
  ["no readout", "orange"],
  ["no builder is up", "purple"],
  ["the supervisor waits for the disk of its journal", "green"],
  ["the supervisor was restarted", "sky"],
]);

function parse(cause) {
  const [, kind, id] = /^(source|sink of builder) (\d+)/.exec(cause) ?? [];
  return { kind, id: Number(id) };
}

export function ofCause(cause) {
  const { kind, id } = parse(cause);
  return kind === "source" ? ofSource(id) : kind ? ofBuilder(id) : OTHERS.get(cause) ?? "line";
}

/// The order of causes in the chart: sources and then builders by id, then the others.
function rank(cause) {
  const { kind, id } = parse(cause);
  return kind === "source" ? id : kind ? 1e6 + id : 2e6 + [...OTHERS.keys()].indexOf(cause);
}

export const inOrder = (a, b) => rank(a) - rank(b);
