//! Streams between two hosts. Bytes arrive in order, but may be late and in pieces; connections may
//! be interrupted or reset.

use core::mem;
use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut, buf::Take};
use evb_core::time::Instant;

use super::{Happening, Network, NodeIndex, RETRANSMIT};
use crate::system::conditions::{Conditions, below};

/// A torn read takes fewer bytes than 2 to the power of this number, and mostly few.
const TORN_BITS: u64 = 14;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    Control,
    Lane,
}

/// Identifies one end of a connection. Side 0 has opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId {
    pub(super) connection: usize,
    pub(super) side: usize,
}

impl EndId {
    fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

/// An item that travels on a connection: a part of the stream, or a change of its state.
#[derive(Debug)]
enum Piece {
    Begin,
    Bytes(Bytes),
    End,
    Reset,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) kind: ConnectionKind,
    ends: [End; 2],
    /// Number of the interruption of the network that affects the connection; 0 for none.
    pub(super) cuts: u32,
}

#[derive(Debug)]
struct End {
    node: NodeIndex,
    /// Bytes that the process has written and not flushed yet.
    outgoing: BytesMut,
    /// Bytes that have arrived and are not read yet.
    incoming: BytesMut,
    /// True if no more bytes will arrive at this end.
    is_ended: bool,
    /// True if the process has closed this end.
    is_closed: bool,
    /// Pieces under way to this end, with their times of arrival.
    pipe: VecDeque<(Instant, Piece)>,
    is_scheduled: bool,
}

impl Connection {
    pub(super) fn touches(&self, node: NodeIndex) -> bool {
        self.ends.iter().any(|end| end.node == node)
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_closed)
    }

    /// Delays the pieces under way to an end. Returns true if the next arrival at this end must be
    /// scheduled.
    pub(super) fn stall(&mut self, side: usize, until: Instant) -> bool {
        let end = &mut self.ends[side];
        end.pipe.iter_mut().for_each(|(at, _)| *at = until.max(*at));
        if end.pipe.is_empty() || end.is_scheduled {
            return false;
        }
        end.is_scheduled = true;
        true
    }
}

impl Network {
    /// Opens a connection to a host. Bytes that are written before the connection is established
    /// leave when it is; if it never is, they are lost.
    pub(crate) fn dial(&mut self, from: NodeIndex, to: NodeIndex, kind: ConnectionKind) -> EndId {
        let end = |node| End {
            node,
            outgoing: BytesMut::new(),
            incoming: BytesMut::new(),
            is_ended: false,
            is_closed: false,
            pipe: VecDeque::new(),
            is_scheduled: false,
        };
        let connection = self.connections.len();
        self.connections.push(Connection { kind, ends: [end(from), end(to)], cuts: 0 });
        let (there, here) = (EndId { connection, side: 1 }, EndId { connection, side: 0 });
        // The TCP handshake takes one round trip before bytes can be sent.
        let at = self.now + 2 * self.weather.flight(&mut self.rng);
        self.put(there, at, Piece::Begin);
        here
    }

    /// Returns the bytes that have arrived at an end and are not read yet.
    pub(crate) fn incoming(&mut self, end: EndId) -> &mut BytesMut {
        &mut self.end(end).incoming
    }

    /// Returns the bytes that one system call reads at an end, which may be fewer than have
    /// arrived; `None` if there are none.
    pub(crate) fn read(&mut self, end: EndId) -> Option<Take<&mut BytesMut>> {
        let most = match &mut self.tears {
            None => usize::MAX,
            Some(rng) => {
                let most = 1 << rng.below(TORN_BITS);
                1 + rng.below(most) as usize
            }
        };
        let incoming = &mut self.end(end).incoming;
        (!incoming.is_empty()).then(|| incoming.take(most))
    }

    /// Returns the buffer to which a process appends bytes to write; [`Self::flush`] sends them.
    pub(crate) fn outgoing(&mut self, end: EndId) -> &mut BytesMut {
        &mut self.end(end).outgoing
    }

    /// Returns true if no bytes will arrive after those in [`Self::incoming`].
    pub(crate) fn is_ended(&self, end: EndId) -> bool {
        self.connections[end.connection].ends[end.side].is_ended
    }

    /// Sends the written bytes, in one or in several pieces.
    pub(crate) fn flush(&mut self, end: EndId) {
        let own = self.end(end);
        if own.outgoing.is_empty() {
            return;
        }
        let mut bytes = own.outgoing.split().freeze();
        if own.is_closed {
            return;
        }
        let node = own.node;
        while !bytes.is_empty() {
            let piece = match self.rng.below(4) {
                0 => 1 + self.rng.below(bytes.len() as u64) as usize,
                _ => bytes.len(),
            };
            let piece = bytes.split_to(piece);
            let free_at = self.nodes[node].free_at.max(self.now) + self.weather.busy(piece.len());
            self.nodes[node].free_at = free_at;
            let mut at = free_at + self.weather.flight(&mut self.rng);
            if Conditions::strikes(self.weather.stall, &mut self.rng) {
                at += RETRANSMIT + below(3 * RETRANSMIT, &mut self.rng);
            }
            self.put(end.other(), at, Piece::Bytes(piece));
        }
    }

    /// Closes an end in order: the other side receives all bytes sent before, and then the end of
    /// the stream.
    pub(crate) fn close(&mut self, end: EndId) {
        self.leave(end, Piece::End);
    }

