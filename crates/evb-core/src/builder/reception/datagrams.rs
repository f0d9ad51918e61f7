//! The builder's end of a lane over datagrams, as far as it differs from a stream.

use core::ops::Range;

use bytes::BytesMut;

use super::Reception;
use crate::{
    builder::{counters::DatagramCounters, segments::Segments},
    lane::{DatagramFault, IncomingDatagrams, LaneError, Reassembly, Request},
    time::Instant,
    wire::datagram::DatagramKind,
};

/// Outcome for a range of the lane that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builder) enum Placed {
    /// It is dropped like a lost one, as there is no room.
    Nowhere,
    /// Nothing is done yet: pass the segments one by one.
    Apart,
    /// It is known, or kept until the bytes in front of it are here.
    Kept,
    /// It is the next range, after that number of bytes that are already known.
    Next(usize),
}

impl Reception {
    /// Moves records and bytes to datagrams.
    pub(in crate::builder) fn associate(&mut self, datagrams: IncomingDatagrams) {
        self.incoming.limit_window(datagrams.reassembly.window());
        self.datagrams = Some(Box::new(datagrams));
    }

    /// Returns the datagram state, if the lane has an association.
    pub(in crate::builder) fn datagrams(&self) -> Option<&IncomingDatagrams> {
        self.datagrams.as_deref()
    }

    /// Returns the datagram counters over all associations.
    pub(in crate::builder) fn datagram_counters(&self) -> DatagramCounters {
        self.datagrams.as_ref().map_or(self.past, |datagrams| self.past.and(datagrams))
    }

    /// Takes in the header of datagrams. Returns true if they are the first of their association.
    pub(in crate::builder) fn handle_header(
        &mut self,
        segments: &Segments<'_>,
        now: Instant,
    ) -> Result<bool, DatagramFault> {
        let header = segments.header();
        let datagrams = self.datagrams.as_mut();
        let datagrams = datagrams.filter(|known| known.association() == header.association);
        let Some(datagrams) = datagrams else { return Err(DatagramFault::Stale) };
        if header.kind == DatagramKind::Probe {
            // A probe comes before the lane's own datagrams, and is not of their sequence.
            return Ok(false);
        }
        let is_first = !datagrams.is_met;
        datagrams.handle_header(header, segments.count(), now);
        Ok(is_first)
    }

    /// Takes in a permitted range of the lane. `arrived` is called for each part of it that was
    /// waited for.
    pub(in crate::builder) fn place(
        &mut self,
        segments: &Segments<'_>,
        now: Instant,
        arrived: impl FnMut(Range<u64>, Request),
    ) -> Result<Placed, LaneError> {
        let Some(datagrams) = &mut self.datagrams else { return Ok(Placed::Nowhere) };
        let offset = segments.header().offset;
        let end = offset.saturating_add(segments.length());
        if end > self.incoming.granted() {
            return Err(LaneError::NotGranted { end, granted: self.incoming.granted() });
        }
        let received = self.incoming.received();
        let IncomingDatagrams { recovery, reassembly, .. } = &mut **datagrams;
        let here = reassembly.here();
        let is_next = offset == received && here.first().is_none_or(|first| first.start >= end);
        if segments.count() > 1 && !is_next {
            return Ok(Placed::Apart);
        }
        let is_new = is_next || end > received && here.missing_in(offset.max(received)..end).next().is_some();
        let mut bodies = segments.bodies().iter();
        if is_new && offset > received && !bodies.all(|one| reassembly.insert(offset, one, received)) {
            return Ok(Placed::Nowhere);
        }
        recovery.handle_arrival(&(offset..end), segments.header(), is_new, now, arrived);
        let is_deliverable = is_new && offset <= received;
        Ok(if is_deliverable { Placed::Next((received - offset) as usize) } else { Placed::Kept })
    }

    /// Lends the bytes that waited for others in front of them, if these are here. Return them by
    /// [`Self::give_back`].
    pub(in crate::builder) fn lend_waiting(&mut self) -> Option<Reassembly> {
        let received = self.incoming.received();
        let reassembly = &mut self.datagrams.as_mut()?.reassembly;
        reassembly.release(received);
        (!reassembly.next(received).is_empty()).then(|| reassembly.lend())
    }

    /// Takes back the lent bytes.
    pub(in crate::builder) fn give_back(&mut self, waiting: Reassembly) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.reassembly = waiting;
        }
    }

    /// Notes that announcements in front of the latest ones are lost or late
    /// (docs/reference/protocol.md UDP-9).
    pub(in crate::builder) fn note_gap(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.announcements_missing = true;
        }
    }

    /// Declares overdue transmissions lost. Returns `None` if nothing was due, else true if
    /// something has to be repeated.
    pub(in crate::builder) fn expire(
        &mut self,
        now: Instant,
        lost: impl FnMut(Range<u64>, Request),
    ) -> Option<bool> {
        let datagrams = self.datagrams.as_mut()?;
        datagrams.next_timeout().filter(|due| *due <= now)?;
        let is_asking = datagrams.ask_unheard(now);
        let IncomingDatagrams { recovery, reassembly, .. } = &mut **datagrams;
        recovery.expire(self.incoming.received(), reassembly.here(), now, lost);
        Some(datagrams.is_repeat_due(now) || is_asking)
    }

    /// Appends the datagram for the source. Returns false if there is no association. `ranges` is
    /// scratch memory.
    pub(in crate::builder) fn write_datagram(
        &mut self,
        ranges: &mut Vec<Range<u64>>,
        now: Instant,
        into: &mut BytesMut,
    ) -> bool {
        let Some(datagrams) = &mut self.datagrams else { return false };
        datagrams.write(&mut self.incoming, ranges, now, into);
        true
    }
}
