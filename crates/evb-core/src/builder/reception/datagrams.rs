//! The parts of [`Reception`] for lanes over datagrams.

use core::ops::Range;

use bytes::BytesMut;

use super::Reception;
use crate::{
    builder::{counters::DatagramCounters, segments::Segments},
    lane::{DatagramFault, IncomingDatagrams, LaneError, Reassembly, Request},
    time::Instant,
    wire::datagram::DatagramKind,
};

/// Outcome for a range of lane bytes that arrived in datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builder) enum DatagramEffect {
    /// The range is dropped, because the lane has no room to keep it until the bytes before it
    /// arrive. The builder will request it like a lost range.
    Nowhere,
    /// The datagrams have to be placed one by one, because they arrived out of order; none of them
    /// has been handled yet.
    Apart,
    /// The builder has all bytes of the range already, or keeps them until the bytes before them
    /// arrive.
    Kept,
    /// The range continues the lane, after this number of bytes at its start that the builder
    /// already has.
    Next(usize),
}

impl Reception {
    /// Makes the lane's records and data travel in datagrams.
    pub(in crate::builder) fn associate(&mut self, datagrams: IncomingDatagrams) {
        self.incoming.limit_window(datagrams.reassembly.window());
        self.datagrams = Some(Box::new(datagrams));
    }

    /// Returns the datagram state; `None` for a lane over a stream.
    pub(in crate::builder) fn datagrams(&self) -> Option<&IncomingDatagrams> {
        self.datagrams.as_deref()
    }

    /// Returns the datagram counters over all associations.
    pub(in crate::builder) fn datagram_counters(&self) -> DatagramCounters {
        self.datagrams.as_ref().map_or(self.past, |datagrams| self.past.and(datagrams))
    }

    /// Handles the header of one or more datagrams. Returns true if the datagrams are the first of
    /// their association.
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
            // The source sends probes before all other datagrams, and they do not count in its
            // sequence.
            return Ok(false);
        }
        let is_first = !datagrams.is_met;
        datagrams.handle_header(header, segments.count(), now);
        Ok(is_first)
    }

    /// Places the bytes of data datagrams in the lane. Calls `arrived` for each part of the range
    /// that the builder was waiting for.
    pub(in crate::builder) fn place(
        &mut self,
        segments: &Segments<'_>,
        now: Instant,
        arrived: impl FnMut(Range<u64>, Request),
    ) -> Result<DatagramEffect, LaneError> {
        let Some(datagrams) = &mut self.datagrams else { return Ok(DatagramEffect::Nowhere) };
        let offset = segments.header().offset;
        let end = offset.saturating_add(segments.length());
        if end > self.incoming.granted() {
            return Err(LaneError::NotGranted { end, granted: self.incoming.granted() });
        }
        let received = self.incoming.received();
        let IncomingDatagrams { recovery, reassembly, .. } = &mut **datagrams;
        let here = reassembly.here();
        // The bytes continue the lane, and do not overlap bytes that came too early and wait.
        let is_next = offset == received && here.first().is_none_or(|first| first.start >= end);
        // Only bytes that continue the lane are handled together.
        if segments.count() > 1 && !is_next {
            return Ok(DatagramEffect::Apart);
        }
        let is_new = is_next || end > received && here.missing_in(offset.max(received)..end).next().is_some();
        let mut bodies = segments.bodies().iter();
        // Bytes behind a gap wait for those in it, if there is room.
        if is_new && offset > received && !bodies.all(|one| reassembly.insert(offset, one, received)) {
            return Ok(DatagramEffect::Nowhere);
        }
        recovery.handle_arrival(&(offset..end), segments.header(), is_new, now, arrived);
        let is_deliverable = is_new && offset <= received;
        Ok(if is_deliverable {
            DatagramEffect::Next((received - offset) as usize)
        } else {
            DatagramEffect::Kept
        })
    }

    /// Lends the early bytes that continue the lane, if the gap before them is now filled. Return
    /// the lent bytes by [`Self::give_back`].
    pub(in crate::builder) fn lend_waiting(&mut self) -> Option<Reassembly> {
        let received = self.incoming.received();
        let reassembly = &mut self.datagrams.as_mut()?.reassembly;
        reassembly.release(received);
        (!reassembly.next(received).is_empty()).then(|| reassembly.lend())
    }

    /// Takes back the bytes that [`Self::lend_waiting`] lent.
    pub(in crate::builder) fn give_back(&mut self, waiting: Reassembly) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.reassembly = waiting;
        }
    }

    /// Notes that an ANNOUNCE record began beyond the announcements that the builder knows, so that
    /// earlier ones are lost or late (docs/reference/protocol.md UDP-9).
    pub(in crate::builder) fn note_gap(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.announcements_missing = true;
        }
    }

    /// Declares overdue transmissions lost. Returns `None` if no timer has expired, otherwise true
    /// if the builder has to send a datagram again.
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

    /// Appends one datagram with all records for the source. Returns false if the lane has no
    /// association. `ranges` is scratch memory.
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
