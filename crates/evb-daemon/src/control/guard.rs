//! Who may ask. A web page in a browser on this machine is a stranger: its requests come from loopback, so they are told by
//! their headers.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
};

use serde::Serialize;

use super::{answer::Answer, token::Token};

/// Checks every request before anything is done for it.
pub(super) struct Guard {
    token: Option<Token>,
    viewers: Viewers,
    /// Where the server listens, and what else it is called; lower case.
    names: Vec<String>,
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Access {
    /// Everything.
    Operator,
    /// Look.
    Viewer,
}

/// Who may look without the token that commands need.
pub(super) enum Viewers {
    /// Nobody.
    None,
    /// Everybody.
    Anyone,
    /// Who has that other token.
    With(Token),
}

impl Guard {
    /// `names` are where the server listens, as configured, and what else it is called.
    pub(super) fn new(
        token: Option<Token>,
        viewers: Viewers,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { token, viewers, names }
    }

    /// What the request may do.
    ///
    /// # Errors
    /// The answer to a request that is turned away.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<Access, Answer> {
        self.check_site(headers)?;
        let access = self.access(headers)?;
        if access == Access::Viewer && method != Method::GET {
            return Err(forbidden(
                "viewers may not give commands",
                "send `Authorization: Bearer TOKEN` with the content of the token file",
            ));
        }
        let is_json = text(headers, &CONTENT_TYPE).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        // Pages can send other types without asking first.
        if (method == Method::POST || method == Method::PUT) && !is_json {
            return Err(Answer::turned_away(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "commands are taken as JSON only",
                "send `Content-Type: application/json`",
            ));
        }
        Ok(access)
    }

    fn access(&self, headers: &HeaderMap) -> Result<Access, Answer> {
        let Some(token) = &self.token else { return Ok(Access::Operator) };
        let given = text(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match (given, &self.viewers) {
            (Some(given), _) if token.is(given) => Ok(Access::Operator),
            (Some(given), Viewers::With(own)) if own.is(given) => Ok(Access::Viewer),
            (None, Viewers::Anyone) => Ok(Access::Viewer),
            (given, _) => {
                let reason = if given.is_some() { "the token is wrong" } else { "a token is required" };
                Err(Answer::turned_away(
                    StatusCode::UNAUTHORIZED,
                    reason,
                    "send `Authorization: Bearer TOKEN` with the content of the token file",
                ))
            }
        }
    }

    /// Whether the request names this host, and comes from no other site: all that the page itself needs.
    ///
    /// # Errors
    /// The answer to a request that is turned away.
    pub(super) fn check_site(&self, headers: &HeaderMap) -> Result<(), Answer> {
        let host = text(headers, &HOST).unwrap_or_default();
        if !self.is_ours(host) {
            // A name that somebody else lets point here: DNS rebinding.
            let reason = format!("the host `{}` is not this one", short(host));
            return Err(forbidden(
                &reason,
                "ask by address, as http://127.0.0.1:7900, or by a name that `control.names` gives",
            ));
        }
        if let Some(origin) = text(headers, &ORIGIN)
            && origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) != Some(host)
        {
            let reason = format!("the request was made by a page of `{}`", short(origin));
            return Err(forbidden(&reason, "pages of other sites may not give commands"));
        }
        Ok(())
    }

    /// An address cannot be made to point elsewhere; of names only those that are known.
    fn is_ours(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let host = host.to_ascii_lowercase();
        host == "localhost" || self.names.contains(&host) || host.parse::<IpAddr>().is_ok()
    }
}

/// Without port and brackets.
fn host_of(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    // One that is not text is as good as a foreign one.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn forbidden(reason: &str, remedy: &str) -> Answer {
    Answer::turned_away(StatusCode::FORBIDDEN, reason, remedy)
}
