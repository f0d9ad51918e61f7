// The last minutes, of one to sixty. Axes of values go in steps of 1, 2, 5, so that they stand still while the numbers move.

import { $, make, paint, text } from "./dom.js";
import { inOrder, ofCause } from "./colours.js";
import { clock, count, microseconds, percent, scaled, short } from "./format.js";
import { isUnderWay } from "./run.js";

/// As much as evbd keeps, s.
const KEPT = 3600;
/// The shortest span that is drawn, s.
const SHORTEST = 30;
const KEY = "evb-minutes";
/// Samples are a second apart; where more is missing, lines are broken.
const GAP = 2.5;
const HEIGHT = 150;
/// Causes of dead time with a layer of their own; the rest shares the last one.
const CAUSES = 5;

const styles = getComputedStyle(document.documentElement);
const colour = (name) => () => styles.getPropertyValue(`--${name}`);

let samples = [];
/// The part of the samples that is drawn, and the time that it spans.
let shown = [];
let scale = [0, SHORTEST];
/// The causes that have a layer, from below.
let causes = [];
const charts = [];

const buttons = [...document.querySelectorAll("[data-minutes]")];
const minutesOf = (button) => Number(button.dataset.minutes);

let minutes = 10;
try {
  const kept = Number(localStorage.getItem(KEY));
  if (buttons.some((button) => minutesOf(button) === kept)) minutes = kept;
} catch {
  // Storage is off: the choice lives as long as the page.
}

/// The span that was chosen, s.
export const span = () => 60 * minutes;

function choose(value) {
  minutes = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
  draw();
}

export function add(more) {
  for (const sample of more) {
    const at = sample.at_unix_ms / 1000;
    const last = samples.at(-1);
    // A clock that was set back would make the axis run backwards.
    if (last && at <= last.at) samples = samples.filter((old) => old.at < at);
    else if (last && at - last.at > GAP) samples.push({ at: last.at + 1 });
    samples.push({ ...sample, at });
  }
  const newest = samples.at(-1)?.at;
  while (samples.length && samples[0].at < newest - KEPT) samples.shift();
}

export const latest = () => samples.at(-1);

/// The chosen span, or less of it if the first run began later: idle time before that tells nothing.
function select() {
  const to = latest()?.at ?? Date.now() / 1000;
  const inSpan = samples.filter((sample) => sample.at >= to - span());
  const first = inSpan.find(isUnderWay) ?? inSpan[0];
  scale = [Math.min(first?.at ?? to, to - SHORTEST), to];
  shown = samples.filter((sample) => sample.at >= scale[0] - GAP);
}

/// The largest causes of what is drawn.
function assign() {
  const sums = new Map();
  for (const sample of shown) {
    for (const { cause, fraction } of sample.dead_time ?? []) sums.set(cause, (sums.get(cause) ?? 0) + fraction);
  }
  const largest = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || inOrder(a, b));
  causes = largest.slice(0, CAUSES).sort(inOrder);
}

function layers(sample) {
  const parts = Array(CAUSES + 1).fill(0);
  if (sample.state === undefined) return parts.fill(null);
  for (const { cause, fraction } of sample.dead_time ?? []) {
    const place = causes.indexOf(cause);
    parts[place < 0 ? CAUSES : place] += fraction;
  }
  return parts;
}

const nameOf = (place) => (place === CAUSES ? "other" : causes[place]);
const column = (pick) => () => shown.map((sample) => pick(sample) ?? null);
const bits = (value) => (value === null ? "–" : `${scaled(value).join(" ")}bit/s`);

/// The sums of the layers from below: drawn from the highest to the lowest, each covers what is not its own.
function stacked(place) {
  return () => shown.map((sample) => layers(sample).slice(0, place + 1).reduce((sum, part) => (part === null ? null : sum + part), 0));
}

const LINES = [
  {
    id: "chart-rates", title: "per second", axis: short, least: 10,
    series: [
      { label: "triggers", key: "orange", width: 3, pick: column((s) => s.triggers_per_s), show: count },
      { label: "events built", key: "blue", width: 1.25, pick: column((s) => s.events_per_s), show: count },
    ],
  },
  {
    id: "chart-throughput", title: "payload to the sinks", axis: short, least: 1e6,
    series: [{ label: "bit/s", key: "blue", width: 1.5, fill: true, pick: column((s) => s.bytes_per_s === undefined ? null : s.bytes_per_s * 8), show: bits }],
  },
  {
    id: "chart-dead", title: "dead time by cause", axis: (v) => `${short(100 * v)} %`, least: 0.01, most: 1,
    series: Array.from({ length: CAUSES + 1 }, (_, i) => CAUSES - i).map((place) => ({
      place, width: 1, fill: true, pick: stacked(place),
      own: () => shown.map((sample) => layers(sample)[place]), show: (v) => (v === null ? "–" : percent(v)),
    })),
  },
  {
    id: "chart-latency", title: "from trigger to built", axis: (v) => microseconds(v).replace(/\.0+ /, " "), log: true,
    series: [
      { label: "99 % below", key: "orange", width: 1.5, pick: column((s) => s.p99_us), show: microseconds },
      { label: "median", key: "blue", width: 1.5, pick: column((s) => s.p50_us), show: microseconds },
    ],
  },
];

