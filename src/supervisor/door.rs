//! Who knocks at the supervisor: handshakes on their way, bounded in number and time.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    time::Instant,
    wire::control::{Refusal, RefusalReport},
};
use evb_net::{
    class::TrafficClass,
    clock,
    control::Incoming,
    handshake::{HandshakeError, RefusalLog, words},
    security::Security,
};
use tokio::net::TcpListener;

use crate::role::{GREETING_PATIENCE, GREETINGS};

type Greeting = Pin<Box<dyn Future<Output = Result<Incoming, HandshakeError>> + Send>>;

/// The listener, and handshakes on their way.
pub(super) struct Door {
    listener: TcpListener,
    greetings: Vec<(Instant, SocketAddr, Greeting)>,
    log: RefusalLog,
    class: TrafficClass,
    security: Security,
}

impl Door {
    pub(super) fn new(listener: TcpListener, class: TrafficClass, security: Security) -> Self {
        Self { listener, greetings: Vec::new(), log: RefusalLog::new("supervisor"), class, security }
    }

    /// How the connections of those let in are marked.
    pub(super) fn class(&self) -> TrafficClass {
        self.class
    }

    /// Who was turned away.
    pub(super) fn refusals(&self) -> RefusalReport {
        self.log.counts()
    }

    /// A peer's connection ended by bytes without the right tag.
    pub(super) fn count_forged(&mut self) {
        self.log.count_forged();
    }

    /// The next peer that has said hello.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            self.accept(cx);
            let mut index = 0;
            while index < self.greetings.len() {
                let (_, peer, greeting) = &mut self.greetings[index];
                let (peer, Poll::Ready(greeted)) = (*peer, greeting.as_mut().poll(cx)) else {
                    index += 1;
                    continue;
                };
                drop(self.greetings.swap_remove(index));
                match greeted {
                    Ok(incoming) => return Poll::Ready(incoming),
                    Err(error) => self.log.record_failure(peer, &error),
                }
            }
            if !self.make_room() {
                return Poll::Pending;
            }
        }
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        while self.greetings.len() < GREETINGS {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => {
                    if !self.log.admits(peer, self.greetings.iter().map(|greeting| greeting.1)) {
                        continue;
                    }
                    let security = self.security.clone();
                    let greeting = async move { Incoming::accept_secured(stream, peer, &security).await };
                    self.greetings.push((clock::now(), peer, Box::pin(greeting)));
                }
                Poll::Ready(Err(error)) => {
                    // Out of descriptors, or the peer has gone: the next heartbeat tries again.
                    self.log.record("listener", &error);
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Sends those away that block a full door in silence; whether anybody.
    fn make_room(&mut self) -> bool {
        let (before, now) = (self.greetings.len(), clock::now());
        if before < GREETINGS {
            return false;
        }
        let log = &mut self.log;
        self.greetings.retain(|(since, peer, _)| {
            let stays = now.since(*since) < GREETING_PATIENCE;
            if !stays {
                log.record_silence(*peer);
            }
            stays
        });
        self.greetings.len() < before
    }

    /// Turns a peer away, with words for it and for the log.
    pub(super) fn refuse(&mut self, incoming: Incoming, refusal: Refusal) {
        self.log.record_refusal(incoming.peer(), &words(&refusal));
        incoming.refuse(refusal);
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("greetings", &self.greetings.len()).finish_non_exhaustive()
    }
}
