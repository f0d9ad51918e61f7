//! [`Connection`]: the frames in one direction of a TCP connection.

use std::{collections::VecDeque, time::Duration};

use bytes::BytesMut;
use evb_core::{fragment::Fragment, framing::Losses};

use super::{
    in_order::{InOrder, Piece},
    packets::Segment,
};
use crate::input::decode::{Decode, Decoded, Decoders, Follows};

/// Time without bytes that confirms a frame, as on a connection that is open.
const PAUSE: Duration = Duration::from_millis(2);

/// Fragments with the time at which they were complete.
pub(super) type Ready = VecDeque<(Duration, Fragment)>;

/// Bytes of connections that are in no fragment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    pub(super) losses: Losses,
    /// Bytes that the capture does not have.
    pub(super) missing: u64,
    /// Bytes that came again.
    pub(super) repeated: u64,
    /// Connections in which no further frame was found.
    pub(super) given_up: u64,
}

impl Lost {
    /// Adds what a decoder has lost since `known`.
    fn add(&mut self, decoder: &dyn Decode, known: &mut Losses) {
        let now = decoder.losses();
        self.losses.add(&now.since(known));
        *known = now;
    }
}

/// The frames in one direction of a TCP connection.
pub(super) struct Connection {
    order: InOrder,
    /// `None` if the decoder has found no frame and has given up.
    decoder: Option<Box<dyn Decode>>,
    known: Losses,
    bytes: BytesMut,
    /// Time of the last segment.
    pub(super) time: Duration,
    /// True if a pause would confirm a frame.
    holds: bool,
    /// True if the decoder knows of the end.
    has_ended: bool,
}

impl Connection {
    /// Creates a connection that begins with a segment. If that does not open the connection, the
    /// first bytes may be in the middle of a frame.
    pub(super) fn new(segment: &Segment<'_>, decoders: &Decoders, time: Duration) -> Self {
        let mut decoder = decoders();
        if !segment.begins {
            decoder.note_gap();
        }
        let order = InOrder::new(segment.sequence.wrapping_add(segment.begins.into()));
        let (known, bytes) = (Losses::default(), BytesMut::new());
        Self { order, decoder: Some(decoder), known, bytes, time, holds: false, has_ended: false }
    }

    /// Returns the place of a segment's payload; `None` if the segment is of another connection
    /// between the same ports.
    pub(super) fn place(&self, segment: &Segment<'_>) -> Option<u64> {
        let place = self.order.place(segment.sequence.wrapping_add(segment.begins.into()))?;
        let is_new = segment.begins && !self.order.begins_at(place)
            || self.order.is_behind_end(place + segment.payload.len() as u64);
        (!is_new).then_some(place)
    }

    /// Takes a segment at its place. If `is_early`, nothing is decoded yet.
    pub(super) fn take(
        &mut self,
        (place, segment, is_early): (u64, &Segment<'_>, bool),
        time: Duration,
        ready: &mut Ready,
        lost: &mut Lost,
    ) {
        self.time = time;
        let next = self.order.take(place, segment.payload, is_early);
        if segment.ends || segment.resets {
            self.order.end_at(place + segment.payload.len() as u64);
        }
        if !next.is_empty() {
            self.bytes.extend_from_slice(next);
            self.decode(Follows::Bytes, ready, lost);
        }
    }

    /// Decodes the next bytes that were held behind a gap. If `gives_up`, the gap is not waited
    /// for. Returns false if there are none.
    pub(super) fn advance(
        &mut self,
        gives_up: bool,
        decoders: &Decoders,
        ready: &mut Ready,
        lost: &mut Lost,
    ) -> bool {
        match self.order.held(gives_up) {
            None if self.order.is_at_end() && !self.has_ended => {
                self.has_ended = true;
                self.decode(Follows::End, ready, lost);
            }
            None => return false,
            Some(Piece::Bytes(bytes)) => {
                self.bytes.extend_from_slice(&bytes);
                self.decode(Follows::Bytes, ready, lost);
            }
            Some(Piece::Missing(count)) => {
                // Behind missing bytes, a new decoder searches for the next frame.
                lost.missing += count;
                self.decode(Follows::End, ready, lost);
                if self.decoder.is_some() {
                    let mut decoder = decoders();
                    decoder.note_gap();
                    (self.decoder, self.known) = (Some(decoder), Losses::default());
                }
            }
        }
        true
    }

    /// Confirms a frame that only the next bytes could confirm otherwise, if there were none for a
    /// while.
    pub(super) fn pause(&mut self, now: Duration, ready: &mut Ready, lost: &mut Lost) {
        if self.holds && now.saturating_sub(self.time) >= PAUSE {
            self.time += PAUSE;
            self.decode(Follows::Pause, ready, lost);
        }
    }

    /// Decodes the last bytes of the connection.
    pub(super) fn end(mut self, ready: &mut Ready, lost: &mut Lost) {
        if !self.has_ended {
            self.decode(Follows::End, ready, lost);
        }
        lost.repeated += self.order.repeated;
    }

    /// Returns the memory that segments behind a gap take.
    pub(super) fn held_memory(&self) -> usize {
        self.order.held_memory()
    }

    /// Decodes the bytes that are here, and adds the frames to `ready`. The rest waits for more
    /// bytes, unless the decoder gave up or the connection has ended.
    fn decode(&mut self, mut follows: Follows, ready: &mut Ready, lost: &mut Lost) {
        self.holds = false;
        if let Some(decoder) = &mut self.decoder {
            let gave_up = loop {
                match decoder.decode(&mut self.bytes, follows) {
                    Decoded::Fragment(fragment) => {
                        ready.push_back((self.time, fragment));
                        // After a frame, the pause is over for the bytes behind it.
                        if follows == Follows::Pause {
                            follows = Follows::Bytes;
                        }
                    }
                    Decoded::Skipped => {}
                    Decoded::Needs(_) => break false,
                    Decoded::Holds(_) => {
                        self.holds = follows != Follows::End;
                        break false;
                    }
                    Decoded::Lost => break true,
                }
            };
            lost.add(&**decoder, &mut self.known);
            if gave_up {
                self.decoder = None;
                lost.given_up += 1;
            }
        }
        if self.decoder.is_none() || follows == Follows::End {
            lost.losses.garbage_bytes += self.bytes.len() as u64;
            self.bytes.clear();
        }
    }
}
