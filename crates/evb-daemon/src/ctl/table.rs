//! Formats the daemon's answers as text for people.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use evb_core::{
    quantities::{self, counted, digits},
    units::Rate,
};
use serde_json::Value;

/// Most sources that are listed because the run of their fragments is not proven.
const NAMED: usize = 10;

/// Returns an answer without control characters in its texts, which could forge a line: the server
/// may be anybody.
fn plain(answer: &Value) -> Value {
    match answer {
        Value::String(text) => Value::String(text.replace(char::is_control, " ")),
        Value::Array(values) => values.iter().map(plain).collect(),
        Value::Object(fields) => {
            let plain_field =
                |(key, value): (&String, &Value)| (key.replace(char::is_control, " "), plain(value));
            Value::Object(fields.iter().map(plain_field).collect())
        }
        other => other.clone(),
    }
}

/// Returns what a state of run control means, and what an operator can do in it; nothing for a
/// state that is not known.
pub(crate) fn meaning(state: &str) -> &'static str {
    match state {
        "Unconfigured" => ": no run is open; `evbd ctl configure` opens the next one",
        "Configured" => {
            ": sources and builders can join the next run; `evbd ctl start` begins it, if `control.autostart` does not"
        }
        "Running" => ": the run takes triggers",
        "Paused" => {
            ": the run takes no triggers (dead time); `evbd ctl status` says what to do, `evbd ctl resume` goes on"
        }
        "Stopping" => ": the run takes no more triggers, and ends by itself when its events are built",
        "Failed" => {
            ": no run is under way; correct what `evbd ctl status` names, then `evbd ctl reset`, `configure` and `start`"
        }
        _ => "",
    }
}

