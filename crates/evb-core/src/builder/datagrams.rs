//! Lanes over datagrams: what differs from a stream at the builder's end.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use super::{BuilderCore, counters::DatagramCounters, lanes::Reception, segments::Segments};
use crate::{
    grant::{Fate, GrantPolicy},
    lane::{DatagramFault, IncomingDatagrams, LaneError, LaneTimes, Request},
    time::Instant,
    units::Bytes,
    wire::{
        datagram::{Association, DatagramHeader, DatagramKind},
        record::{ANNOUNCEMENT, Announcement, RecordHeader, next_record},
    },
};

impl<P: GrantPolicy> BuilderCore<P> {
    /// From now on, the lane's records and bytes come and go by datagrams of this association: until
    /// [`Self::handle_lane_disconnected`]. Call it after [`Self::handle_lane_connected`]. Bytes are kept up to `window` beyond
    /// the first that is missing; `estimate` is a round trip to the source, if one is known.
    pub fn associate(
        &mut self,
        lane: usize,
        association: Association,
        estimate: Option<Duration>,
        window: Bytes,
        now: Instant,
    ) {
        let reception = &mut self.lanes.lanes[lane];
        reception.lane.limit_window(window.count());
        let mut datagrams = IncomingDatagrams::new(association, estimate, window, now);
        datagrams.recovery.expect_queue(self.config.queue);
        reception.datagrams = Some(Box::new(datagrams));
        self.lanes.refresh(lane);
    }

    /// The association of a lane, if it has one.
    pub fn association(&self, lane: usize) -> Option<Association> {
        self.lanes.lanes.get(lane)?.datagrams.as_ref().map(|datagrams| datagrams.association())
    }

    /// A datagram came in for that lane; probes are the driver's to answer.
    ///
    /// # Errors
    /// As [`Self::handle_datagrams`].
    pub fn handle_datagram(
        &mut self,
        lane: usize,
        header: &DatagramHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        self.handle_datagrams(lane, &Segments::one(*header, body), now)
    }

    /// Datagrams came in for that lane that follow each other. All but their bytes is dealt with once for all of them.
    /// Requirements: docs/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// [`DatagramFault`]: drop the datagrams if they are stale, else the connection.
    pub fn handle_datagrams(
        &mut self,
        lane: usize,
        segments: &Segments<'_>,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        let header = segments.header();
        let datagrams = self.lanes.lanes[lane].datagrams.as_mut();
        let datagrams = datagrams.filter(|known| known.association() == header.association);
        let Some(datagrams) = datagrams else { return Err(DatagramFault::Stale) };
        if header.kind == DatagramKind::Probe {
            // It comes before the lane's own datagrams, and is not of their sequence.
            return Ok(());
        }
        let is_first = !datagrams.is_met;
        datagrams.handle_header(header, segments.count(), now);
        if is_first {
            // What is granted, and what was committed before, it hears now.
            self.lanes.refresh(lane);
            self.lanes.dirty.insert(lane);
            self.grants_due = true;
        }
        match header.kind {
            DatagramKind::Data if segments.length() == 0 => return Err(DatagramFault::Empty),
            DatagramKind::Data => self.handle_segments(lane, segments, now)?,
            DatagramKind::Records => {
                segments.bodies().iter().try_for_each(|body| self.handle_records(lane, body, now))?;
            }
            DatagramKind::Probe | DatagramKind::ProbeReply => return Err(DatagramFault::WrongDirection),
        }
        Ok(())
    }

    /// Appends the datagram that the source of that lane is to get; nothing if the lane has no association.
    pub fn write_datagram(&mut self, lane: usize, now: Instant, into: &mut BytesMut) {
        self.lanes.note_said(lane);
        let Reception { lane: incoming, datagrams, .. } = &mut self.lanes.lanes[lane];
        let Some(datagrams) = datagrams else { return };
        datagrams.write(incoming, &mut self.lanes.ranges, now, into);
        // There is room for more requests.
        self.lanes.refresh(lane);
        self.grants_due |= self.lanes.demands[lane].lost.is_some();
    }

    /// Lanes whose datagrams get nowhere: close their connections, and let the sources find another path.
    pub fn silent_lanes(&self, now: Instant) -> impl Iterator<Item = usize> {
        let is_silent = move |lane: &Reception| lane.datagrams.as_ref().is_some_and(|one| one.is_silent(now));
        let lanes = self.lanes.lanes.iter().enumerate();
        lanes.filter(move |(_, lane)| is_silent(lane)).map(|(index, _)| index)
    }

    /// What was counted of a lane's datagrams, over all its associations.
    pub fn datagram_counters(&self, lane: usize) -> DatagramCounters {
        let reception = &self.lanes.lanes[lane];
        reception.datagrams.as_ref().map_or(reception.past, |datagrams| reception.past.and(datagrams))
    }

