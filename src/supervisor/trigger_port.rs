//! External triggers by network: lines over TCP, datagrams, or the announcements of a multicast
//! group (docs/reference/triggers.md).

#[cfg(test)]
mod tests;

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    supervisor::SupervisorRole,
    time::Instant,
    trigger::announcement::{Asked, MAX_LINE, parse_line},
};
use evb_net::{handshake::RefusalLog, resolve::resolve};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpListener, TcpStream},
};

use super::SupervisorError;
use crate::trigger_feed::TriggerListener;

/// Limit of the number of TCP connections at once; further connections wait in the kernel's queue.
const CLIENTS: usize = 16;

/// Limit of the trigger messages that are taken in one turn.
const BATCH: usize = 64;

/// Source of external triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerInput {
    /// Lines over TCP at the given `host:port`: a count, or an empty line for one trigger.
    Tcp(String),
    /// Datagrams at the given `host:port`: a count as text, or an announcement.
    Udp(String),
    /// Datagrams to a multicast group, as in [`Self::Udp`].
    Multicast {
        /// Address and port of the group.
        group: SocketAddr,
        /// The local address (IPv4) or the name of the interface; `None` leaves the choice to the
        /// routing table.
        interface: Option<String>,
    },
}

/// Listens for external triggers.
#[derive(Debug)]
pub(super) enum TriggerPort {
    Lines { listener: TcpListener, clients: Vec<Client>, log: RefusalLog },
    Datagrams { listener: TriggerListener },
}

#[derive(Debug)]
pub(super) struct Client<S = TcpStream> {
    stream: S,
    address: SocketAddr,
    line: Vec<u8>,
    /// Bytes that were read but not parsed yet.
    input: Vec<u8>,
}

impl TriggerPort {
    /// Opens the configured port for triggers.
    pub(super) async fn open(input: &TriggerInput) -> Result<Self, SupervisorError> {
        match input {
            TriggerInput::Tcp(address) => {
                let fault = |reason| SupervisorError::Listen { address: address.clone(), reason };
                let listener = TcpListener::bind(&resolve(address).await?[..]).await.map_err(fault)?;
                Ok(Self::Lines { listener, clients: Vec::new(), log: RefusalLog::new("the trigger port") })
            }
            TriggerInput::Udp(address) => {
                let fault = |reason| SupervisorError::Listen { address: address.clone(), reason };
                let listener = TriggerListener::bind(&resolve(address).await?).await.map_err(fault)?;
                Ok(Self::Datagrams { listener })
            }
            TriggerInput::Multicast { group, interface } => {
                let fault = |reason| SupervisorError::Multicast { group: *group, reason };
                let listener = TriggerListener::join(*group, interface.as_deref()).map_err(fault)?;
                Ok(Self::Datagrams { listener })
            }
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Lines { listener, .. } => listener.local_addr().ok(),
            Self::Datagrams { listener } => listener.address().ok(),
        }
    }

    /// Passes trigger requests to the supervisor's state machine. Returns true if more requests may
    /// be waiting.
    pub(super) fn feed(&mut self, cx: &mut Context<'_>, role: &mut SupervisorRole, now: Instant) -> bool {
        for _ in 0..BATCH {
            let Poll::Ready(asked) = self.poll(cx) else { return false };
            role.handle_trigger(asked, now);
        }
        true
    }

    /// Returns the next trigger request.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Asked> {
        match self {
            Self::Datagrams { listener } => listener.poll_asked(cx),
            Self::Lines { listener, clients, log } => loop {
                // More clients wait in the kernel's queue.
                while clients.len() < CLIENTS
                    && let Poll::Ready(Ok((stream, address))) = listener.poll_accept(cx)
                {
                    clients.push(Client::new(stream, address));
                }
                let (mut index, before) = (0, clients.len());
                while index < clients.len() {
                    match clients[index].poll_line(cx) {
                        Poll::Pending => index += 1,
                        Poll::Ready(Ok(count)) => {
                            // All other clients have their turn before this client is polled again.
                            clients.rotate_left(index + 1);
                            return Poll::Ready(Asked::Count(count));
                        }
                        Poll::Ready(Err(reason)) => {
                            let client = clients.swap_remove(index);
                            if let Some(reason) = reason {
                                log.record(
                                    format_args!("closed the connection of the trigger program at {}, whose triggers it takes again when that connects again", client.address),
                                    &reason,
                                );
                            }
                        }
                    }
                }
                // The place of a client that has left is for one that waits in the kernel's queue.
                if clients.len() == before {
                    return Poll::Pending;
                }
            },
        }
    }
}

impl<S: AsyncRead + Unpin> Client<S> {
    pub(super) fn new(stream: S, address: SocketAddr) -> Self {
        Self { stream, address, line: Vec::new(), input: Vec::new() }
    }

    /// Returns the count of the next line. An error ends the client; it has no reason if the client
    /// just closed the connection.
    pub(super) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Option<String>>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                self.line.extend(self.input.drain(..=end));
                let count = parse_line(self.line.strip_suffix(b"\n").unwrap_or(&self.line));
                self.line.clear();
                return Poll::Ready(count.map_err(|error| Some(error.to_string())));
            }
            self.line.append(&mut self.input);
            if self.line.len() > MAX_LINE {
                return Poll::Ready(Err(Some(format!(
                    "a line has more than {MAX_LINE} bytes; let it send one number in each line"
                ))));
            }
            let mut chunk = [0; 512];
            let mut buffer = ReadBuf::new(&mut chunk);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Err(None)),
                Poll::Ready(Ok(())) => self.input.extend_from_slice(buffer.filled()),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Some(broken(&error)))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Returns the words for a connection that broke.
fn broken(error: &io::Error) -> String {
    format!("the connection broke: {error}; look at the trigger program and the network")
}