/// Returns the effect of a command as a line.
pub(super) fn line(answer: &Value) -> String {
    let answer = plain(answer);
    let Some(fields) = answer.as_object() else { return answer.to_string() };
    let words = fields.iter().map(|(key, value)| match value {
        Value::String(text) if key == "state" => format!("{text}{}", meaning(text)),
        Value::String(text) => format!("{key} {text}"),
        other => format!("{key} {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns a refusal as text: the refusing party, the reason and the remedy.
pub(super) fn refusal(answer: &Value) -> String {
    let answer = plain(answer);
    let text_of = |key: &str, usual: &str| answer[key].as_str().unwrap_or(usual).to_owned();
    let what = answer["request"].as_str().unwrap_or("the request was");
    let by = text_of("refused_by", "the program at that address");
    let reason = text_of("reason", "it gives no reason");
    let remedy =
        text_of("remedy", "check that this is the address of evbd's run control, and no proxy is in between");
    format!("{what} refused by {by}: {reason}\n  {remedy}\n")
}

/// Returns the outcome of the last run and the state of the system.
pub(super) fn outcome(status: &Value) -> String {
    let last = plain(&status["last_run"]);
    let mut text = String::new();
    if !last.is_null() {
        let _ = writeln!(text, "run {}: {}", last["run"], words(&last["verdict"]));
    }
    let state = plain(&status["state"]);
    let _ = writeln!(text, "{}{}", words(&state), meaning(words(&state)));
    text
}

/// Returns the whole status as a table.
pub(super) fn status(status: &Value) -> String {
    let status = &plain(status);
    let mut text = String::new();
    let survey = &status["survey"];
    let id = status["run_id"].as_str().and_then(|id| id.get(..8));
    let id = id.map_or(String::new(), |id| format!(" ({id})"));
    let run = status["run"].as_u64().map_or(String::new(), |run| format!("  run {run}{id}"));
    let seconds = survey["running_s"].as_f64().unwrap_or(0.0);
    let begin =
        status["begin"].as_str().map_or(String::new(), |begin| format!("  since {}", to_second(begin)));
    let time = if seconds > 0.0 { format!("{begin}  for {}", clock(seconds)) } else { String::new() };
    let ready = if status["ready"] == true { "  ready to start" } else { "" };
    let _ = writeln!(text, "{}{run}{time}{ready}", words(&status["state"]));
    let said = ["kind", "comment"].map(|key| status["annotation"][key].as_str().unwrap_or_default());
    if said.iter().any(|words| !words.is_empty()) {
        let _ = writeln!(text, "comment      {}", said.join(" ").trim());
    }
    let waiting = list(&status["waiting_for"]);
    if !waiting.is_empty() {
        let _ = writeln!(text, "waiting for  {}", waiting.join(", "));
    }
    if seconds > 0.0 {
        events(&mut text, status);
    }
    problems(&mut text, status);
    if let Some(error) = status["last_error"].as_str() {
        let _ = writeln!(text, "last error   {error}");
    }
    let last = &status["last_run"];
    if !last.is_null() {
        let end = last["end"].as_str().map_or(String::new(), |end| format!(", ended {}", to_second(end)));
        let _ = writeln!(text, "last run     {}{end}: {}", last["run"], words(&last["verdict"]));
    }
    peers(&mut text, survey);
    text
}

/// Writes the ledger, the rates and the latency.
fn events(text: &mut String, status: &Value) {
    let (events, rates) = (&status["survey"]["events"], &status["rates"]);
    let count_of = |key: &str| events[key].as_u64().unwrap_or(0);
    let rate = |key: &str| rates[key].as_f64().unwrap_or(0.0);
    let _ = writeln!(
        text,
        "events       {} triggered = {} complete + {} incomplete + {} lost + {} rejected + {} inhibited + {} under way",
        count_of("triggered"),
        count_of("complete"),
        count_of("incomplete"),
        count_of("lost"),
        count_of("rejected"),
        count_of("inhibited"),
        status["survey"]["outstanding"]
    );
    let _ = writeln!(
        text,
        "rate         {} triggers/s, {} events/s, {}, {:.1} % dead",
        digits(rate("triggers_per_s")),
        digits(rate("events_per_s")),
        quantities::rate(Rate::from_bytes_per_second(rate("bytes_per_s") as u64)),
        rate("dead_time_fraction") * 100.0
    );
    let latency = &status["survey"]["latency_us"];
    if let [Some(p50), Some(p99)] = ["p50", "p99"].map(|key| latency[key].as_f64()) {
        let [median, most] = [p50, p99].map(|micros| digits(micros / 1e3));
        let _ = writeln!(
            text,
            "latency      median {median} ms, 99 % below {most} ms (trigger to last fragment)"
        );
    }
}

/// Writes what is wrong, also before the run begins.
fn problems(text: &mut String, status: &Value) {
    for problem in status["problems"].as_array().into_iter().flatten() {
        let text_of = |key: &str| words(&problem[key]).to_owned();
        let _ = writeln!(
            text,
            "{:<12} {}: {}; {}",
            text_of("severity"),
            text_of("subject"),
            text_of("text"),
            text_of("remedy")
        );
    }
    let causes = status["survey"]["dead_time_causes"].as_array();
    for cause in causes.into_iter().flatten() {
        let inhibited = number_of(&cause["inhibited"], "trigger");
        let _ = writeln!(text, "dead time    {inhibited} inhibited: {}", words(&cause["cause"]));
    }
}

/// Writes a table of the builders, and the sources that are not well.
fn peers(text: &mut String, survey: &Value) {
    let sources = survey["sources"].as_array().map_or(&[][..], |sources| sources);
    let builders = survey["builders"].as_array().map_or(&[][..], |builders| builders);
    if builders.is_empty() {
        return;
    }
    let width = builders.iter().map(|builder| named(builder).chars().count()).fold(12, usize::max);
    let _ = writeln!(
        text,
        "\n  {:<width$} {:<11} {:>7} {:>12} {:>10} {:>6}",
        "builder", "is", "slots", "complete", "incompl.", "lost"
    );
    for builder in builders {
        let slots = format!("{}/{}", builder["outstanding"], builder["slots"]);
        let _ = writeln!(
            text,
            "  {:<width$} {:<11} {slots:>7} {:>12} {:>10} {:>6}",
            named(builder),
            words(&builder["presence"]),
            builder["complete"].to_string(),
            builder["incomplete"].to_string(),
            builder["lost"].to_string()
        );
    }
    let all_well = |source: &&Value| {
        let is_up = source["presence"] == "up" || source["exclusion"].is_string();
        is_up && source["missing"] == 0
    };
    let well = sources.iter().filter(all_well).count();
    let all = counted(sources.len() as u64, "source");
    let _ = writeln!(text, "\n  {well} of {all} up, and missing in no event");
    for source in sources.iter().filter(|source| source["exclusion"].is_string() || source["absent"] != 0) {
        let rest = "nothing needs to be done".to_owned();
        let (role, remedy) = match source["exclusion"].as_str() {
            Some(why) => {
                let remedy = format!("once it is well, `evbd ctl include source {}`", source["id"]);
                (format!("is excluded ({why})"), remedy)
            }
            None if source["expendable"] == true => ("is expendable".to_owned(), rest),
            None => ("is included again".to_owned(), rest),
        };
        let absent = number_of(&source["absent"], "event");
        let _ = writeln!(text, "  source {} {role}: {absent} complete without it; {remedy}", named(source));
    }
    for source in sources.iter().filter(|source| !all_well(source)) {
        let _ = writeln!(
            text,
            "  source {} is {}, missing in {}{}",
            named(source),
            presence(source),
            number_of(&source["missing"], "event"),
            causes(&source["missing_by_cause"])
        );
    }
    let not_proven =
        |source: &&Value| source["live"]["front_end_protocol"] == 1 && source["live"]["run_not_stated"] != 0;
    for source in sources.iter().filter(not_proven).take(NAMED) {
        let _ = writeln!(
            text,
            "  source {}: its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does: update the front end, else fragments of an earlier run may get into events",
            named(source)
        );
    }
}

/// Returns a count in an answer with its noun.
fn number_of(count: &Value, noun: &str) -> String {
    counted(count.as_u64().unwrap_or(0), noun)
}

/// Returns the presence of a source; of one without a readout, with the number of its front ends.
fn presence(source: &Value) -> String {
    let presence = words(&source["presence"]);
    match (source["presence"].as_str(), &source["front_ends"]) {
        (Some("no readout"), Value::Object(front_ends)) => {
            let connected = number_of(&front_ends["connected"], "front end");
            format!("up with {presence} ({connected} connected)")
        }
        (Some("no readout"), _) => format!("up with {presence}"),
        _ => presence.to_owned(),
    }
}

/// Returns the id of a source or builder, with its name if it has one: `3 (TPC crate 1)`.
fn named(peer: &Value) -> String {
    match peer["name"].as_str().unwrap_or_default() {
        "" => peer["id"].to_string(),
        name => format!("{} ({})", peer["id"], name.replace(char::is_control, " ")),
    }
}

/// Returns a time of RFC 3339 without decimals.
fn to_second(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

/// Returns the causes for which fragments are missing, in parentheses; nothing if there are none.
fn causes(by_cause: &Value) -> String {
    let causes = by_cause.as_object().into_iter().flatten();
    let causes: Vec<String> = causes.map(|(cause, events)| format!("{events} {cause}")).collect();
    if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) }
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().map_or_else(Vec::new, |items| items.iter().filter_map(Value::as_str).collect())
}

/// Returns a time as people read it.
fn clock(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60),
    }
}
