//! Fragments that readout makes when they are to be sent.

use core::ops::Range;

use super::{PushError, SourceCore};
use crate::{fragment::Fragment, id::EventId, lane::Parked, units::Bytes, wire::record::Announcement};

impl SourceCore {
    /// Readout promises the fragment of a wanted event: it is announced, and made when it is to be sent ([`Self::unmade`]).
    /// So large fragments are written just before they leave, while they are in the cache.
    pub fn promise(&mut self, promise: Announcement) -> Result<(), PushError> {
        let (event, size) = (promise.event, Bytes::new(promise.length.into()));
        if size > self.config.max_fragment {
            self.counters.refused += 1;
            return Err(PushError::Oversize { event, size, limit: self.config.max_fragment });
        }
        self.counters.pushed += 1;
        self.counters.pushed_bytes += size.count();
        let home = self.parking.take_home(event);
        match home.or_else(|| self.backlog.take_assigned(event).map(Some)) {
            Some(Some(lane)) if self.seats.is_listed(lane) => {
                self.lanes[lane].promise(promise);
                self.announce.insert(lane);
            }
            Some(_) => self.parking.park(Parked::Promise(promise)),
            None => self.counters.duplicate += 1,
        }
        Ok(())
    }

    /// The first fragment in a range of a lane that was promised and is not made: make it and call [`Self::fulfil`].
    pub fn unmade(&self, lane: usize, range: &Range<u64>) -> Option<(u64, EventId)> {
        self.lanes[lane].unmade(range)
    }

    /// Takes a promised fragment, or that there is none; returns false, and counts it, if it is not as promised: see
    /// [`OutgoingLane::fulfil`](crate::lane::OutgoingLane::fulfil).
    pub fn fulfil(&mut self, lane: usize, offset: u64, fragment: Option<Fragment>) -> bool {
        let is_kept = self.lanes[lane].fulfil(offset, fragment);
        self.counters.refused += u64::from(!is_kept);
        is_kept
    }

    /// All of a lane that was taken has left over TCP: see [`OutgoingLane::unmake_sent`](crate::lane::OutgoingLane::unmake_sent).
    pub fn unmake_sent(&mut self, lane: usize, released: impl FnMut(bytes::Bytes)) {
        self.lanes[lane].unmake_sent(released);
    }
}
