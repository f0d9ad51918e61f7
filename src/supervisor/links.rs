//! The control connections of all peers.

use std::task::{Context, Poll};

use bytes::BytesMut;
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    supervisor::Recipients,
    wire::control::Control,
};
use evb_net::control::{ControlLink, LinkError, encode_into};

/// How many messages of one peer are read before the others have their turn.
const FAIR_SHARE: usize = 32;

/// One place per expected peer: sources in the order of the roster, then builders.
#[derive(Debug)]
pub(super) struct Links {
    peers: Vec<Peer>,
    links: Vec<Option<ControlLink>>,
    sources: usize,
    scratch: BytesMut,
    lost: Vec<(Peer, LinkError)>,
}

impl Links {
    pub(super) fn new(sources: &[SourceId], builders: &[BuilderId]) -> Self {
        let peers: Vec<Peer> = sources
            .iter()
            .map(|id| Peer::Source(*id))
            .chain(builders.iter().map(|id| Peer::Builder(*id)))
            .collect();
        let links = peers.iter().map(|_| None).collect();
        Self { peers, links, sources: sources.len(), scratch: BytesMut::new(), lost: Vec::new() }
    }

    /// A peer's connection; one that it had before is closed.
    pub(super) fn connect(&mut self, peer: Peer, link: ControlLink) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = Some(link);
        }
    }

    pub(super) fn drop_link(&mut self, peer: Peer) {
        if let Ok(index) = self.peers.binary_search(&peer) {
            self.links[index] = None;
        }
    }

    /// Reads what is there; true if there may be more.
    pub(super) fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        mut each: impl FnMut(Peer, Control),
    ) -> bool {
        let mut more = false;
        for (peer, place) in self.peers.iter().zip(&mut self.links) {
            let Some(link) = place else { continue };
            let mut share = FAIR_SHARE;
            while share > 0 {
                match link.poll_recv(cx) {
                    Poll::Ready(Ok(message)) => each(*peer, message),
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

    /// Queues a message, encoded once for all that it goes to.
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

    /// Writes what is queued, as far as it goes.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) {
        for (peer, place) in self.peers.iter().zip(&mut self.links) {
            let Some(link) = place else { continue };
            if let Poll::Ready(Err(error)) = link.poll_flush(cx) {
                self.lost.push((*peer, error));
                *place = None;
            }
        }
    }

    /// The next peer whose connection has broken.
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
        if let Err(error) = link.send_encoded(&self.scratch) {
            self.lost.push((self.peers[index], error));
            self.links[index] = None;
        }
    }
}
