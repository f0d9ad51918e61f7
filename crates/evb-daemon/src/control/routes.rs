//! What can be asked, and the answers.

use bytes::Bytes;
use evb::run_control::{Command, Refusal, RunControl};
use evb_core::{id::BuilderId, units::Frequency};
use http_body_util::Full;
use hyper::{
    Method, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An answer: its status and its JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    body: Value,
}

/// A builder to be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBuilder {
    id: u16,
}

/// How often to trigger.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRate {
    rate: String,
}

impl Answer {
    fn done(body: impl Serialize) -> Self {
        match serde_json::to_value(body) {
            Ok(body) => Self { status: StatusCode::OK, body },
            Err(error) => {
                Self::turned_away(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), "report it")
            }
        }
    }

    fn refused(refusal: &Refusal) -> Self {
        Self { status: StatusCode::CONFLICT, body: json!(refusal) }
    }

    /// The request itself is no good.
    pub(super) fn turned_away(status: StatusCode, reason: &str, remedy: &str) -> Self {
        let body = json!({ "refused_by": "the control interface", "reason": reason, "remedy": remedy });
        Self { status, body }
    }

    pub(super) fn reason(&self) -> &str {
        self.body.get("reason").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(format!("{:#}\n", self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Does what is asked.
pub(super) async fn answer(lead: &RunControl, method: &Method, path: &str, body: &[u8]) -> Answer {
    let Some(what) = path.strip_prefix("/v1/") else { return unknown(path) };
    if method == Method::POST
        && let Ok(command) = what.parse::<Command>()
    {
        let done = lead.command(command).await.map(|state| Answer::done(json!({ "state": state })));
        return done.unwrap_or_else(|refusal| Answer::refused(&refusal));
    }
    let outcome = match (method, what) {
        (&Method::GET, "status") => lead.status().await.map(Answer::done),
        (&Method::POST, "builders") => match parse::<NewBuilder>(body, "{\"id\": 5}") {
            Ok(NewBuilder { id }) => {
                let added = lead.add_builder(BuilderId::new(id)).await;
                added.map(|()| Answer::done(json!({ "builder": id })))
            }
            Err(answer) => return answer,
        },
        (&Method::PUT, "trigger") => match parse_rate(body) {
            Ok(rate) => lead.set_rate(rate).await.map(|()| Answer::done(json!({ "rate": rate.to_string() }))),
            Err(answer) => return answer,
        },
        (&Method::DELETE, what) if what.starts_with("builders/") => {
            let Ok(id) = what.trim_start_matches("builders/").parse::<u16>() else { return unknown(path) };
            let removed = lead.remove_builder(BuilderId::new(id)).await;
            removed.map(|()| Answer::done(json!({ "builder": id })))
        }
        _ if is_known(what) => {
            return Answer::turned_away(
                StatusCode::METHOD_NOT_ALLOWED,
                "that is there, but not by this method",
                "GET status; POST commands and builders; PUT trigger; DELETE builders/ID",
            );
        }
        _ => return unknown(path),
    };
    outcome.unwrap_or_else(|refusal| Answer::refused(&refusal))
}

fn is_known(what: &str) -> bool {
    what == "status"
        || what == "trigger"
        || what == "builders"
        || what.starts_with("builders/")
        || what.parse::<Command>().is_ok()
}

fn parse<'b, T: Deserialize<'b>>(body: &'b [u8], example: &str) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| {
        let remedy = format!("send for example {example}");
        Answer::turned_away(StatusCode::BAD_REQUEST, &error.to_string(), &remedy)
    })
}

fn parse_rate(body: &[u8]) -> Result<Frequency, Answer> {
    let NewRate { rate } = parse(body, "{\"rate\": \"2 kHz\"}")?;
    rate.parse().map_err(|error: evb_core::units::UnitError| {
        Answer::turned_away(
            StatusCode::BAD_REQUEST,
            &error.to_string(),
            "send for example {\"rate\": \"2 kHz\"}",
        )
    })
}

fn unknown(path: &str) -> Answer {
    let reason = format!("there is no {}", path.chars().take(80).collect::<String>());
    Answer::turned_away(
        StatusCode::NOT_FOUND,
        &reason,
        "GET /v1/status; POST /v1/{configure,start,stop,pause,resume,reset,builders}; PUT /v1/trigger; DELETE /v1/builders/ID",
    )
}
