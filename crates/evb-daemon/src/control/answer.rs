//! [`Answer`]: the response to a request.

use bytes::Bytes;
use evb::run_control::Refusal;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

/// Header by which browsers keep an answer from the pages of other sites.
pub(super) const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The content type of most answers.
pub(super) const JSON: &str = "application/json";

/// The status and the content of a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: StatusCode,
    body: Body,
}

/// The content of an answer.
#[derive(Debug)]
enum Body {
    /// JSON that is rendered for a single request.
    Value(Value),
    /// Text that was rendered once for all clients, and its content type.
    Rendered(Bytes, &'static str),
}

impl Answer {
    /// Returns the answer to a request that was carried out.
    pub(crate) fn done(body: impl Serialize) -> Self {
        match serde_json::to_value(body) {
            Ok(body) => Self { status: StatusCode::OK, body: Body::Value(body) },
            Err(error) => Self::turned_away(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!("the answer cannot be written as JSON: {error}"),
                "this is a fault of evb: report it; the run goes on",
            ),
        }
    }

    pub(super) fn refused(refusal: &Refusal) -> Self {
        Self { status: StatusCode::CONFLICT, body: Body::Value(json!(refusal)) }
    }

    /// Returns the answer to an invalid request.
    pub(crate) fn turned_away(status: StatusCode, reason: &str, remedy: &str) -> Self {
        let body = json!({ "refused_by": "the control interface", "reason": reason, "remedy": remedy });
        Self { status, body: Body::Value(body) }
    }

    /// Names another party than run control as the one that refuses.
    pub(crate) fn by(mut self, party: &str) -> Self {
        if let Body::Value(Value::Object(body)) = &mut self.body
            && body.contains_key("refused_by")
        {
            body.insert("refused_by".to_owned(), party.into());
        }
        self
    }

    pub(super) fn rendered(outcome: Result<Bytes, Refusal>, content_type: &'static str) -> Self {
        match outcome {
            Ok(text) => Self { status: StatusCode::OK, body: Body::Rendered(text, content_type) },
            Err(refusal) => Self::refused(&refusal),
        }
    }

    /// Returns the reason and the remedy of a refusal, for the log of the operator.
    pub(crate) fn in_words(&self) -> String {
        let Body::Value(body) = &self.body else { return String::new() };
        let part = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        format!(
            "{}; nothing was changed, and nothing needs to be done unless that client is yours: then {}",
            part("reason"),
            part("remedy")
        )
    }

    /// Returns the response of HTTP.
    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let (text, content_type) = match self.body {
            Body::Value(body) => (Bytes::from(format!("{body:#}\n")), JSON),
            Body::Rendered(text, content_type) => (text, content_type),
        };
        let mut response = streamed(Full::from(text), content_type);
        *response.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Returns a response that no browser keeps, guesses the type of, or shows to the page of another
/// site.
pub(crate) fn streamed<B>(body: B, content_type: &'static str) -> Response<B> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}
