//! Lanes over datagrams: what differs from a stream at the source's end.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use super::SourceCore;
use crate::{
    lane::{ANNOUNCED_AT_ONCE, DatagramFault, LaneError, OutgoingDatagrams, Request, Sealing},
    time::{Instant, earlier},
    wire::{
        datagram::{Association, DatagramHeader, DatagramKind},
        record::{COMMIT_RANGE, RecordHeader, decode_range, next_record},
    },
};

impl SourceCore {
    /// From now on, the lane's records and bytes come and go by datagrams of this association, of at most `datagram` bytes:
    /// until [`Self::handle_lane_disconnected`]. Call it after [`Self::handle_lane_connected`]. `estimate` is a round trip to
    /// the builder, if one is known.
    pub fn associate(
        &mut self,
        lane: usize,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
    ) {
        let announced = self.lanes[lane].announced();
        let mut datagrams =
            OutgoingDatagrams::new(association, estimate, datagram, announced, self.announcing());
        datagrams.expect_queue(self.queue);
        self.datagrams[lane] = Some(datagrams);
    }

    /// A datagram came in for that lane; replies to probes are the driver's.
    /// Requirements: docs/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// [`DatagramFault`]: drop the datagram if it is stale, else the connection.
    pub fn handle_datagram(
        &mut self,
        lane: usize,
        header: &DatagramHeader,
        mut body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        let datagrams = self.datagrams[lane].as_mut();
        let datagrams = datagrams.filter(|known| known.association() == header.association);
        let Some(datagrams) = datagrams else { return Err(DatagramFault::Stale) };
        match header.kind {
            DatagramKind::Records => {}
            DatagramKind::ProbeReply => return Ok(()),
            DatagramKind::Data | DatagramKind::Probe => return Err(DatagramFault::WrongDirection),
        }
        datagrams.note_sent(self.lanes[lane].sent(), now);
        let is_newer = datagrams.handle_header(header, now);
        self.announce.insert(lane);
        while let Some((record, items)) = next_record(&mut body)? {
            let items = items.as_chunks::<COMMIT_RANGE>().0.iter().map(decode_range);
            match record {
                RecordHeader::Grant { end } => self.lanes[lane].handle_grant(end)?,
                RecordHeader::Commit { offset, .. } => {
                    self.ranges.clear();
                    for range in items {
                        self.ranges.push(range?);
                    }
                    let ranges = core::mem::take(&mut self.ranges);
                    let outcome = self.handle_commit(lane, offset, &ranges);
                    self.ranges = ranges;
                    outcome?;
                }
                RecordHeader::Resend { request, .. } => {
                    for range in items {
                        self.resend(lane, range?, request, now)?;
                    }
                }
                RecordHeader::Announced { offset } => self.handle_announced(lane, offset, now)?,
                // docs/protocol.md UDP-9: what an older datagram lacked has been announced since.
                RecordHeader::Reannounce { offset } => {
                    self.handle_announced(lane, offset, now)?;
                    if is_newer {
                        self.lanes[lane].reannounce(offset)?;
                        if let Some(datagrams) = &mut self.datagrams[lane] {
                            datagrams.handle_missing();
                        }
                    }
                }
                RecordHeader::Announce { .. } | RecordHeader::Data { .. } => {
                    return Err(DatagramFault::WrongDirection);
                }
            }
        }
        Ok(())
    }

    /// Appends one datagram of records, if the lane has an association: announcements that wait, and what was heard. When
    /// [`Output::Announce`](super::Output::Announce) asks for it.
    pub fn write_datagram(&mut self, lane: usize, now: Instant, into: &mut BytesMut) {
        let Some(datagrams) = &mut self.datagrams[lane] else { return };
        self.counters.announced += datagrams.write(&mut self.lanes[lane], now, into) as u64;
        self.announce.insert(lane);
    }

    /// Headers for the segments of a train that was taken from a lane; `None` if it has no association any more. Call
    /// [`Self::handle_sent`] when they are sent.
    pub fn sealing(&mut self, lane: usize, request: Request) -> Option<Sealing> {
        let datagrams = self.datagrams[lane].as_mut()?;
        Some(datagrams.sealing(DatagramKind::Data, request, &self.lanes[lane]))
    }

    /// So many segments were sent with the headers of [`Self::sealing`].
    pub fn handle_sent(&mut self, lane: usize, count: u32) {
        if let Some(datagrams) = &mut self.datagrams[lane] {
            datagrams.advance(count);
        }
    }

    /// The lane's records cannot be sent now: asks for them again at `until`.
    pub fn put_off(&mut self, lane: usize, until: Instant) {
        if let Some(datagrams) = &mut self.datagrams[lane] {
            datagrams.put_off(until);
        }
    }

    /// Whether answers to the builder's requests were taken from the lane and are not sent yet.
    pub fn set_answering(&mut self, lane: usize, is_answering: bool) {
        if let Some(datagrams) = &mut self.datagrams[lane] {
            datagrams.set_answering(is_answering);
        }
    }

    /// Whether the lane's datagrams get nowhere: close its connection, and look for another path.
    pub fn is_silent(&self, lane: usize, now: Instant) -> bool {
        self.datagrams[lane].as_ref().is_some_and(|datagrams| datagrams.is_silent(now))
    }

    /// The association of a lane, if it has one.
    pub fn association(&self, lane: usize) -> Option<Association> {
        self.datagrams.get(lane)?.as_ref().map(OutgoingDatagrams::association)
    }

    /// Whether a lane over datagrams has something to say now; always, over a stream.
    pub(super) fn is_announcement_due(&mut self, lane: usize, now: Instant) -> bool {
        match &mut self.datagrams[lane] {
            Some(datagrams) => datagrams.is_due(&self.lanes[lane], now),
            None => self.announcing[lane].is_due(&self.lanes[lane], ANNOUNCED_AT_ONCE, now),
        }
    }

    /// Time passed: announcements that the builder seems not to have, and what was put off.
    pub(super) fn expire_datagrams(&mut self, now: Instant) {
        for (index, datagrams) in self.datagrams.iter_mut().enumerate() {
            let Some(datagrams) = datagrams else { continue };
            if datagrams.next_timeout().is_some_and(|due| due <= now) {
                self.announce.insert(index);
                if datagrams.is_repeat_due(now) {
                    // Within what was announced on this connection.
                    let _ = self.lanes[index].reannounce(datagrams.acknowledged);
                }
            }
        }
    }

    /// When a lane over datagrams has something to say.
    pub(super) fn next_datagram(&self) -> Option<Instant> {
        let timeouts = self.datagrams.iter().flatten().map(OutgoingDatagrams::next_timeout);
        timeouts.fold(None, earlier)
    }

    fn resend(
        &mut self,
        lane: usize,
        range: Range<u64>,
        request: Request,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        let datagrams = self.datagrams[lane].as_mut();
        let known = datagrams.as_ref().map_or(u64::MAX, |datagrams| datagrams.can_be_missed(now));
        let lane = &mut self.lanes[lane];
        let (before, end) = (lane.resends(), range.end);
        lane.handle_resend(range, known, request)?;
        if let Some(datagrams) = datagrams {
            datagrams.handle_asked(end);
        }
        self.counters.resends += u64::from(lane.resends() > before);
        Ok(())
    }

    fn handle_announced(&mut self, lane: usize, offset: u64, now: Instant) -> Result<(), LaneError> {
        self.lanes[lane].check_announced(offset)?;
        if let Some(datagrams) = &mut self.datagrams[lane] {
            datagrams.handle_announced(offset, &self.lanes[lane], now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
