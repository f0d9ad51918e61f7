//! Streams between two hosts: late, in pieces, cut off, reset, and never out of order.

use core::mem;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use evb_core::time::Instant;

use super::{Happening, Network, NodeIndex, RETRANSMIT};
use crate::system::weather::{Weather, below};

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    Control,
    Lane,
}

/// One end of a connection. Side 0 has dialed.
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

/// An item that a connection carries.
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
    /// The cut that it is in; 0: none.
    pub(super) cuts: u32,
}

#[derive(Debug)]
struct End {
    node: NodeIndex,
    /// Bytes that the process wrote and has not flushed.
    outgoing: BytesMut,
    /// Bytes that have arrived and are not read yet.
    incoming: BytesMut,
    /// True if no more bytes arrive.
    is_ended: bool,
    /// True if the process has closed it.
    is_closed: bool,
    /// Pieces on their way to this end.
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

    /// Delays the pieces on their way to an end. Returns true if its next arrival must be
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
    /// Dials a host; bytes that are written at once leave when the connection is open, if it ever
    /// is.
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
        // Two flights before the third carries bytes.
        let at = self.now + 2 * self.weather.flight(&mut self.rng);
        self.put(there, at, Piece::Begin);
        here
    }

    /// Returns the bytes that have arrived and are not read yet.
    pub(crate) fn incoming(&mut self, end: EndId) -> &mut BytesMut {
        &mut self.end(end).incoming
    }

    /// Returns the buffer to write to; [`Self::flush`] sends it.
    pub(crate) fn outgoing(&mut self, end: EndId) -> &mut BytesMut {
        &mut self.end(end).outgoing
    }

    /// Returns true if no bytes follow those of [`Self::incoming`].
    pub(crate) fn is_ended(&self, end: EndId) -> bool {
        self.connections[end.connection].ends[end.side].is_ended
    }

    /// Sends what was written, in one piece or in several.
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
            if Weather::strikes(self.weather.stall, &mut self.rng) {
                at += RETRANSMIT + below(3 * RETRANSMIT, &mut self.rng);
            }
            self.put(end.other(), at, Piece::Bytes(piece));
        }
    }

    /// Closes an end: the other side reads all that was sent, and then the end.
    pub(crate) fn close(&mut self, end: EndId) {
        self.leave(end, Piece::End);
    }

    /// Closes an end so that the other side may lose what was sent.
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

    /// Ends all connections of a host's process, each by a close or a reset at random; silently if
    /// the host is off.
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

    /// Resets one connection of a host, picked by a number, at both ends. Returns true if there was
    /// one.
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

    /// Delays the traffic of a host's control connections.
    pub(crate) fn stall_control(&mut self, node: NodeIndex, until: Instant) {
        for connection in &mut self.connections {
            if connection.kind == ConnectionKind::Control && connection.touches(node) {
                for end in connection.ends.iter_mut().filter(|end| !end.is_ended) {
                    let at = end.pipe.back().map_or(until, |(at, _)| until.max(*at));
                    // Later pieces arrive after this one.
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

    /// Delivers a piece, unless either host is cut off.
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
                    // The end is closed, so a reset goes back to the sender.
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

    /// Resets this end: bytes on their way are lost, and unread bytes may be.
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
        // A piece never arrives before an earlier one.
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
