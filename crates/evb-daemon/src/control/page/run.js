// The run in large letters, what is wrong with it, its ledger, and the runs before it.

import { $, cells, make, name, rows, text, width } from "./dom.js";
import { count, day, digits, duration, microseconds, percent, rate } from "./format.js";

const UNDER_WAY = ["Running", "Paused", "Stopping"];
export const isUnderWay = (status) => UNDER_WAY.includes(status.state);

const KINDS = ["inhibited", "complete", "incomplete", "rejected", "lost"];

/// Everything that is not as it should be, the worst first. Between runs, what was wrong with the last one.
function problems(status) {
  const found = [...(status.problems ?? [])];
  if (!isUnderWay(status)) {
    const { last_run: last, last_error: error } = status;
    if (error && !(last && error.includes(last.verdict))) {
      const failed = status.state === "Failed";
      const remedy = failed ? "correct that, then reset, configure and start" : "no run is under way; check what it names before the next one";
      found.push({ severity: failed ? "bad" : "warning", subject: "run control", text: error, remedy });
    }
    if (last?.exit_code) {
      const remedy = "its files stay as they are; check the sources and builders that its report names before the next run";
      found.push({ severity: "warning", subject: `run ${last.run}, which is over`, text: last.verdict, remedy });
    }
  }
  return found.sort((a, b) => (b.severity === "bad") - (a.severity === "bad"));
}

const SHOWN = 8;

export function showProblems(status) {
  const found = problems(status).map((problem, index) => ({ ...problem, index }));
  const shown = found.slice(0, SHOWN);
  if (!found.length) shown.push({ index: 0, severity: "", subject: "No problems.", text: "", remedy: "" });
  if (found.length > SHOWN) shown.push({ index: SHOWN, severity: "rest", subject: `and ${found.length - SHOWN} more`, text: "", remedy: "mend those above first; evbd ctl status lists more" });
  rows($("#problems"), shown, (p) => p.index, () => make("p", "", make("b"), " ", make("span"), " ", make("span", "note")), (row, problem) => {
    name(row, problem.severity);
    text(row.children[0], problem.subject);
    text(row.children[1], problem.text);
    text(row.children[2], problem.remedy ? `→ ${problem.remedy}` : "");
  });
  return found;
}

function health(status, found) {
  if (status.state === "Failed" || found.some((problem) => problem.severity === "bad")) return "bad";
  if (status.state === "Paused" || (isUnderWay(status) && found.length)) return "warning";
  if (status.state === "Stopping") return "ending";
  return { Running: "well", Configured: "idle" }[status.state] ?? "";
}

function below(status) {
  const { survey, run } = status;
  const { kind, comment } = status.annotation ?? {};
  const words = [kind, comment].filter(Boolean).join(": ");
  const since = status.begin ? `since ${day(status.begin)}` : "";
  if (isUnderWay(status)) return [duration(survey?.running_s), since, words].filter(Boolean).join(" · ");
  if (status.state === "Failed") return "correct what is named below, then reset, configure and start";
  if (run === null || run === undefined) return "no run is open: configure opens the next one";
  if (status.ready) return "ready to start";
  const missing = status.waiting_for ?? [];
  return missing.length ? `waits for ${missing.slice(0, 4).join(", ")}${missing.length > 4 ? ` and ${missing.length - 4} more` : ""}` : "";
}