    /// Closes an end with a reset: the other side may lose bytes sent before.
    pub(crate) fn abort(&mut self, end: EndId) {
        self.leave(end, Piece::Reset);
    }

    fn leave(&mut self, end: EndId, by: Piece) {
        if mem::replace(&mut self.end(end).is_closed, true) {
            return;
        }
        let at = self.now + self.weather.flight(&mut self.rng);
        self.put(end.other(), at, by);
    }

    /// Ends all connections of a host's process, each at random by a close or by a reset. If the
    /// host is disconnected, its peers do not notice.
    pub(crate) fn drop_all_of(&mut self, node: NodeIndex) {
        for connection in 0..self.connections.len() {
            for side in 0..2 {
                let own = &self.connections[connection].ends[side];
                if own.node == node && !own.is_closed {
                    let by = if self.rng.below(2) == 0 { Piece::End } else { Piece::Reset };
                    self.leave(EndId { connection, side }, by);
                }
            }
        }
        let of_node = &mut self.nodes[node];
        (of_node.listens, of_node.wake_at) = (false, None);
        of_node.accepted.clear();
        of_node.ports.clear();
    }

    /// Resets one open connection of a host at both ends, selected by `pick`. Returns true if the
    /// host had an open connection.
    pub(crate) fn reset_one(&mut self, node: NodeIndex, pick: u64) -> bool {
        let open = |(_, one): &(usize, &Connection)| {
            one.touches(node) && one.ends.iter().all(|end| !end.is_closed && !end.is_ended)
        };
        let found: Vec<usize> =
            self.connections.iter().enumerate().filter(open).map(|(index, _)| index).collect();
        let Some(connection) = found.get((pick % found.len().max(1) as u64) as usize).copied() else {
            return false;
        };
        for side in 0..2 {
            self.break_end(EndId { connection, side });
        }
        true
    }

    /// Delays the traffic on a host's connections to the supervisor until the given time.
    pub(crate) fn stall_control(&mut self, node: NodeIndex, until: Instant) {
        for connection in &mut self.connections {
            if connection.kind == ConnectionKind::Control && connection.touches(node) {
                for end in connection.ends.iter_mut().filter(|end| !end.is_ended) {
                    let at = end.pipe.back().map_or(until, |(at, _)| until.max(*at));
                    // This empty piece delays all later ones, because pieces arrive in order.
                    end.pipe.push_back((at, Piece::Bytes(Bytes::new())));
                }
            }
        }
        for index in 0..self.connections.len() {
            for side in 0..2 {
                self.arm(EndId { connection: index, side });
            }
        }
    }

    /// Delivers the next piece that is due at an end, unless the network between the two hosts is
    /// interrupted.
    pub(super) fn arrive(&mut self, end: EndId) {
        let (node, other) = (self.end(end).node, self.end(end.other()).node);
        self.end(end).is_scheduled = false;
        if self.is_parted(node, other) {
            return;
        }
        let now = self.now;
        let Some((_, piece)) = self.end(end).pipe.pop_front_if(|(at, _)| *at <= now) else {
            return self.arm(end);
        };
        let is_closed = self.end(end).is_closed;
        match piece {
            Piece::Begin if self.nodes[node].listens => self.nodes[node].accepted.push(end),
            Piece::Begin => {
                self.leave(end, Piece::Reset);
                return;
            }
            Piece::Bytes(bytes) if is_closed => {
                if !bytes.is_empty() && !self.end(end.other()).is_ended {
                    // The receiving end is closed, so its kernel answers with a reset.
                    let at = self.now + self.weather.flight(&mut self.rng);
                    self.put(end.other(), at, Piece::Reset);
                }
            }
            Piece::Bytes(bytes) => {
                self.trace.mix_bytes(&bytes);
                self.end(end).incoming.extend_from_slice(&bytes);
            }
            Piece::End => self.end(end).is_ended = true,
            Piece::Reset => self.break_end(end),
        }
        self.arm(end);
        if !is_closed {
            self.stir(node);
        }
    }

    pub(super) fn time_out(&mut self, connection: usize, cuts: u32) {
        if self.connections[connection].cuts == cuts {
            for side in 0..2 {
                self.break_end(EndId { connection, side });
            }
        }
    }

    /// Resets one end of a connection: bytes under way to it are lost, and unread bytes may be lost
    /// too.
    fn break_end(&mut self, end: EndId) {
        let loses = self.rng.below(2) == 0;
        let own = self.end(end);
        own.pipe.clear();
        own.is_ended = true;
        if loses {
            own.incoming.clear();
        }
        let (node, is_closed) = (own.node, own.is_closed);
        if !is_closed {
            self.stir(node);
        }
    }

    fn put(&mut self, end: EndId, at: Instant, piece: Piece) {
        let own = self.end(end);
        if own.is_ended {
            return;
        }
        // A piece never arrives before a piece that was sent earlier.
        let at = own.pipe.back().map_or(at, |(last, _)| at.max(*last));
        own.pipe.push_back((at, piece));
        self.arm(end);
    }

    fn arm(&mut self, end: EndId) {
        let own = self.end(end);
        let Some(at) = own.pipe.front().map(|(at, _)| *at).filter(|_| !own.is_scheduled) else { return };
        own.is_scheduled = true;
        self.schedule(at, Happening::Piece(end));
    }

    fn end(&mut self, end: EndId) -> &mut End {
        &mut self.connections[end.connection].ends[end.side]
    }
}
