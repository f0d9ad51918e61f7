//! The control connections of all peers.

#[cfg(test)]
mod tests;

use std::{
    num::NonZeroU32,
    task::{Context, Poll},
};

use bytes::BytesMut;
use evb_core::{id::Peer, supervisor::Recipients, time::Instant, wire::control::Control};
use evb_net::control::{ControlLink, LinkError, encode_into};
use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

/// Number of messages that are read from one peer before the next peer's turn.
const FAIR_SHARE: usize = 32;

/// Limit of the messages per second that are read from one peer; a builder that settles 160 000
/// events a second in groups of four sends 40 000. Further messages wait in the peer's own buffers.
const MESSAGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(50_000).unwrap();

/// Number of messages that may be read from one peer at once, after a pause.
const BURST: NonZeroU32 = NonZeroU32::new(5_000).unwrap();

/// The control connection of a peer.
#[derive(Debug)]
struct Link {
    link: ControlLink,
    budget: DefaultDirectRateLimiter,
    /// Time until which no message is read from a peer that has exceeded its share.
    deaf_until: Option<Instant>,
    warned: bool,
}

impl Link {
    fn new(link: ControlLink) -> Self {
        let budget = RateLimiter::direct(Quota::per_second(MESSAGES_PER_SECOND).allow_burst(BURST));
        Self { link, budget, deaf_until: None, warned: false }
    }

    fn is_heard(&mut self, now: Instant) -> bool {
        self.deaf_until = self.deaf_until.filter(|until| now < *until);
        self.deaf_until.is_none()
    }

    /// Counts a message of the peer against its share.
    fn count(&mut self, peer: Peer, now: Instant) {
        let Err(wait) = self.budget.check() else { return };
        self.deaf_until = Some(now + wait.wait_time_from(DefaultClock::default().now()));
        if !self.warned {
            self.warned = true;
            tracing::warn!(%peer, "the peer sends more than {MESSAGES_PER_SECOND} control messages a second: the supervisor reads the rest later");
        }
    }
}

/// Control connections, with one place per expected peer: sources in the order of the roster, then
/// builders.
#[derive(Debug)]
pub(super) struct Links {
    peers: Vec<Peer>,
    links: Vec<Option<Link>>,
    sources: usize,
    scratch: BytesMut,
    lost: Vec<(Peer, LinkError)>,
}

impl Links {
    pub(super) fn new(peers: &[Peer]) -> Self {
        let mut peers = peers.to_vec();
        peers.sort_unstable();
        let links = peers.iter().map(|_| None).collect();
        let sources = peers.iter().filter(|peer| matches!(peer, Peer::Source(_))).count();
        Self { peers, links, sources, scratch: BytesMut::new(), lost: Vec::new() }
    }

    /// Adds a place for a peer; builders follow sources.
    pub(super) fn add(&mut self, peer: Peer) {
        if let Err(index) = self.peers.binary_search(&peer) {
            self.peers.insert(index, peer);
            self.links.insert(index, None);
        }
    }

    /// Sets the connection of a peer, and closes an earlier connection of the same peer.
    pub(super) fn connect(&mut self, peer: Peer, link: ControlLink) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = Some(Link::new(link));
        }
    }

    pub(super) fn drop_link(&mut self, peer: Peer) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = None;
        }
    }

    /// Reads messages, as far as each peer's share permits. Returns true if more messages may be
    /// waiting.
    pub(super) fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        mut each: impl FnMut(Peer, Control),
    ) -> bool {
        let mut more = false;
        for (peer, place) in self.peers.iter().zip(&mut self.links) {
            let Some(link) = place else { continue };
            let mut share = FAIR_SHARE;
            while share > 0 && link.is_heard(now) {
                match link.link.poll_recv(cx) {
                    Poll::Ready(Ok(message)) => {
                        each(*peer, message);
                        link.count(*peer, now);
                    }
                    Poll::Ready(Err(error)) => {
                        self.lost.push((*peer, error));
                        *place = None;
                        break;
                    }
                    Poll::Pending => break,
                }
                share -= 1;
            }
            more |= share == 0;
        }
        more
    }

    /// Returns the earliest time at which a peer that has exceeded its share is read again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.links.iter().flatten().filter_map(|link| link.deaf_until).min()
    }

    /// Queues a message, encoded once for all its recipients.
    pub(super) fn send(&mut self, to: Recipients, message: &Control) {
        self.scratch.clear();
        encode_into(message, &mut self.scratch);
        let sources = self.sources;
        match to {
            Recipients::Everyone => (0..self.links.len()).for_each(|index| self.push(index)),
            Recipients::Sources(set) => {
                set.iter().filter(|index| *index < sources).for_each(|index| self.push(index));
            }
            Recipients::Source(id) => self.push_to(Peer::Source(id)),
            Recipients::Builder(id) => self.push_to(Peer::Builder(id)),
        }
    }

    /// Writes queued messages until the sockets accept no more.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) {
        for (peer, place) in self.peers.iter().zip(&mut self.links) {
            let Some(link) = place else { continue };
            if let Poll::Ready(Err(error)) = link.link.poll_flush(cx) {
                self.lost.push((*peer, error));
                *place = None;
            }
        }
    }

    /// Returns the next peer whose connection has broken.
    pub(super) fn pop_lost(&mut self) -> Option<(Peer, LinkError)> {
        self.lost.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(Option::is_none)
    }

    fn push_to(&mut self, peer: Peer) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.push(index);
        }
    }

    fn push(&mut self, index: usize) {
        let Some(link) = &mut self.links[index] else { return };
        if let Err(error) = link.link.send_encoded(&self.scratch) {
            self.lost.push((self.peers[index], error));
            self.links[index] = None;
        }
    }
}
