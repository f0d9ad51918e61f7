//! [`Sealing`]: the transmission of a source's records in parcels (authenticated frames). Lane
//! bytes are tagged in place and written directly from their memory.

use std::{io::IoSlice, ops::Range};

use bytes::{Buf as _, BytesMut};
use evb_core::{index::LaneIndex, source::SourceCore};

use crate::security::{LaneKey, MAX_CONTENT, Sealer};

/// Maximum number of pieces of memory in one parcel, in addition to its prefix and its tag.
pub(super) const PIECES: usize = 510;

/// Maximum number of bytes of announcements in one parcel; the remaining announcements go into the
/// next parcel.
const ANNOUNCEMENTS: usize = 16 << 10;

/// The parcel that is being written, and the progress of its write.
#[derive(Debug)]
pub(super) struct Sealing {
    sealer: Sealer,
    /// Bytes in front of the lane bytes: the parcel's length, announcements, and a record's header.
    front: BytesMut,
    /// Lane bytes of the parcel that are not written yet.
    range: Range<u64>,
    tag: [u8; 16],
    /// Bytes of the tag that have been written.
    tagged: usize,
}

impl Sealing {
    pub(super) fn new(key: &LaneKey) -> Self {
        let sealer = Sealer::new(key);
        Self { sealer, front: BytesMut::new(), range: 0..0, tag: [0; 16], tagged: 16 }
    }

    /// Returns true if no parcel is being written.
    pub(super) fn is_idle(&self) -> bool {
        self.tagged == self.tag.len()
    }

    /// Returns true if `announcements` bytes of announcements fit into one parcel.
    pub(super) fn fits(announcements: usize) -> bool {
        announcements <= ANNOUNCEMENTS
    }

    /// Returns the lane bytes that fit into a parcel behind the waiting announcements and a
    /// record's header.
    pub(super) fn room(announcements: usize, header: usize) -> u64 {
        (MAX_CONTENT - announcements.min(ANNOUNCEMENTS) - header) as u64
    }

    /// Builds the next parcel from announcements, `header`, and as many lane bytes of `range` as
    /// one `writev` takes. Returns the number of lane bytes in the parcel.
    pub(super) fn begin(
        &mut self,
        announcements: &mut BytesMut,
        header: &[u8],
        range: Range<u64>,
        core: &SourceCore,
        lane: LaneIndex,
    ) -> u64 {
        let taken = announcements.len().min(ANNOUNCEMENTS);
        let mut tagging = self.sealer.begin();
        tagging.update(&announcements[..taken]);
        tagging.update(header);
        let covered = core.pieces(lane, range.clone(), PIECES, |piece| tagging.update(piece));
        let content = taken + header.len() + covered as usize;
        self.front.clear();
        self.front.extend_from_slice(&Sealer::prefix(content));
        self.front.extend_from_slice(&announcements[..taken]);
        self.front.extend_from_slice(header);
        announcements.advance(taken);
        self.range = range.start..range.start + covered;
        self.tag = tagging.finish();
        self.tagged = 0;
        covered
    }

    /// Collects the bytes of the parcel that are still to be written.
    pub(super) fn slices<'a>(&'a self, core: &'a SourceCore, lane: LaneIndex, slices: &mut Vec<IoSlice<'a>>) {
        if !self.front.is_empty() {
            slices.push(IoSlice::new(&self.front));
        }
        if !self.range.is_empty() {
            core.gather(lane, self.range.clone(), slices);
        }
        slices.push(IoSlice::new(&self.tag[self.tagged..]));
    }

    /// Notes that `written` more bytes of the parcel were written. Returns the offset up to which
    /// lane bytes are written.
    pub(super) fn advance(&mut self, mut written: usize) -> u64 {
        let of_front = written.min(self.front.len());
        self.front.advance(of_front);
        written -= of_front;
        let of_range = written.min((self.range.end - self.range.start) as usize);
        self.range.start += of_range as u64;
        self.tagged += written - of_range;
        self.range.start
    }
}
