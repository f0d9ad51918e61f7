//! The client of run control: sends one request and receives one answer.

use std::{fmt::Display, io, path::Path, time::Duration};

use bytes::Bytes;
use evb_config::{Endpoint, EndpointError};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, TE},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

use crate::control::Token;

/// Time limit of an answer; a start takes seconds while it waits for missing peers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for a start, which waits for `on_start` of the sources.
const START_PATIENCE: Duration = Duration::from_secs(600);

/// The remedy for a request without an answer.
const LOOK: &str = "check that evbd still runs there, and the network to it, then see with `evbd ctl status` whether the command took effect";

/// Length of the longest answer that is read, in bytes.
const ANSWER: usize = 16 << 20;

/// The reason why a command got no answer, or was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The arguments, the configuration or the token file are wrong.
    #[error("{0}")]
    Operator(String),
    /// No connection to the address was possible.
    #[error(
        "run control does not answer at {address}, so the command was not given: {reason}; start evbd there with a section [control] or with --control, or give its address with --url or --config"
    )]
    Unreachable {
        /// Address of run control.
        address: Endpoint,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The process at the address is not evbd, or it closed the connection before its answer.
    #[error("run control at {address} gave no answer that can be used: {reason}")]
    NoAnswer {
        /// Address of run control.
        address: Endpoint,
        /// Description of the failure.
        reason: String,
    },
    /// The configuration cannot be used. Its error begins with its severity.
    #[error("{0}")]
    Config(String),
    /// The daemon refused the command.
    #[error("{}", super::table::refusal(answer).trim_end())]
    Refused {
        /// True if state or circumstances forbid the command; false if the request was invalid.
        is_transition: bool,
        /// The daemon's answer: the refusing party, the reason and the remedy.
        answer: Value,
    },
}

/// A client for the run control of one daemon.
pub(crate) struct Client {
    address: Endpoint,
    token: Option<Token>,
    runtime: tokio::runtime::Runtime,
}

/// Returns the host and port in a URL, or in the text `HOST:PORT`.
pub(crate) fn address(url: &str) -> Result<Endpoint, AskError> {
    let wrong = |reason: &str| {
        let shown = without_user(url);
        Err(AskError::Operator(format!(
            "the address `{shown}` cannot be used: {reason}; write http://HOST:PORT, as http://127.0.0.1:7900"
        )))
    };
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
            return wrong("evbd speaks HTTP without TLS, and `evbd ctl` cannot use a proxy that adds TLS");
        }
        Some((scheme, _)) => return wrong(&format!("evbd does not speak `{scheme}`")),
        None => url,
    };
    let authority = rest.trim_end_matches('/');
    let authority = authority.strip_suffix("/v1").unwrap_or(authority).trim_end_matches('/');
    if authority.contains('@') {
        return wrong("it names a user, but evbd takes a secret from a file only (--token-file FILE)");
    }
    authority.parse().or_else(|error: EndpointError| wrong(&error.to_string()))
}

/// Returns a URL without the name and password of a user, so that no message shows them.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((user, rest)) => {
            let scheme = user.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
            format!("{scheme}…@{rest}")
        }
        None => url.to_owned(),
    }
}

impl Client {
    /// Creates a client of run control at this address.
    pub(crate) fn new(address: Endpoint, token_file: Option<&Path>) -> Result<Self, AskError> {
        let operator = |error: &dyn Display| AskError::Operator(error.to_string());
        let token = token_file.map(Token::read).transpose().map_err(|error| operator(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            operator(&format_args!(
                "the operating system refused the request an open file: {error}; raise the limits of this shell, which `ulimit -a` shows"
            ))
        })?;
        Ok(Self { address, token, runtime })
    }

    /// Sends a request and returns the daemon's answer.
    pub(crate) fn ask(&self, method: &str, what: &str, body: Option<Value>) -> Result<Value, AskError> {
        let failed = |reason: String| AskError::NoAnswer { address: self.address.clone(), reason };
        let patience = if what == "start" { START_PATIENCE } else { PATIENCE };
        let asked = async { self.whole(self.exchange(method, what, body).await?).await };
        let asked = self.runtime.block_on(async {
            timeout(patience, asked)
                .await
                .unwrap_or_else(|_| Err(failed(format!("none came within {} s; {LOOK}", patience.as_secs()))))
        });
        let (status, text) = asked?;
        self.judge(status, &text)
    }

    /// Returns the answer in a text, or the refusal.
    fn judge(&self, status: StatusCode, text: &[u8]) -> Result<Value, AskError> {
        let failed = |reason: String| AskError::NoAnswer { address: self.address.clone(), reason };
        let answer: Value = serde_json::from_slice(text).map_err(|_| {
            failed("the answer is not in evbd's form, so another program listens there; give the address of run control with --url or --config".to_owned())
        })?;
        if status.is_success() {
            return Ok(answer);
        }
        Err(AskError::Refused { is_transition: status == StatusCode::CONFLICT, answer })
    }

    /// Sends a request on a new connection, and returns the response.
    async fn exchange(
        &self,
        method: &str,
        what: &str,
        body: Option<Value>,
    ) -> Result<Response<Incoming>, AskError> {
        let failed = |error: &dyn Display| self.failed(error);
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port))
            .await
            .map_err(|reason| AskError::Unreachable { address: self.address.clone(), reason })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v1/{what}"))
            .header(HOST, self.address.to_string())
            .header(TE, "trailers")
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.bearer());
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body)).map_err(|error| failed(&error))?;
        sender.send_request(request).await.map_err(|error| failed(&error))
    }

    async fn whole(&self, answer: Response<Incoming>) -> Result<(StatusCode, Bytes), AskError> {
        let (status, body) = (answer.status(), answer.into_body());
        let text = Limited::new(body, ANSWER).collect().await.map_err(|error| self.failed(&error))?;
        Ok((status, text.to_bytes()))
    }

    fn failed(&self, error: &dyn Display) -> AskError {
        AskError::NoAnswer { address: self.address.clone(), reason: format!("{error}; {LOOK}") }
    }

    /// Sends a request whose answer has no end yet, and returns it when it begins.
    pub(crate) fn open(self, what: &str) -> Result<Streamed, AskError> {
        let opened = async {
            let asked = timeout(PATIENCE, self.exchange("GET", what, None)).await;
            let answer = asked.map_err(|error| self.failed(&error))??;
            if answer.status().is_success() {
                return Ok(answer);
            }
            let (status, text) = self.whole(answer).await?;
            Err(self.judge(status, &text).err().unwrap_or_else(|| self.failed(&status)))
        };
        let (head, body) = self.runtime.block_on(opened)?.into_parts();
        Ok(Streamed { client: self, headers: head.headers, body, rest: Bytes::new(), trailers: None })
    }
}

/// An answer that is read while it comes.
pub(crate) struct Streamed {
    client: Client,
    headers: HeaderMap,
    body: Incoming,
    /// Bytes that have come and were not read yet.
    rest: Bytes,
    trailers: Option<HeaderMap>,
}

impl Streamed {
    /// Returns a header of the answer.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns what the daemon added at the end; `None` before the end.
    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }
}

impl io::Read for Streamed {
    /// Reads the next bytes of the answer's body, and keeps its trailers when they come.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let Some(frame) = self.client.runtime.block_on(self.body.frame()) else { return Ok(0) };
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(bytes) => self.rest = bytes,
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        let length = into.len().min(self.rest.len());
        into[..length].copy_from_slice(&self.rest.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
