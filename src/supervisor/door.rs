//! Who knocks at the supervisor: handshakes on their way, bounded in number and time.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::wire::control::Refusal;
use evb_net::{
    control::Incoming,
    handshake::{HandshakeError, RefusalLog, words},
};
use tokio::net::TcpListener;

/// Handshakes that may be under way at once; more wait in the kernel's queue (docs/protocol.md CONN-7).
const LIMIT: usize = 64;

type Greeting = Pin<Box<dyn Future<Output = (SocketAddr, Result<Incoming, HandshakeError>)> + Send>>;

/// The listener, and handshakes on their way.
pub(super) struct Door {
    listener: TcpListener,
    greetings: Vec<Greeting>,
    log: RefusalLog,
}

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, greetings: Vec::new(), log: RefusalLog::new("supervisor") }
    }

    /// The next peer that has said hello.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        while self.greetings.len() < LIMIT {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => {
                    self.greetings
                        .push(Box::pin(async move { (peer, Incoming::accept(stream, peer).await) }));
                }
                Poll::Ready(Err(error)) => {
                    // Out of descriptors, or the peer has gone: the next heartbeat tries again.
                    tracing::warn!(%error, "cannot accept a connection");
                    break;
                }
                Poll::Pending => break,
            }
        }
        let mut index = 0;
        while index < self.greetings.len() {
            let Poll::Ready((peer, greeting)) = self.greetings[index].as_mut().poll(cx) else {
                index += 1;
                continue;
            };
            drop(self.greetings.swap_remove(index));
            match greeting {
                Ok(incoming) => return Poll::Ready(incoming),
                Err(error) => self.log.record(peer, &error),
            }
        }
        Poll::Pending
    }

    /// Turns a peer away, with words for it and for the log.
    pub(super) fn refuse(&mut self, incoming: Incoming, refusal: Refusal) {
        self.log.record(incoming.peer(), &words(&refusal));
        incoming.refuse(refusal);
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("greetings", &self.greetings.len()).finish_non_exhaustive()
    }
}
