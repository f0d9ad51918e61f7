// Builders and sources: the worst ten, or all.

import { ofBuilder, ofSource } from "./colours.js";
import { $, cells, gauge, make, name, paint, rows, text, width } from "./dom.js";
import { bits, bytes, count, microseconds, percent, rate } from "./format.js";

const SHOWN = 10;
/// Rates are taken over so many reports, s.
const OVER = 5;
/// A source has to be this much worse to pass the one before it, so that equals do not change places all the time.
const MARGIN = 1.1;
/// And ranks are given anew so often only, s; at once if somebody comes or goes.
const RANKED_EVERY = 5;
/// The share of a disk below which its free space is marked: evbd's threshold of a problem.
const NEARLY_FULL = 0.05;

const past = new Map();

/// Counters per second, by what a peer has reported in the last seconds.
function speed(key, incarnation, age, counters) {
  const now = performance.now() / 1000 - age;
  let seen = past.get(key);
  const last = seen?.list.at(-1);
  if (!seen || seen.incarnation !== incarnation || counters.some((value, i) => value < last.counters[i])) {
    past.set(key, seen = { incarnation, list: [] });
  }
  const { list } = seen;
  if (!list.length || now - list.at(-1).now > 0.3) list.push({ now, counters });
  while (list.length > 2 && now - list[0].now > OVER + 0.5) list.shift();
  const [first, newest] = [list[0], list.at(-1)];
  const seconds = newest.now - first.now;
  return counters.map((_, i) => (seconds > 0 ? (newest.counters[i] - first.counters[i]) / seconds : undefined));
}

/// By rank, but from the order of before, in which only clear differences change anything.
function ranked(items, score, before) {
  const place = new Map(before.map((id, index) => [id, index]));
  const list = [...items].sort((a, b) => (place.get(a.id) ?? Infinity) - (place.get(b.id) ?? Infinity) || a.id - b.id);
  for (let i = 1; i < list.length; i++) {
    for (let j = i; j > 0 && score(list[j]) > score(list[j - 1]) * MARGIN; j--) {
      [list[j - 1], list[j]] = [list[j], list[j - 1]];
    }
  }
  return list;
}

function identity(cell, peer, colour) {
  if (!cell.firstChild) cell.append(make("i"), make("span"));
  const [swatch, words] = cell.children;
  name(cell, peer.name ? "named" : "");
  swatch.hidden = peer.id === "all";
  if (!swatch.hidden) paint(swatch, colour(peer.id));
  text(words, peer.name ? `${peer.id} (${peer.name})` : peer.id);
}

function presence(cell, peer) {
  if (!cell.firstChild) cell.append(document.createElement("span"));
  name(cell.firstChild, { silent: "flag bad", "no readout": "flag bad", absent: "flag warning", connecting: "flag warning" }[peer.presence] ?? "");
  text(cell.firstChild, peer.presence === "up" && peer.live?.age_s > 5 ? `up, ${peer.live.age_s.toFixed(0)} s ago` : peer.presence);
  cell.title = peer.live?.front_end_protocol === 1 && peer.live.run_not_stated ? "its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does: update the front end, else fragments of an earlier run may get into events" : "";
}

/// In place of "up", that a source is excluded; and for an expendable one, how many events are complete without it.
function owing(cell, s) {
  if (typeof s.exclusion === "string") {
    name(cell.firstChild, "flag warning");
    text(cell.firstChild, "excluded");
    cell.title = `excluded: ${s.exclusion}; ${count(s.absent)} events are complete without it; once it is well, include it with evbd ctl include source ${s.id}`;
  } else if (s.absent) {
    cell.title = `${count(s.absent)} events are complete without it, which is expendable or was excluded; nothing needs to be done`;
  }
}

/// In place of "up", that the timestamps of a source disagree with those of others.
function timestamps(cell, alignment) {
  if (!alignment?.since) return;
  name(cell.firstChild, alignment.state === "misaligned" ? "flag bad" : "flag warning");
  text(cell.firstChild, alignment.state);
  const remedy = {
    misaligned: ": stop the run, check its trigger input, reset the boards, and start a new run",
    doubted: ": evb is finding out why; nothing needs to be done until it says so",
    agrees: "; it agrees again, so nothing needs to be done",
  }[alignment.state] ?? "";
  cell.title = `since event ${alignment.since}${alignment.sentence ? `, it ${alignment.sentence}` : ", its timestamps did not agree with those of other sources"}${remedy}`;
}

class Table {
  constructor(section, what) {
    Object.assign(this, { section, what, all: false, order: [], cells: cells(section.querySelector("table")) });
    this.button = section.querySelector("h2 button");
    this.button.addEventListener("click", () => {
      this.all = !this.all;
      this.button.setAttribute("aria-expanded", this.all);
      this.show();
    });
  }

  set(peers, score, total) {
    const now = performance.now() / 1000;
    const who = peers.map((peer) => `${peer.id} ${peer.presence}`).join();
    if (who !== this.who || now - this.rankedAt > RANKED_EVERY) {
      this.order = ranked(peers, score, this.order).map((peer) => peer.id);
      Object.assign(this, { who, rankedAt: now });
    }
    const known = new Map(peers.map((peer) => [peer.id, peer]));
    Object.assign(this, { list: this.order.map((id) => known.get(id)), total });
    this.show();
  }

  show() {
    const { list, section } = this;
    const many = list.length > SHOWN;
    const shown = many && !this.all ? list.slice(0, SHOWN) : list;
    const up = list.filter((peer) => peer.presence === "up").length;
    text(section.querySelector(".note"), list.length ? `${up} of ${list.length} up${many && !this.all ? `; the worst ${SHOWN}` : ""}` : "none yet");
    this.button.hidden = !many;
    text(this.button, this.all ? `only the worst ${SHOWN}` : `all ${list.length}`);
    rows(section.querySelector("tbody"), shown, (peer) => peer.id, this.cells, (row, peer) => this.fill([...row.children], peer));
    rows(section.querySelector("tfoot"), list.length > 1 ? [this.total] : [], () => "all", this.cells, (row, total) => this.fill([...row.children], total));
  }
}

