//! [`Part`]: one source's contribution to an event.

use core::ops::Range;

use bytes::BytesMut;

use crate::{
    event::Cause,
    fragment::{Checksum, Timestamp},
};

/// One source's contribution to the event.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) timestamp: Timestamp,
    pub(super) checksum: Checksum,
    /// Payload bytes that the source announced.
    pub(super) length: u32,
    /// Packets of the fragment that were lost before they reached the source.
    pub(super) lost_packets: u32,
    /// Offset in the source's lane at which the fragment begins.
    pub(super) start: u64,
    pub(super) place: PartPlace,
    /// True if bytes of the arena are set aside for this fragment.
    pub(super) has_room: bool,
    /// Room in the arena that a fragment of the source's earlier incarnation left. This room is
    /// reused before the arena grows.
    pub(super) room: Range<u32>,
    /// The reason why the event has no fragment of the source, as far as one is known.
    pub(super) cause: Cause,
}

impl Part {
    /// Returns the fragment's place in the arena, from `start` on.
    pub(super) fn in_arena(&self, start: u32) -> Range<u32> {
        start..start + self.length
    }
}

#[derive(Debug, Default)]
pub(super) enum PartPlace {
    #[default]
    Nowhere,
    Arena {
        start: u32,
    },
    Own(BytesMut),
}
