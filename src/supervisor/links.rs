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

use crate::role::Wakes;

/// Number of messages that are read from one peer before the next peer's turn.
const FAIR_SHARE: usize = 32;

/// Limit of the messages per second that are read from one peer; a builder that settles 160 000
/// events a second in groups of four sends 40 000. Further messages wait in the peer's own buffers.
const MESSAGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(50_000).unwrap();

/// Number of messages that may be read from one peer at once, after a pause.
const BURST: NonZeroU32 = NonZeroU32::new(5_000).unwrap();

/// The control connection of a peer.
#[derive(Debug)]
struct PeerLink {
    link: ControlLink,
    /// The peer with its name, for the log.
    named: String,
    budget: DefaultDirectRateLimiter,
    /// Time until which no message is read from a peer that has exceeded its share.
    deaf_until: Option<Instant>,
    warned: bool,
    /// True if messages wait to be written.
    is_queued: bool,
}

impl PeerLink {
    fn new(link: ControlLink, named: String) -> Self {
        let budget = RateLimiter::direct(Quota::per_second(MESSAGES_PER_SECOND).allow_burst(BURST));
        Self { link, named, budget, deaf_until: None, warned: false, is_queued: true }
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
            let named = &self.named;
            tracing::warn!(%peer, "{named} sends more than {MESSAGES_PER_SECOND} control messages a second, and the supervisor reads the rest later, which loses nothing, but may delay its events: look at the log of {named}, and start {named} again");
        }
    }
}

/// Control connections, with one place per expected peer: sources in the order of the roster, then
/// builders.
#[derive(Debug)]
pub(super) struct Links {
    peers: Vec<Peer>,
    links: Vec<Option<PeerLink>>,
    sources: usize,
    /// Wakers of the links, by position.
    wakes: Wakes,
    /// Links that are read in this turn.
    turn: Vec<usize>,
    /// Links of peers that have exceeded their share.
    deaf: Vec<usize>,
    /// Links with messages that wait to be written.
    queued: Vec<usize>,
    scratch: BytesMut,
    lost: Vec<(Peer, LinkError)>,
}

impl Links {
    /// Creates the links, none of which is connected.
    pub(super) fn new(peers: &[Peer]) -> Self {
        let mut peers = peers.to_vec();
        peers.sort_unstable();
        let links: Vec<_> = peers.iter().map(|_| None).collect();
        let wakes = Wakes::new(links.len());
        let sources = peers.iter().filter(|peer| matches!(peer, Peer::Source(_))).count();
        let (turn, deaf, queued) = Default::default();
        Self { peers, links, sources, wakes, turn, deaf, queued, scratch: BytesMut::new(), lost: Vec::new() }
    }

    /// Adds a place for a peer; builders follow sources.
    pub(super) fn add(&mut self, peer: Peer) {
        if let Err(index) = self.peers.binary_search(&peer) {
            self.peers.insert(index, peer);
            self.links.insert(index, None);
            // The positions of later links have changed.
            self.wakes = Wakes::new(self.links.len());
            self.deaf.clear();
            self.queued = (0..self.links.len()).collect();
            self.links.iter_mut().flatten().for_each(|link| link.is_queued = true);
        }
    }

    /// Sets the connection of a peer, which has this name in the log, and closes an earlier
    /// connection of the same peer.
    pub(super) fn connect(&mut self, peer: Peer, link: ControlLink, named: String) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = Some(PeerLink::new(link, named));
            self.wakes.list(index);
            if !self.queued.contains(&index) {
                self.queued.push(index);
            }
        }
    }

    pub(super) fn drop_link(&mut self, peer: Peer) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = None;
        }
    }

    /// Reads messages from the peers whose connections have woken the task, as far as each peer's
    /// share permits. Returns true if more messages may be waiting.
    pub(super) fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        mut each: impl FnMut(Peer, Control),
    ) -> bool {
        // Peers that had used up their share are looked at again.
        self.deaf.drain(..).for_each(|index| self.wakes.list(index));
        self.wakes.take(cx, &mut self.turn);
        let mut more = false;
        for index in self.turn.drain(..) {
            let Some(link) = &mut self.links[index] else { continue };
            let peer = self.peers[index];
            let cx = &mut Context::from_waker(self.wakes.waker(index));
            let mut share = FAIR_SHARE;
            let lost = loop {
                if share == 0 {
                    self.wakes.list(index);
                    more = true;
                    break None;
                }
                if !link.is_heard(now) {
                    self.deaf.push(index);
                    break None;
                }
                match link.link.poll_recv(cx) {
                    Poll::Ready(Ok(message)) => {
                        each(peer, message);
                        link.count(peer, now);
                    }
                    Poll::Ready(Err(error)) => break Some(error),
                    Poll::Pending => break None,
                }
                share -= 1;
            };
            if let Some(error) = lost {
                self.lost.push((peer, error));
                self.links[index] = None;
            }
        }
        more
    }

    /// Returns the earliest time at which a peer that has exceeded its share is read again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let deaf = self.deaf.iter().filter_map(|index| self.links[*index].as_ref());
        deaf.filter_map(|link| link.deaf_until).min()
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
        let Self { peers, links, queued, lost, .. } = self;
        queued.retain(|index| {
            let place = &mut links[*index];
            let Some(link) = place else { return false };
            // The socket of a slow peer wakes the task when it accepts more.
            let flushed = link.link.poll_flush(cx);
            link.is_queued = flushed.is_pending();
            if let Poll::Ready(Err(error)) = flushed {
                lost.push((peers[*index], error));
                *place = None;
                return false;
            }
            flushed.is_pending()
        });
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

    /// Sends the encoded message in `scratch` to a peer. A link that fails is dropped.
    fn push(&mut self, index: usize) {
        let Some(link) = &mut self.links[index] else { return };
        if let Err(error) = link.link.send_encoded(&self.scratch) {
            self.lost.push((self.peers[index], error));
            self.links[index] = None;
        } else if !core::mem::replace(&mut link.is_queued, true) {
            self.queued.push(index);
        }
    }
}