class Builders extends Table {
  fill([id, state, slots, events, throughput, p99, harm, disk], b) {
    identity(id, b, ofBuilder);
    if (b.presence) presence(state, b);
    if (!slots.firstChild) gauge(slots, "building", "sink");
    const [bar, number] = slots.firstChild.children;
    width(bar.children[0], b.building / b.slots || 0);
    width(bar.children[1], b.sink / b.slots || 0);
    const all = count(b.slots);
    text(number, `${count(b.building + b.sink).padStart(all.length, "\u2007")} / ${all}`);
    slots.title = `${b.building} events being built, ${b.sink} at the sink, room for ${b.slots - b.building - b.sink} more`;
    text(events, rate(b.events).join(" ").trim());
    text(throughput, bits(b.throughput));
    text(p99, microseconds(b.p99));
    text(harm, count(b.harm));
    if (b.id === "all") return;
    const tap = b.live?.tap;
    id.title = b.tap && tap ? `its tap at ${b.tap} has ${count(tap.clients)} clients; events sent: ${count(tap.sent)}, not in the sample: ${count(tap.sampled_out)}, dropped because they came faster than a client takes them: ${count(tap.dropped)}; the sink is not affected` : "";
    if (!disk.firstChild) disk.append(make("span"));
    const share = b.free / b.size;
    name(disk.firstChild, share < NEARLY_FULL ? `flag ${b.free === 0 ? "bad" : "warning"}` : "");
    text(disk.firstChild, b.free === undefined ? "–" : b.size ? `${bytes(b.free)}, ${(100 * share).toFixed(0)} %` : bytes(b.free));
  }
}

class Sources extends Table {
  fill([id, state, last, behind, adds, missing, backlog, throughput, resent], s) {
    identity(id, s, ofSource);
    if (s.presence) presence(state, s);
    if (s.presence === "up") timestamps(state, s.alignment);
    if (s.presence) owing(state, s);
    if (s.share !== undefined) {
      if (!last.firstChild) gauge(last, "building");
      const [bar, number] = last.firstChild.children;
      width(bar.firstChild, s.share);
      text(number, percent(s.share));
    }
    text(behind, s.share === undefined ? "" : microseconds(s.last ? s.last_by_us : undefined));
    text(adds, s.share === undefined ? "" : microseconds(s.share * (s.last_by_us ?? 0)));
    text(missing, count(s.missing));
    missing.title = Object.entries(s.missing_by_cause ?? {}).map(([cause, events]) => `${count(events)} ${cause}`).join(", ");
    text(backlog, bytes(s.backlog));
    text(throughput, bits(s.throughput));
    text(resent, count(s.resent));
  }
}

const builders = new Builders($("#builders"), "builder");
const sources = new Sources($("#sources"), "source");

const sum = (list, pick) => list.reduce((total, item) => (pick(item) === undefined ? total : (total ?? 0) + pick(item)), undefined);
const isAbsent = (peer) => (peer.presence === "up" ? 0 : 1e30);

function builderOf(b, run) {
  const live = b.live ?? undefined;
  const sink = live?.at_sink ?? b.at_sink;
  const building = live?.building ?? Math.max(b.outstanding - sink, 0);
  const [events] = speed(`events ${run} ${b.id}`, b.incarnation, 0, [b.complete + b.incomplete]);
  const [throughput] = live ? speed(`builder ${run} ${b.id}`, b.incarnation, live.age_s, [live.payload_bytes]) : [];
  return {
    ...b, live, sink, building, events, throughput, p99: live?.latency_us?.p99, harm: b.incomplete + b.lost,
    free: live?.sink_free_bytes ?? undefined, size: live?.sink_size_bytes ?? undefined,
  };
}

function sourceOf(s, run, events) {
  const live = s.live ?? undefined;
  const [throughput] = live ? speed(`source ${run} ${s.id}`, s.incarnation, live.age_s, [live.pushed_bytes]) : [];
  return {
    ...s, live, throughput, share: events ? (s.last ?? 0) / events : 0, backlog: live?.backlog_bytes,
    resent: live && live.tcp_retransmits + live.resends,
  };
}

/// The worst builders: not there, then with events that are not whole, then by number.
const harm = (b) => isAbsent(b) + b.harm + (b.free / b.size < NEARLY_FULL ? 1e20 : 0);
/// The worst sources: not there, then by all the time that events have waited for them.
const waiting = (s) => isAbsent(s) + (s.alignment?.since ? 1e20 : 0) + (s.last ?? 0) * (s.last_by_us ?? 0) + 1e6 * s.missing;

export function showPeers(survey) {
  const run = survey?.run;
  for (const key of past.keys()) if (key.split(" ")[1] !== String(run)) past.delete(key);
  const built = survey ? survey.events.complete + survey.events.incomplete : 0;
  const b = (survey?.builders ?? []).map((builder) => builderOf(builder, run));
  const s = (survey?.sources ?? []).map((source) => sourceOf(source, run, built));
  const of = (list, ...keys) => Object.fromEntries(keys.map((key) => [key, sum(list, (item) => item[key])]));
  builders.set(b, harm, { id: "all", p99: survey?.latency_us?.p99, ...of(b, "building", "sink", "slots", "events", "throughput", "harm") });
  sources.set(s, waiting, { id: "all", ...of(s, "missing", "backlog", "throughput", "resent") });
}
