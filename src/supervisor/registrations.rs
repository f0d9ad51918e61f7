//! The supervisor's listener, and its handshakes under way, which are limited in number and time.

use std::{
    fmt,
    task::{Context, Poll},
};

use evb_core::{
    time::Instant,
    wire::control::{Refusal, RefusalReport},
};
use evb_net::{
    class::TrafficClass,
    control::{ControlLink, Incoming},
    handshake::words,
    security::Security,
};
use tokio::net::TcpListener;

use crate::role::{self, Greetings};

/// The listener and its handshakes under way.
pub(crate) struct Registrations {
    greetings: Greetings<Incoming>,
    class: TrafficClass,
}

impl Registrations {
    pub(super) fn new(listener: TcpListener, peers: usize, class: TrafficClass, security: Security) -> Self {
        let greetings = Greetings::new("the supervisor", listener, peers, move |stream, peer| {
            let security = security.clone();
            Box::pin(async move { Incoming::accept_secured(stream, peer, &security).await })
        });
        Self { greetings, class }
    }

    /// Marks the packets of an accepted peer's connection. A refusal by the operating system is
    /// only logged, because nothing depends on the mark.
    pub(super) fn classify(&self, link: &ControlLink) {
        role::classify(link, self.class);
    }

    /// Returns the counts of connections that were refused.
    pub(super) fn refusals(&self) -> RefusalReport {
        self.greetings.refusals()
    }

    /// Counts a peer's connection that ended because of bytes without a valid tag.
    pub(super) fn count_forged(&mut self) {
        self.greetings.count_forged();
    }

    /// Returns the next peer that has sent its hello.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Incoming> {
        self.greetings.poll(cx, now).map(|(incoming, _)| incoming)
    }

    /// Refuses a peer, and tells the reason to the peer and the log.
    pub(super) fn refuse(&mut self, incoming: Incoming, refusal: Refusal) {
        self.greetings.record_refusal(incoming.peer(), &words(&refusal));
        incoming.refuse(refusal);
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations").field("greetings", &self.greetings.len()).finish_non_exhaustive()
    }
}
