//! The requests of run control, and their answers.

use evb::run_control::{Annotation, Command, RunControl};
use evb_core::{
    id::{BuilderId, EventId, SourceId},
    quantities::split_remedy,
    supervisor::{OwingRequest, Survey},
    units::{Frequency, UnitError},
};
use hyper::{Method, StatusCode, header::ACCEPT, http::request::Parts};
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::{Answer, JSON},
    guard::Access,
    metrics,
    rendered::{MetricsFormat, Rendered},
};

/// Request to begin a run, with the operator's remarks.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NewRun {
    comment: String,
    kind: String,
}

/// Request to add a builder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBuilder {
    id: u16,
}

/// Request to take the timestamps of a source as right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LearntSource {
    source: u16,
}

/// Request to exclude a source or the sources of a group, or to include them again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOwing {
    source: Option<SourceName>,
    group: Option<String>,
    from: Option<u64>,
    #[serde(default)]
    why: String,
}

/// A source by its id or its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum SourceName {
    Id(u16),
    Name(String),
}

impl SourceName {
    /// Returns the id of the only source of the run that is meant.
    ///
    /// # Errors
    /// Returns the answer to a client whose name is that of no source, or of several.
    async fn find(self, lead: &RunControl) -> Result<u16, Answer> {
        let name = match self {
            Self::Id(id) => return Ok(id),
            Self::Name(name) => name,
        };
        let Some(Survey { sources, .. }) = survey(lead).await else { return Err(no_run()) };
        let named = sources.iter().filter(|source| source.name == name && !name.is_empty());
        let ids: Vec<u16> = named.map(|source| source.id).collect();
        let reason = match ids.as_slice() {
            [id] => return Ok(*id),
            [] => format!("the run has no source with the name `{name}`"),
            several => format!("{} sources of the run have the name `{name}`", several.len()),
        };
        let remedy = "give the id of the source, which `evbd ctl status --json` lists";
        Err(Answer::turned_away(StatusCode::BAD_REQUEST, &reason, remedy))
    }
}

/// Returns the sources of a group of the run.
///
/// # Errors
/// Returns the answer to a client whose group does not exist.
async fn sources_of(group: &str, lead: &RunControl) -> Result<Vec<u16>, Answer> {
    let Some(Survey { groups, .. }) = survey(lead).await else { return Err(no_run()) };
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    let found = groups.iter().find(|other| other.name == group);
    found.map(|group| group.sources.clone()).ok_or_else(|| {
        let remedy = match names.is_empty() {
            true => {
                "it has no groups at all: give a source, or add a `[[group]]` to the configuration".to_owned()
            }
            false => format!("give one of the groups of the run: {}", names.join(", ")),
        };
        let reason = format!("the run has no group `{group}`");
        Answer::turned_away(StatusCode::BAD_REQUEST, &reason, &remedy)
    })
}

/// Returns the answer to a request that names what only an open run has.
fn no_run() -> Answer {
    let reason = "no run is open, so names of its sources and groups are not known";
    Answer::turned_away(StatusCode::BAD_REQUEST, reason, "open one with `evbd ctl configure`, then ask again")
}

async fn survey(lead: &RunControl) -> Option<Survey> {
    lead.status().await.ok()?.survey
}

/// Excludes or includes the sources of a request.
async fn change_owing(lead: &RunControl, body: &[u8], excludes: bool) -> Result<Answer, Answer> {
    let asked: NewOwing = parse(body, "{\"source\": 7, \"why\": \"broken power supply\"}")?;
    let (sources, what) = match (asked.source, asked.group) {
        (Some(source), None) => {
            let source = source.find(lead).await?;
            (vec![source], json!({ "source": source, "excluded": excludes }))
        }
        (None, Some(group)) => {
            (sources_of(&group, lead).await?, json!({ "group": group, "excluded": excludes }))
        }
        _ => {
            return Err(Answer::turned_away(
                StatusCode::BAD_REQUEST,
                "the request names no source and no group, or both",
                "give either `source`, an id or a name, or `group`, a name",
            ));
        }
    };
    let sources = sources.into_iter().map(SourceId::new).collect();
    let request = OwingRequest { sources, excludes, from: asked.from.map(EventId::new), why: asked.why };
    lead.change_owing(request).await.map(|()| Answer::done(what)).map_err(|refusal| Answer::refused(&refusal))
}

/// Request to set the trigger rate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRate {
    rate: String,
}

/// Answers the requests that many clients make; returns `None` for other requests.
pub(super) async fn look(rendered: &Rendered, access: Access, head: &Parts) -> Option<Answer> {
    Some(match head.uri.path() {
        "/v1/status" => Answer::rendered(rendered.status(access).await, JSON),
        "/v1/history" => match parse_after(head.uri.query()) {
            Ok(after) => Answer::rendered(rendered.history(after).await, JSON),
            Err(answer) => answer,
        },
        "/metrics" => {
            let wanted = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let (format, content_type) = if wanted.contains("application/openmetrics-text") {
                (MetricsFormat::Open, metrics::OPEN_METRICS)
            } else {
                (MetricsFormat::Plain, metrics::PLAIN)
            };
            Answer::rendered(rendered.metrics(format).await, content_type)
        }
        _ => return None,
    })
}

