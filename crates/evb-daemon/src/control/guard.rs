//! The check that every HTTP request to run control must pass. A web page in a browser on this
//! machine is foreign, although its requests come from loopback: the check recognises such a page
//! by the headers of its requests.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
    http::request::Parts,
};

use serde::Serialize;

use super::{answer::Answer, token::Token};

const RUN_CONTROL: (&str, &str) = (
    "run control",
    "give the content of the file that `control.token_file` names: `evbd ctl --token-file FILE`, the field of the page, or the header `Authorization: Bearer TOKEN`",
);

const TAP: (&str, &str) = (
    "this tap",
    "give the content of the file that `builder.tap.key_file` names: `evbd tap --key-file FILE`, or the header `Authorization: Bearer TOKEN`",
);

/// The check that every request must pass first.
pub(crate) struct Guard {
    /// The name of what is guarded, and the remedy for a client without the token.
    of: (&'static str, &'static str),
    token: Option<Token>,
    viewers: Viewers,
    /// The host of the listening address and the other names of this host, in lower case and
    /// without a final dot.
    names: Vec<String>,
}

/// The rights of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// The request may give all commands.
    Operator,
    /// The request may only read.
    Viewer,
}

/// The clients that may read without the token that commands need.
pub(super) enum Viewers {
    /// No client may read without the token for commands.
    None,
    /// All clients may read.
    Anyone,
    /// Clients with the given second token may read.
    With(Token),
}

impl Guard {
    /// Creates a guard; `names` are the listening host as configured and the other names of this
    /// host.
    pub(super) fn new(
        token: Option<Token>,
        viewers: Viewers,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        let names = names.into_iter().map(|name| plain_name(&name)).collect();
        Self { of: RUN_CONTROL, token, viewers, names }
    }

    /// Creates the guard of a tap.
    pub(crate) fn of_tap(token: Option<Token>, names: impl IntoIterator<Item = String>) -> Self {
        Self { of: TAP, ..Self::new(token, Viewers::None, names) }
    }

    /// Returns the rights of a request.
    ///
    /// # Errors
    /// The answer to a request that is turned away.
    pub(crate) fn check(&self, head: &Parts) -> Result<Access, Answer> {
        self.check_site(head)?;
        let (method, headers) = (&head.method, &head.headers);
        let access = self.access(headers)?;
        if access == Access::Viewer && !is_look(method) {
            return Err(forbidden(
                "viewers may look, but not give commands",
                "give the token for commands (`control.token_file`): `evbd ctl --token-file FILE`, the field of the page, or the header `Authorization: Bearer TOKEN`",
            ));
        }
        let is_json = text(headers, &CONTENT_TYPE).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        // Pages of other sites can send other content types without a preflight request.
        if (method == Method::POST || method == Method::PUT) && !is_json {
            return Err(Answer::turned_away(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the request does not say that its body is JSON, and commands are taken as JSON only",
                "send `Content-Type: application/json`",
            ));
        }
        Ok(access)
    }

    /// Returns what the token of a request permits, or refuses the request.
    fn access(&self, headers: &HeaderMap) -> Result<Access, Answer> {
        let Some(token) = &self.token else { return Ok(Access::Operator) };
        let given = text(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match (given, &self.viewers) {
            (Some(given), _) if token.is(given) => Ok(Access::Operator),
            (Some(given), Viewers::With(own)) if own.is(given) => Ok(Access::Viewer),
            (None, Viewers::Anyone) => Ok(Access::Viewer),
            (given, _) => {
                let (guarded, remedy) = self.of;
                let reason = match given {
                    Some(_) => "the token of the request is wrong".to_owned(),
                    None => format!("{guarded} requires a token, and the request has none"),
                };
                Err(Answer::turned_away(StatusCode::UNAUTHORIZED, &reason, remedy))
            }
        }
    }

    /// Checks that the request names this host and does not come from a page of another site. This
    /// check is enough for the files of the web page.
    ///
    /// # Errors
    /// The answer to a request that is turned away.
    pub(super) fn check_site(&self, head: &Parts) -> Result<(), Answer> {
        check_form(head)?;
        let headers = &head.headers;
        let host = text(headers, &HOST).unwrap_or_default();
        if !self.is_ours(host) {
            // The request names another domain that resolves to this host: DNS rebinding.
            let (guarded, _) = self.of;
            let reason = format!(
                "the request is for the host `{}`, which {guarded} does not know as a name of its own host",
                short(host)
            );
            return Err(forbidden(
                &reason,
                "use the IP address of that host in the URL, or add the name to `control.names`",
            ));
        }
        if let Some(origin) = text(headers, &ORIGIN)
            && origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) != Some(host)
        {
            let reason = format!("the request was made by a page of `{}`", short(origin));
            return Err(forbidden(
                &reason,
                "open the page of evbd itself: pages of other sites may not give commands",
            ));
        }
        Ok(())
    }

    /// Returns true if `authority` names an address, which DNS cannot redirect, or a known host.
    fn is_ours(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let host = plain_name(host);
        host == "localhost" || self.names.contains(&host) || host.parse::<IpAddr>().is_ok()
    }
}

/// Returns true if a request of this method only reads.
pub(super) fn is_look(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Checks that the head of a request has one meaning only (RFC 9112, section 3.2): a proxy in front
/// of run control might see another one.
fn check_form(head: &Parts) -> Result<(), Answer> {
    let turned_away = |reason: &str, remedy: &str| {
        let remedy = format!(
            "{remedy}, as browsers and `evbd ctl` do: look at the program that sent it, or a proxy in between"
        );
        Err(Answer::turned_away(StatusCode::BAD_REQUEST, reason, &remedy))
    };
    let bad = |reason: &str| {
        turned_away(reason, "send one header line `Host: HOST:PORT`, and the path alone in the first line")
    };
    for name in [HOST, ORIGIN, AUTHORIZATION, CONTENT_TYPE] {
        if head.headers.get_all(&name).iter().nth(1).is_some() {
            return turned_away(
                &format!("the HTTP request has more than one header line `{name}`"),
                "send that header line once only",
            );
        }
    }
    let host = text(&head.headers, &HOST).unwrap_or_default();
    if host.contains('@') {
        return bad("the header line `Host` of the HTTP request names a user");
    }
    match head.uri.authority() {
        Some(authority) if authority.as_str() != host => {
            bad("the first line of the HTTP request names another host than its header line `Host`")
        }
        _ => Ok(()),
    }
}

/// Returns the name of a host in lower case and without the final dot of an absolute name.
fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns the host in `authority` without port and brackets.
fn host_of(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    // A header value that is not text counts as foreign.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn forbidden(reason: &str, remedy: &str) -> Answer {
    Answer::turned_away(StatusCode::FORBIDDEN, reason, remedy)
}