export function showHero(status, found, sample) {
  const { rates = {}, run } = status;
  text($("#state"), status.state);
  const next = isUnderWay(status) ? "run" : "next: run";
  text($("#state-label"), run === null || run === undefined ? "no run" : `${next} ${run}`);
  text($("#state-below"), below(status));
  $("#state-below").title = status.annotation?.comment ?? "";
  name($("#state-tile"), `tile ${health(status, found)}`);
  const [number, prefix] = rate(rates.events_per_s);
  text($("#rate"), number);
  text($("#rate-unit"), `${prefix}/s`);
  text($("#rate-below"), `of ${rate(rates.triggers_per_s).join(" ").trim()}/s triggered`);
  const dead = rates.dead_time_fraction;
  text($("#dead"), dead === undefined ? "–" : (100 * dead).toFixed(1));
  const [cause] = sample?.dead_time?.length ? sample.dead_time : [];
  text($("#dead-below"), dead > 0 && cause ? cause.cause : dead > 0 ? (status.survey?.dead_time_causes?.[0]?.cause ?? "") : "none");
  const bits = (rates.bytes_per_s ?? NaN) * 8;
  const giga = bits >= 1e8;
  text($("#throughput"), digits(bits / (giga ? 1e9 : 1e6)));
  text($("#throughput-unit"), giga ? "Gbit/s" : "Mbit/s");
  const p99 = sample?.p99_us;
  text($("#throughput-below"), p99 ? `p99 latency ${microseconds(p99)}` : "to the sinks");
  document.title = `${status.state}${isUnderWay(status) ? ` ${number}${prefix}/s` : ""}${found.length ? ` (${found.length}!)` : ""} – evb`;
}

export function showLedger(status) {
  const last = !isUnderWay(status) && status.last_run;
  const events = last ? last.events : status.survey?.events;
  const outstanding = last || !events ? 0 : status.survey.outstanding;
  const { run, run_id: id } = last || status;
  const named = `Ledger of run ${run}${id ? ` (${id.slice(0, 8)})` : ""}`;
  text($("#ledger-title"), run === null || run === undefined ? "Ledger" : named);
  text($("#n-triggered"), count(events?.triggered));
  let sum = outstanding;
  for (const kind of KINDS) {
    const value = events?.[kind];
    sum += value ?? 0;
    text($(`#n-${kind}`), count(value));
    width($(`#bar .${kind}`), value / events?.triggered || 0);
  }
  text($("#n-outstanding"), events ? count(outstanding) : "–");
  const open = (events?.triggered ?? 0) - sum;
  width($("#bar .outstanding"), outstanding / events?.triggered || 0);
  width($("#bar .unaccounted"), open / events?.triggered || 0);
  const note = !events?.triggered ? ""
    : open ? `does not close: ${count(Math.abs(open))} triggers ${open > 0 ? "unaccounted for" : "too many"}, a fault of evb: report it with the logs`
    : outstanding || isUnderWay(status) ? "so far, every trigger is accounted for; the run goes on"
    : "✓ closed: every trigger is accounted for";
  text($("#ledger-note"), note);
  $("#bar").setAttribute("aria-label", `Ledger: ${note}`);
}

const runCells = cells($("#runs table"));

export function showRuns(status) {
  const last = status.last_run;
  let runs = status.earlier_runs ?? [];
  if (last && !runs.some((run) => run.run_id === last.run_id)) runs = [last, ...runs];
  $("#runs table").hidden = !runs.length;
  text($("#runs .note"), runs.length ? `${count(status.runs)} led by this process` : "none yet");
  rows($("#runs tbody"), runs, (run) => run.run_id, runCells, (row, run) => {
    const { events = {}, annotation = {} } = run;
    const [number, ended, took, built, dead, outcome, kind, comment] = row.children;
    text(number, run.run);
    text(ended, day(run.end));
    ended.title = run.end ? `${run.begin} to ${run.end}, wall clock ${run.wall_clock}` : "";
    text(took, duration(run.duration_s));
    text(built, count(events.complete));
    text(dead, percent(events.triggered ? events.inhibited / events.triggered : 0));
    if (!outcome.firstChild) outcome.append(make("span"), document.createTextNode(""));
    name(outcome.firstChild, run.exit_code ? "flag warning" : "");
    text(outcome.firstChild, run.exit_code ? "not clean" : "✓");
    text(outcome.lastChild, ` ${run.verdict ?? ""}`);
    text(kind, annotation.kind ?? "");
    text(comment, annotation.comment ?? "");
  });
}
