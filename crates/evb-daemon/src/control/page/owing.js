// Excludes sources and includes them again, after a confirmation.

import { $, make, text } from "./dom.js";

let offered = [];

/// What can be excluded or included: the command, its body, and the words for people. Groups come first.
function choices({ sources, groups }) {
  const out = new Set(sources.filter((s) => typeof s.exclusion === "string").map((s) => s.id));
  const ofGroup = ({ name, sources: members }) => {
    const left = members.filter((id) => !out.has(id)).length;
    const commands = [...(left ? ["exclude"] : []), ...(left < members.length ? ["include"] : [])];
    return commands.map((what) => [what, { group: name }, `group ${name} (${members.length} sources)`]);
  };
  const ofSource = (s) => [out.has(s.id) ? "include" : "exclude", { source: s.id }, `source ${s.id}${s.name ? ` (${s.name})` : ""}`];
  return [...groups.flatMap(ofGroup), ...sources.map(ofSource)];
}

/// Says what will happen. Only an exclusion needs a reason.
function explain() {
  const [what] = offered[$("#owing-what").value] ?? ["exclude"];
  const excludes = what === "exclude";
  text($("#owing-effect"), excludes
    ? "From the next event on, events are complete without it. Events that wait for it close at once, incomplete."
    : "From the next event on, events are incomplete without it.");
  text($("#owing-do"), excludes ? "Exclude" : "Include");
  $("#owing-why").required = excludes;
}

export function openOwing(survey) {
  if (!survey) return;
  offered = choices(survey);
  $("#owing-what").replaceChildren(...offered.map(([what, , words], place) => {
    const option = make("option", "", `${what} ${words}`);
    option.value = place;
    return option;
  }));
  $("#owing-why").value = "";
  explain();
  $("#owing").showModal();
}

/// Calls `give` with the command and its body when the confirmation is given.
export function onOwing(give) {
  $("#owing-what").addEventListener("change", explain);
  $("#owing-cancel").addEventListener("click", () => $("#owing").close());
  $("#owing form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [what, body, words] = offered[$("#owing-what").value];
    $("#owing").close();
    give(what, { ...body, why: $("#owing-why").value.trim() }, `${what} ${words}`);
  });
}
