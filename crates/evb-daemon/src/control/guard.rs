//! Who may ask. A web page in a browser on this machine is a stranger: its requests come from loopback, so they are told by
//! their headers.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
};

use super::{routes::Answer, token::Token};

/// Checks every request before anything is done for it.
pub(super) struct Guard {
    token: Option<Token>,
    host: String,
}

impl Guard {
    /// `host` is where the server listens, as configured.
    pub(super) fn new(token: Option<Token>, host: &str) -> Self {
        Self { token, host: host.to_ascii_lowercase() }
    }

    /// # Errors
    /// The answer to a request that is turned away.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Answer> {
        self.check_site(headers)?;
        if let Some(token) = &self.token {
            let given = text(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
            if !given.is_some_and(|given| token.is(given)) {
                let reason = if given.is_some() { "the token is wrong" } else { "a token is required" };
                return Err(Answer::turned_away(
                    StatusCode::UNAUTHORIZED,
                    reason,
                    "send `Authorization: Bearer TOKEN` with the content of the token file",
                ));
            }
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
        Ok(())
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
                "ask by address, as http://127.0.0.1:7900, or by the configured name",
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
        host == "localhost" || host == self.host || host.parse::<IpAddr>().is_ok()
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
