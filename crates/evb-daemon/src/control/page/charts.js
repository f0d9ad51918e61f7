// Ten minutes of history. Axes go in steps of 1, 2, 5, so that they stand still while the numbers move.

import { $, make, text } from "./dom.js";
import { clock, count, microseconds, percent, scaled, short } from "./format.js";

const WINDOW = 600;
/// Samples are a second apart; where more is missing, lines are broken.
const GAP = 2.5;
const HEIGHT = 150;
/// Causes of dead time with a colour of their own; the rest shares the last one.
const CAUSES = 5;

const styles = getComputedStyle(document.documentElement);
const colour = (name) => () => styles.getPropertyValue(`--${name}`);
const COLOURS = ["red", "blue", "orange", "purple", "green", "grey"];

let samples = [];
const slots = Array(CAUSES).fill(null);
const charts = [];

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
  while (samples.length && samples[0].at < newest - WINDOW) samples.shift();
}

export const latest = () => samples.at(-1);

/// The largest causes of the window; each keeps its colour for as long as it is one of them.
function assign() {
  const sums = new Map();
  for (const sample of samples) {
    for (const { cause, fraction } of sample.dead_time ?? []) sums.set(cause, (sums.get(cause) ?? 0) + fraction);
  }
  const largest = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)).slice(0, CAUSES);
  slots.forEach((cause, place) => largest.includes(cause) || (slots[place] = null));
  for (const cause of largest) if (!slots.includes(cause)) slots[slots.indexOf(null)] = cause;
}

function layers(sample) {
  const parts = Array(CAUSES + 1).fill(0);
  if (sample.state === undefined) return parts.fill(null);
  for (const { cause, fraction } of sample.dead_time ?? []) {
    const place = slots.indexOf(cause);
    parts[place < 0 ? CAUSES : place] += fraction;
  }
  return parts;
}

const column = (pick) => () => samples.map((sample) => pick(sample) ?? null);
const bits = (value) => (value === null ? "–" : `${scaled(value).join(" ")}bit/s`);

/// The sums of the layers from below: drawn from the highest to the lowest, each covers what is not its own.
function stacked(place) {
  return () => samples.map((sample) => layers(sample).slice(0, place + 1).reduce((sum, part) => (part === null ? null : sum + part), 0));
}

const LINES = [
  {
    id: "chart-rates", title: "per second", axis: short, least: 10,
    series: [
      { label: "triggers", key: "c2", colour: colour("orange"), width: 3, pick: column((s) => s.triggers_per_s), show: count },
      { label: "events built", key: "c1", colour: colour("blue"), width: 1.25, pick: column((s) => s.events_per_s), show: count },
    ],
  },
  {
    id: "chart-throughput", title: "payload to the sinks", axis: short, least: 1e6,
    series: [{ label: "bit/s", key: "c1", colour: colour("blue"), width: 1.5, fill: true, pick: column((s) => s.bytes_per_s === undefined ? null : s.bytes_per_s * 8), show: bits }],
  },
  {
    id: "chart-dead", title: "dead time by cause", axis: (v) => `${short(100 * v)} %`, least: 0.01, most: 1,
    series: Array.from({ length: CAUSES + 1 }, (_, i) => CAUSES - i).map((place) => ({
      place, key: `c${place}`, colour: colour(COLOURS[place]), width: 0, fill: true, opaque: true, pick: stacked(place),
      own: () => samples.map((sample) => layers(sample)[place]), show: (v) => (v === null ? "–" : percent(v)),
    })),
  },
  {
    id: "chart-latency", title: "from trigger to built", axis: (v) => microseconds(v).replace(/\.0+ /, " "), log: true,
    series: [
      { label: "99 % below", key: "c2", colour: colour("orange"), width: 1.5, pick: column((s) => s.p99_us), show: microseconds },
      { label: "median", key: "c1", colour: colour("blue"), width: 1.5, pick: column((s) => s.p50_us), show: microseconds },
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
    series.entry = make("span", "", make("i", series.key), series.name, " ", series.value);
    caption.append(series.entry);
  }
}

/// The values under the pointer, or the latest ones.
function tell(chart) {
  const { line, plot, figure } = chart;
  const at = plot.cursor.idx ?? samples.length - 1;
  for (const series of line.series) {
    if (series.place !== undefined) {
      const cause = series.place === CAUSES ? "other" : slots[series.place];
      const others = series.place === CAUSES && chart.data[1 + line.series.indexOf(series)].some((v, i) => v - (chart.data[2]?.[i] ?? 0) > 1e-9);
      series.entry.hidden = series.place === CAUSES ? !others : cause === null;
      text(series.name, cause ?? "");
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
  const hhmm = (u, splits) => splits.map((at) => clock(new Date(at * 1000)).slice(0, 5));
  chart.plot = new uPlot({
    width: Math.max(figure.clientWidth - 24, 100), height: HEIGHT,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "evb" }, points: { show: line.id !== "chart-dead", size: 6 } },
    scales: {
      x: { time: true, range: () => { const to = latest()?.at ?? Date.now() / 1000; return [to - WINDOW, to]; } },
      y: { distr: line.log ? 3 : 1, range: range(line) },
    },
    axes: [
      { ...axis, size: 26, space: 70, incrs: [60, 120, 300], values: hhmm },
      { ...axis, size: 58, splits: splits(line), filter: (u, at) => at, values: (u, at) => at.map(line.axis) },
    ],
    series: [{}, ...line.series.map((series) => ({
      stroke: series.colour, width: series.width, points: { show: false }, spanGaps: false,
      ...(series.fill ? { fill: () => (series.opaque ? series.colour() : `${series.colour()}40`) } : {}),
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
  assign();
  for (const chart of charts) {
    chart.data = [samples.map((sample) => sample.at), ...chart.line.series.map((series) => series.pick())];
    chart.plot.setData(chart.data);
    tell(chart);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot.redraw()));
