//! One request, one answer.

use std::{io, path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, StatusCode,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

use crate::{config::Endpoint, control::Token};

/// A start waits for its last sources and builders, so an answer may take some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is read, bytes.
const ANSWER: usize = 16 << 20;

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// Wrong arguments, configuration or token file.
    #[error("{0}")]
    Operator(String),
    /// Nobody is there.
    #[error(
        "no run control at {address}: {reason}; is evbd running there with a section [control] or --control? --url or --config say where it is"
    )]
    Unreachable {
        /// Where.
        address: Endpoint,
        /// The system's words.
        reason: io::Error,
    },
    /// Somebody is there that is no evbd, or has gone in between.
    #[error("run control at {address} gave no answer: {reason}")]
    NoAnswer {
        /// Where.
        address: Endpoint,
        /// Why.
        reason: String,
    },
    /// The daemon said no.
    #[error("refused")]
    Refused {
        /// By state or circumstances, and not because the request was no good.
        is_transition: bool,
        /// Who, why, and what to do.
        answer: Value,
    },
}

/// Asks one daemon.
pub(super) struct Client {
    address: Endpoint,
    token: Option<Token>,
    runtime: tokio::runtime::Runtime,
}

/// The address in a URL.
pub(super) fn address(url: &str) -> Result<Endpoint, AskError> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let authority = rest.strip_suffix("/v1").unwrap_or(rest).trim_end_matches('/');
    authority.parse().map_err(|error| {
        AskError::Operator(format!(
            "--url `{url}`: {error}; write http://HOST:PORT, as http://127.0.0.1:7900"
        ))
    })
}

impl Client {
    pub(super) fn new(address: Endpoint, token_file: Option<&Path>) -> Result<Self, AskError> {
        let operator = |error: &dyn std::fmt::Display| AskError::Operator(error.to_string());
        let token = token_file.map(Token::read).transpose().map_err(|error| operator(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| operator(&error))?;
        Ok(Self { address, token, runtime })
    }

    /// What the daemon answers.
    pub(super) fn ask(&self, method: &str, what: &str, body: Option<Value>) -> Result<Value, AskError> {
        let failed = |reason: String| AskError::NoAnswer { address: self.address.clone(), reason };
        let asked = self.runtime.block_on(async {
            timeout(PATIENCE, self.exchange(method, what, body))
                .await
                .unwrap_or_else(|_| Err(failed(format!("nothing within {} s", PATIENCE.as_secs()))))
        });
        let (status, text) = asked?;
        let answer: Value = serde_json::from_slice(&text)
            .map_err(|_| failed("what came is not JSON; is that an evbd?".to_owned()))?;
        if status.is_success() {
            return Ok(answer);
        }
        Err(AskError::Refused { is_transition: status == StatusCode::CONFLICT, answer })
    }

    async fn exchange(
        &self,
        method: &str,
        what: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Bytes), AskError> {
        let failed = |error: &dyn std::fmt::Display| AskError::NoAnswer {
            address: self.address.clone(),
            reason: error.to_string(),
        };
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
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.bearer());
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body)).map_err(|error| failed(&error))?;
        let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let text =
            Limited::new(answer.into_body(), ANSWER).collect().await.map_err(|error| failed(&error))?;
        Ok((status, text.to_bytes()))
    }
}