/// The next of 1, 2, 5, 10, …
function step(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((factor) => factor * power >= value * 0.9999) * power;
}

function range(line) {
  if (line.log) {
    return (u, low, high) => {
      const ok = low > 0 && high > 0;
      const from = ok ? 10 ** Math.floor(Math.log10(low)) : 100;
      return [from, Math.max(ok ? 10 ** Math.ceil(Math.log10(high)) : 10000, from * 10)];
    };
  }
  return (u, low, high) => [0, Math.min(step(Math.max(high ?? 0, line.least) * 1.02), line.most ?? Infinity)];
}

/// Nothing, half and all; of a logarithmic axis the powers of ten.
function splits(line) {
  return (u, _, low, high) => {
    if (!line.log) return [0, high / 2, high];
    const powers = [];
    for (let power = low; power <= high * 1.001; power *= 10) powers.push(power);
    return powers;
  };
}

function legend(line, figure) {
  const caption = figure.querySelector("figcaption");
  caption.append(make("b", "", line.title));
  const ordered = line.id === "chart-dead" ? [...line.series].reverse() : line.series;
  for (const series of ordered) {
    series.value = make("span", "value", "–");
    series.name = make("span", "", series.label ?? "");
    series.swatch = make("i");
    paint(series.swatch, series.key);
    series.entry = make("span", "", series.swatch, series.name, " ", series.value);
    caption.append(series.entry);
  }
}

/// The values under the pointer, or the latest ones.
function tell(chart) {
  const { line, plot, figure } = chart;
  const at = plot.cursor.idx ?? shown.length - 1;
  for (const series of line.series) {
    if (series.place !== undefined) {
      const cause = nameOf(series.place);
      const others = series.place === CAUSES && series.own().some((part) => part > 1e-9);
      series.entry.hidden = series.place === CAUSES ? !others : cause === undefined;
      text(series.name, cause ?? "");
      paint(series.swatch, ofCause(cause ?? ""));
    }
    const values = series.own ? series.own() : chart.data[1 + line.series.indexOf(series)];
    text(series.value, series.show(values[at] ?? null));
  }
  figure.dataset.latest = JSON.stringify(line.series.map((series, i) => chart.data[1 + i].at(-1) ?? null));
}

function create(line) {
  const figure = $(`#${line.id}`);
  legend(line, figure);
  const ink = colour("muted");
  const grid = { stroke: colour("line"), width: 1 };
  const font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: ink, grid, font, ticks: { show: false } };
  const chart = { line, figure, data: [[], ...line.series.map(() => [])] };
  const times = (u, splits, _, __, step) => splits.map((at) => clock(new Date(at * 1000)).slice(0, step < 60 ? 8 : 5));
  chart.plot = new uPlot({
    width: Math.max(figure.clientWidth - 24, 100), height: HEIGHT,
    padding: [10, 28, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "evb" }, points: { show: line.id !== "chart-dead", size: 6 } },
    scales: {
      x: { time: true, range: () => scale },
      y: { distr: line.log ? 3 : 1, range: range(line) },
    },
    axes: [
      { ...axis, size: 26, space: 70, incrs: [5, 10, 15, 30, 60, 120, 300, 600, 900], values: times },
      { ...axis, size: 58, splits: splits(line), filter: (u, at) => at, values: (u, at) => at.map(line.axis) },
    ],
    series: [{}, ...line.series.map((series) => ({
      // The upper edge of a layer parts it from the next one.
      stroke: colour(series.key ?? "card"), width: series.width, points: { show: false }, spanGaps: false,
      ...(series.fill ? { fill: () => (series.key ? `${colour(series.key)()}40` : colour(ofCause(nameOf(series.place) ?? ""))()) } : {}),
    }))],
    hooks: { setCursor: [() => chart.plot && tell(chart)] },
  }, chart.data, figure);
  new ResizeObserver(() => {
    const width = figure.clientWidth - 24;
    if (width > 0 && width !== chart.plot.width) chart.plot.setSize({ width, height: HEIGHT });
  }).observe(figure);
  charts.push(chart);
}

export function draw() {
  if (!charts.length) LINES.forEach(create);
  for (const button of buttons) button.setAttribute("aria-pressed", minutesOf(button) === minutes);
  select();
  assign();
  for (const chart of charts) {
    chart.data = [shown.map((sample) => sample.at), ...chart.line.series.map((series) => series.pick())];
    chart.plot.setData(chart.data);
    tell(chart);
  }
}

for (const button of buttons) button.addEventListener("click", () => choose(minutesOf(button)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot.redraw()));