    /// How long things took, over all lanes and their associations. Not of each lane: reports of all builders meet in the
    /// supervisor's port, and histograms are long.
    pub(super) fn datagram_times(&self) -> LaneTimes {
        let mut times = self.lanes.past_times.clone();
        let associations = self.lanes.lanes.iter().filter_map(|reception| reception.datagrams.as_ref());
        associations.for_each(|datagrams| times.add(datagrams));
        times
    }

    /// Losses that are due, and what has to be said again.
    pub(super) fn expire_datagrams(&mut self, now: Instant) {
        for lane in 0..self.lanes.lanes.len() {
            let reception = &mut self.lanes.lanes[lane];
            let Some(datagrams) = &mut reception.datagrams else { continue };
            if datagrams.next_timeout().is_none_or(|due| due > now) {
                continue;
            }
            let received = reception.lane.received();
            let policy = &mut self.policy;
            let IncomingDatagrams { recovery, reassembly, .. } = &mut **datagrams;
            recovery.expire(received, reassembly.here(), now, |range, request| {
                policy.handle_accounted(lane, range, request, Fate::Lost, now);
            });
            if datagrams.is_repeat_due(now) {
                self.lanes.dirty.insert(lane);
            }
            self.lanes.refresh(lane);
            self.grants_due = true;
        }
    }

    /// A permitted range of the lane came. Each of its bytes is delivered once, in order (docs/protocol.md UDP-11).
    fn handle_segments(
        &mut self,
        lane: usize,
        segments: &Segments<'_>,
        now: Instant,
    ) -> Result<(), LaneError> {
        let reception = &mut self.lanes.lanes[lane];
        let Some(datagrams) = &mut reception.datagrams else { return Ok(()) };
        let offset = segments.header().offset;
        let end = offset.saturating_add(segments.length());
        if end > reception.lane.granted() {
            return Err(LaneError::NotGranted { end, granted: reception.lane.granted() });
        }
        let received = reception.lane.received();
        let IncomingDatagrams { recovery, reassembly, .. } = &mut **datagrams;
        let here = reassembly.here();
        let is_next = offset == received && here.first().is_none_or(|first| first.start >= end);
        if segments.count() > 1 && !is_next {
            return segments.apart().try_for_each(|one| self.handle_segments(lane, &one, now));
        }
        let is_new = is_next || end > received && here.missing_in(offset.max(received)..end).next().is_some();
        let bodies = segments.bodies();
        if is_new && offset > received && !bodies.iter().all(|one| reassembly.insert(offset, one, received)) {
            // No room: as if it had been lost.
            return Ok(());
        }
        let policy = &mut self.policy;
        let arrived = |part: Range<u64>, request: Request| {
            policy.handle_accounted(lane, part, request, Fate::Arrived, now);
        };
        recovery.handle_arrival(&(offset..end), segments.header(), is_new, now, arrived);
        self.grants_due = true;
        if !is_new || offset > received {
            self.lanes.refresh(lane);
            return Ok(());
        }
        let mut known = (received - offset) as usize;
        for body in bodies {
            self.take_in(lane, &body[known..], now)?;
            known = 0;
        }
        self.after_data(lane, now);
        self.drain_reassembly(lane, now)
    }

    /// Delivers what had to wait for bytes in front of it.
    fn drain_reassembly(&mut self, lane: usize, now: Instant) -> Result<(), LaneError> {
        loop {
            let reception = &mut self.lanes.lanes[lane];
            let received = reception.lane.received();
            let Some(datagrams) = &mut reception.datagrams else { return Ok(()) };
            datagrams.reassembly.release(received);
            if datagrams.reassembly.next(received).is_empty() {
                return Ok(());
            }
            let waiting = datagrams.reassembly.lend();
            let outcome = self.handle_data(lane, waiting.next(received), now);
            if let Some(datagrams) = &mut self.lanes.lanes[lane].datagrams {
                datagrams.reassembly = waiting;
            }
            outcome?;
        }
    }

    fn handle_records(&mut self, lane: usize, mut body: &[u8], now: Instant) -> Result<(), DatagramFault> {
        while let Some((record, items)) = next_record(&mut body)? {
            let RecordHeader::Announce { offset, .. } = record else {
                return Err(DatagramFault::WrongDirection);
            };
            // To be acknowledged, with a grant or soon.
            self.lanes.answers.insert(lane);
            let items = items.as_chunks::<ANNOUNCEMENT>().0.iter().map(Announcement::decode);
            match self.handle_announcements(lane, offset, items, now) {
                Ok(()) => {}
                // Lost, or late (docs/protocol.md UDP-9).
                Err(LaneError::AnnouncementGap { .. }) => {
                    if let Some(datagrams) = &mut self.lanes.lanes[lane].datagrams {
                        datagrams.announcements_missing = true;
                        self.lanes.dirty.insert(lane);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