/// Parses the query of a request for history: the number of the last sample that the client has.
fn parse_after(query: Option<&str>) -> Result<u64, Answer> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(0) };
    query.strip_prefix("after=").and_then(|number| number.parse().ok()).ok_or_else(|| {
        Answer::turned_away(
            StatusCode::BAD_REQUEST,
            &format!(
                "the query `{}` of the request is not after=N",
                query.chars().take(80).collect::<String>()
            ),
            "ask for /v1/history?after=N with the number of the last sample that you have",
        )
    })
}

/// Carries out a command of run control.
pub(super) async fn answer(lead: &RunControl, method: &Method, path: &str, body: &[u8]) -> Answer {
    let Some(what) = path.strip_prefix("/v1/") else { return unknown(path) };
    if method == Method::POST
        && let Ok(command) = what.parse::<Command>()
    {
        let done = match (command, parse_run(command, body)) {
            (_, Err(answer)) => return answer,
            (Command::Start, Ok(annotation)) => lead.start_with(annotation).await,
            (command, Ok(_)) => lead.command(command).await,
        };
        let done = done.map(|state| Answer::done(json!({ "state": state })));
        return done.unwrap_or_else(|refusal| Answer::refused(&refusal));
    }
    let outcome = match (method, what) {
        (&Method::POST, "builders") => match parse::<NewBuilder>(body, "{\"id\": 5}") {
            Ok(NewBuilder { id }) => {
                let added = lead.add_builder(BuilderId::new(id)).await;
                added.map(|()| Answer::done(json!({ "builder": id })))
            }
            Err(answer) => return answer,
        },
        (&Method::POST, "learn") => match parse::<LearntSource>(body, "{\"source\": 7}") {
            Ok(LearntSource { source }) => {
                let learnt = lead.learn(SourceId::new(source)).await;
                learnt.map(|()| Answer::done(json!({ "source": source })))
            }
            Err(answer) => return answer,
        },
        (&Method::POST, "exclude" | "include") => {
            return change_owing(lead, body, what == "exclude").await.unwrap_or_else(|answer| answer);
        }
        (&Method::PUT, "trigger") => match parse_rate(body) {
            Ok(rate) => lead.set_rate(rate).await.map(|()| Answer::done(json!({ "rate": rate.to_string() }))),
            Err(answer) => return answer,
        },
        (&Method::DELETE, what) if what.starts_with("builders/") => {
            let Ok(id) = what["builders/".len()..].parse::<u16>() else { return unknown(path) };
            let removed = lead.remove_builder(BuilderId::new(id)).await;
            removed.map(|()| Answer::done(json!({ "builder": id })))
        }
        _ if is_known(what) => {
            return Answer::turned_away(
                StatusCode::METHOD_NOT_ALLOWED,
                &format!("the path /v1/{what} does not take the method {method}"),
                "use GET for status and history; POST for commands, builders, exclude, include and learn; PUT for trigger; DELETE for builders/ID",
            );
        }
        _ => return unknown(path),
    };
    outcome.unwrap_or_else(|refusal| Answer::refused(&refusal))
}

/// Returns true if run control has this path, whatever the method.
fn is_known(what: &str) -> bool {
    what == "status"
        || what == "history"
        || what == "trigger"
        || what == "builders"
        || matches!(what, "learn" | "exclude" | "include")
        || what.starts_with("builders/")
        || what.parse::<Command>().is_ok()
}

fn parse<'b, T: Deserialize<'b>>(body: &'b [u8], example: &str) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| {
        let remedy = format!("send for example {example}");
        let reason = format!("the body of the request cannot be read: {error}");
        Answer::turned_away(StatusCode::BAD_REQUEST, &reason, &remedy)
    })
}

/// Returns the operator's remarks for a run that is to begin. Other commands have no remarks, and
/// their bodies are ignored.
fn parse_run(command: Command, body: &[u8]) -> Result<Annotation, Answer> {
    if command != Command::Start || body.trim_ascii().is_empty() {
        return Ok(Annotation::default());
    }
    let NewRun { comment, kind } = parse(body, "{\"comment\": \"new thresholds\", \"kind\": \"physics\"}")?;
    Ok(Annotation { kind, comment })
}

/// Parses the body of a request for another trigger rate.
fn parse_rate(body: &[u8]) -> Result<Frequency, Answer> {
    let NewRate { rate } = parse(body, "{\"rate\": \"2 kHz\"}")?;
    rate.parse().map_err(|error: UnitError| {
        let text = format!("the trigger rate cannot be read, and stays as it was: {error}");
        let (reason, remedy) = split_remedy(&text);
        Answer::turned_away(StatusCode::BAD_REQUEST, reason, remedy.unwrap_or_default())
    })
}

/// Returns the answer to a request for an unknown path.
fn unknown(path: &str) -> Answer {
    let reason = format!("run control has no path {}", path.chars().take(80).collect::<String>());
    Answer::turned_away(
        StatusCode::NOT_FOUND,
        &reason,
        "use GET for /, /metrics, /v1/status and /v1/history?after=N; POST for /v1/{configure,start,stop,pause,resume,reset,builders,exclude,include,learn}; PUT for /v1/trigger; DELETE for /v1/builders/ID",
    )
}
