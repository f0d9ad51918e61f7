//! A lane over datagrams: what differs from a stream at the builder's end.

use core::ops::Range;

use bytes::BytesMut;

use super::Reception;
use crate::{
    builder::{counters::DatagramCounters, segments::Segments},
    lane::{DatagramFault, IncomingDatagrams, LaneError, Reassembly, Request},
    time::Instant,
    wire::datagram::DatagramKind,
};

/// What became of a range of the lane that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builder) enum Placed {
    /// Nothing: there is no room, as if it had been lost.
    Nowhere,
    /// Nothing: give the segments one by one.
    Apart,
    /// It is known, or kept until those in front of it are here.
    Kept,
    /// It is the next, after so many bytes that are known.
    Next(usize),
}

impl Reception {
    /// From now on, records and bytes come and go by datagrams.
    pub(in crate::builder) fn associate(&mut self, datagrams: IncomingDatagrams) {
        self.incoming.limit_window(datagrams.reassembly.window());
        self.datagrams = Some(Box::new(datagrams));
    }

    /// What is known of its datagrams, if it has an association.
    pub(in crate::builder) fn datagrams(&self) -> Option<&IncomingDatagrams> {
        self.datagrams.as_deref()
    }

    /// What was counted of its datagrams, over all its associations.
    pub(in crate::builder) fn datagram_counters(&self) -> DatagramCounters {
        self.datagrams.as_ref().map_or(self.past, |datagrams| self.past.and(datagrams))
    }

    /// Datagrams came. Returns true if they are the first of their association.
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
            // It comes before the lane's own datagrams, and is not of their sequence.
            return Ok(false);
        }
        let is_first = !datagrams.is_met;
        datagrams.handle_header(header, segments.count(), now);
        Ok(is_first)
    }

    /// A permitted range of the lane came. `arrived` is called for each part of it that was waited for.
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

    /// Returns what had to wait for the bytes in front of it, if they are here: to be given back.
    pub(in crate::builder) fn lend_waiting(&mut self) -> Option<Reassembly> {
        let received = self.incoming.received();
        let reassembly = &mut self.datagrams.as_mut()?.reassembly;
        reassembly.release(received);
        (!reassembly.next(received).is_empty()).then(|| reassembly.lend())
    }

    /// Takes back what was lent.
    pub(in crate::builder) fn give_back(&mut self, waiting: Reassembly) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.reassembly = waiting;
        }
    }

    /// Announcements in front of those that came are lost, or late (docs/reference/protocol.md UDP-9).
    pub(in crate::builder) fn note_gap(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.announcements_missing = true;
        }
    }

    /// Declares lost what is due; `None` if nothing is, else whether something has to be said again.
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

    /// Appends the datagram that the source is to get; returns false if there is no association. `ranges` is memory for it.
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
