//! [`Sealing`]: the transmission of a source's records in parcels (authenticated frames). Lane
//! bytes are tagged in place and written directly from their memory.

use std::{io::IoSlice, ops::Range};

use bytes::{Buf as _, BytesMut};
use evb_core::{
    index::LaneIndex,
    source::{ParcelContent, SourceCore},
};

use crate::security::{LaneKey, Sealer};

/// Maximum number of pieces of memory in one parcel, in addition to its prefix and its tag.
const PIECES: usize = 510;

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

    /// Builds the next parcel from `content`, with as many of its lane bytes as one `writev` takes.
    /// Returns the number of bytes in the parcel.
    pub(super) fn begin(&mut self, content: &ParcelContent<'_>, core: &SourceCore, lane: LaneIndex) -> usize {
        let ParcelContent { announcements, header, range } = content;
        let mut tagging = self.sealer.begin();
        tagging.update(announcements);
        tagging.update(header);
        let covered = core.pieces(lane, range.clone(), PIECES, |piece| tagging.update(piece));
        let length = announcements.len() + header.len() + covered as usize;
        self.front.clear();
        self.front.extend_from_slice(&Sealer::prefix(length));
        self.front.extend_from_slice(announcements);
        self.front.extend_from_slice(header);
        self.range = range.start..range.start + covered;
        self.tag = tagging.finish();
        self.tagged = 0;
        length
    }

    /// Collects the bytes of the parcel that are still to be written.
    pub(super) fn slices<'a>(&'a self, core: &'a SourceCore, lane: LaneIndex) -> Vec<IoSlice<'a>> {
        let mut slices = Vec::with_capacity(PIECES + 2);
        if !self.front.is_empty() {
            slices.push(IoSlice::new(&self.front));
        }
        if !self.range.is_empty() {
            core.gather(lane, self.range.clone(), &mut slices);
        }
        slices.push(IoSlice::new(&self.tag[self.tagged..]));
        slices
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
