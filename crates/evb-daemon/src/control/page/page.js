// Asks once a second, shows what it is told, and passes commands on.

import { $, make, name, text } from "./dom.js";
import { clock } from "./format.js";
import * as charts from "./charts.js";
import { onOwing, openOwing } from "./owing.js";
import { showPeers } from "./peers.js";
import { showHero, showLedger, showProblems, showRuns } from "./run.js";
import { LONG, command, get, hasToken, useToken } from "./server.js";

const PERIOD = 1000;
/// The state is shown without the latest samples if they do not arrive within this time, ms.
const PATIENCE = 300;

/// Which commands make sense where; what is out of place is pale, and refused with the reason.
const SENSIBLE = {
  Unconfigured: ["configure"],
  Configured: ["configure", "start", "reset"],
  Running: ["pause", "stop"],
  Paused: ["resume", "stop"],
  Stopping: [],
  Failed: ["reset"],
};

/// The usual next command of a state: its button stands out.
const NEXT = { Unconfigured: "configure", Configured: "start", Running: "stop", Paused: "resume", Failed: "reset" };

let status = null;
let heard = new Date();
let newest = null;
/// The span of samples that was asked for, s.
let asked = 0;
let loading = null;
let busy = null;
let timer = null;
/// Which turn is the last one that was begun: an earlier one that is still under way has nothing more to say.
let round = 0;
/// Why a token is asked for: to see anything, or to command.
let asking = null;

/// What is new since the last sample that is here, or all of a span that is longer than before. An evbd that was started
/// anew counts from the beginning.
async function history() {
  const span = charts.span();
  if (span > asked) newest = null;
  if (newest === null) {
    const { next } = await get(`/v1/history?after=${Number.MAX_SAFE_INTEGER}`);
    newest = Math.max(next - span - 1, 0);
    asked = span;
  }
  const { next, samples } = await get(`/v1/history?after=${newest}`, LONG);
  charts.add(samples);
  newest = next < newest ? null : samples.at(-1)?.n ?? newest;
}

/// Charts may wait; the state may not. What fails now is asked for again in the next turn.
function load() {
  loading ??= history().catch(() => {}).finally(() => { loading = null; });
  return Promise.race([loading, new Promise((done) => setTimeout(done, PATIENCE))]);
}

async function turn() {
  const mine = ++round;
  const began = performance.now();
  try {
    const told = await get("/v1/status");
    if (mine !== round) return;
    status = told;
    heard = new Date();
    await load();
    if (mine !== round) return;
    connected();
    show();
  } catch (error) {
    if (mine !== round) return;
    if (error.status === 401) return lock(error);
    away(error);
  }
  timer = setTimeout(turn, Math.max(PERIOD - (performance.now() - began), 100));
}

function soon() {
  clearTimeout(timer);
  turn();
}

function show() {
  text($("#host"), [status.host, status.version].filter(Boolean).join(" · "));
  const found = showProblems(status);
  showHero(status, found, charts.latest());
  showLedger(status);
  showPeers(status.survey);
  showRuns(status);
  showButtons();
  charts.draw();
}

function connected() {
  name(document.body, "");
  if (asking === "see") askForToken(null);
  text($("#link"), `live, ${clock(heard)}`);
}

/// Nobody there: what was last heard stays, and is said to be old.
function away(error) {
  name(document.body, status ? "away" : "new away");
  const since = `since ${clock(heard)}`;
  text($("#link"), `not connected ${since}`);
  text($("#state-label"), error.status ? `evbd answers with HTTP status ${error.status}` : "evbd does not answer");
  text($("#state"), "Not connected");
  text($("#state-below"), `${since}; ${error.status ? `${error.message}; ` : ""}the run may go on; this page tries again every second${status ? "" : "; look whether evbd and its host run, and the network to it"}`);
  name($("#state-tile"), "tile away");
  for (const id of ["rate", "dead", "throughput"]) {
    text($(`#${id}`), "–");
    text($(`#${id}-below`), "");
  }
  if (status) showProblems({ state: "", problems: [{ severity: "rest", subject: "Old figures:", text: `all below is as it was at ${clock(heard)}.`, remedy: error.status ? error.remedy : "look whether evbd and its host run, and the network to it; this page connects again by itself" }] });
  document.title = "Not connected – evb";
  showButtons();
}

/// Nothing is asked again until there is a token, for each question would be one more refusal in evbd's log.
function lock(error) {
  away(error);
  text($("#link"), "a token is needed");
  text($("#state-label"), "evbd asks for a token");
  text($("#state"), "Locked");
  text($("#state-below"), "enter the token above to see the run, which does not depend on this page");
  document.title = "Locked – evb";
  askForToken("see", hasToken() ? `${error.message}.` : "");
}

function askForToken(what, why = "") {
  asking = what;
  $("#door").hidden = what === null;
  text($("#door-why"), why);
  if (what !== null) $("#token").focus();
}

function showButtons() {
  const isAway = document.body.classList.contains("away");
  const looksOn = status?.access === "viewer";
  const sensible = isAway || !status ? [] : SENSIBLE[status.state] ?? [];
  for (const button of document.querySelectorAll("[data-command]")) {
    button.disabled = isAway || looksOn;
    button.setAttribute("aria-disabled", !sensible.includes(button.dataset.command));
    button.setAttribute("aria-busy", busy === button.dataset.command);
    button.classList.toggle("other", button.dataset.command !== NEXT[status?.state]);
  }
  for (const field of [$("#kind"), $("#comment")]) field.disabled = looksOn;
  $("#open-owing").disabled = isAway || looksOn || !status?.survey;
  text($("#access"), looksOn ? "you may look, but not give commands" : "");
  $("#have-token").hidden = !looksOn;
}

/// One command at a time. A refusal is shown in evbd's own words.
async function give(what, body = {}, words = what) {
  if (busy) return;
  busy = what;
  showButtons();
  answer("", `${words} …`);
  try {
    const note = { kind: $("#kind").value.trim(), comment: $("#comment").value.trim() };
    const { state } = await command(what, what === "start" ? note : body);
    answer("", `${words}: done at ${clock(new Date())}${state ? `; ${state}` : ""}`);
    if (what === "start") $("#comment").value = "";
  } catch (error) {
    const who = error.status ? `refused by ${error.refusedBy}` : "without an answer";
    answer("bad", `${words} ${who}: ${error.message}.`, error.remedy && ` → ${error.remedy}`);
    if (error.status === 401) askForToken("command", `${error.message}.`);
  }
  busy = null;
  soon();
}

function answer(className, said, remedy = "") {
  $("#answer").replaceChildren(make("span", className, said), make("span", "", remedy));
}

/// A letter brings the focus to a control; only Enter does anything.
function key(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const found = event.key === "?" ? $("#keys") : document.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
  if (!found) return;
  event.preventDefault();
  found.scrollIntoView({ block: "nearest" });
  found.focus({ focusVisible: true });
}

for (const button of document.querySelectorAll("[data-command]")) {
  button.addEventListener("click", () => give(button.dataset.command));
}
onOwing(give);
$("#open-owing").addEventListener("click", () => openOwing(status?.survey));
$("#door").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken($("#token").value.trim());
  $("#token").value = "";
  askForToken(null);
  soon();
});
$("#have-token").addEventListener("click", () => askForToken("command"));
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", () => document.hidden || soon());
turn();
