//! Run control over HTTP and JSON: a small server in front of [`RunControl`]. The server has a
//! thread of its own, so that no request can delay the supervisor.

mod token;
mod answer;
mod guard;
mod page;
mod metrics;
mod rendered;
mod connection_limit;
mod connections;
mod routes;
mod listener;

use std::{io, net::SocketAddr, sync::Arc};

use evb::run_control::RunControl;
use evb_config::{ControlConfig, Endpoint, ViewersEntry};

use crate::hooks::Hooks;
use guard::Viewers;

pub(crate) use answer::{Answer, streamed};
pub(crate) use connection_limit::Busy;
pub(crate) use connections::serve;
pub(crate) use guard::Guard;
pub(crate) use token::{Token, TokenError};

/// HTTP server of run control, which answers requests until the process ends.
pub(crate) struct Server {
    address: SocketAddr,
}

/// The reason why the server of run control cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The token file cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server cannot listen at the configured address.
    #[error(
        "run control cannot listen on {address}: {reason}; give a free address of this host as `control.listen`, or stop the program that uses this one"
    )]
    Listen {
        /// Address as configured.
        address: Endpoint,
        /// Error of the operating system.
        reason: io::Error,
    },
}

impl Server {
    /// Listens at the configured address, and starts to answer requests.
    pub(crate) fn start(lead: RunControl, config: &ControlConfig, hooks: Hooks) -> Result<Self, ServerError> {
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        let viewers = match &config.viewers {
            ViewersEntry::None => Viewers::None,
            ViewersEntry::Anyone => Viewers::Anyone,
            ViewersEntry::TokenFile(path) => Viewers::With(Token::read(path)?),
        };
        let fault = |reason| ServerError::Listen { address: config.listen.clone(), reason };
        let bound = std::net::TcpListener::bind((config.listen.host.as_str(), config.listen.port));
        let bound = bound.map_err(fault)?;
        let address = bound.local_addr().map_err(fault)?;
        let names = config.names.iter().chain([&config.listen.host]).cloned();
        let guard = Arc::new(Guard::new(token, viewers, names));
        listener::start(bound, (lead, hooks), guard).map_err(fault)?;
        Ok(Self { address })
    }

    /// Returns the address at which the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
