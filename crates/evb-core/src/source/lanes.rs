//! What a source's driver asks of its lanes, by their index.

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};
use std::io::IoSlice;

use bytes::BytesMut;

use super::{SourceCore, lane::SourceLane};
use crate::{
    id::EventId,
    index::LaneIndex,
    lane::{DatagramFault, LaneError, OutgoingDatagrams, Request, Sealing, Taken},
    time::Instant,
    wire::datagram::{Association, DatagramHeader},
};

impl SourceCore {
    /// Notes that a builder accepted our connection, and what it holds.
    ///
    /// # Errors
    /// It says what cannot be: drop the connection.
    pub fn handle_lane_connected(
        &mut self,
        lane: LaneIndex,
        received: u64,
        announced: u64,
    ) -> Result<(), LaneError> {
        self.lanes[lane].handle_connected(received, announced)?;
        self.announce.insert(lane);
        Ok(())
    }

    /// Notes that a builder's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: LaneIndex) {
        self.lanes[lane].handle_disconnected();
    }

    /// Returns true if a lane has a connection.
    pub fn is_lane_connected(&self, lane: LaneIndex) -> bool {
        self.lanes[lane].is_connected()
    }

    /// Returns true if every builder of the roster can be reached.
    pub fn is_connected(&self) -> bool {
        let mut lanes = self.lanes.iter().enumerate();
        lanes.all(|(index, lane)| lane.is_connected() || !self.seats.is_listed(LaneIndex::new(index)))
    }

    /// Notes a builder's grant.
    ///
    /// # Errors
    /// It grants what was not announced: drop the connection.
    pub fn handle_grant(&mut self, lane: LaneIndex, end: u64) -> Result<(), LaneError> {
        if self.lanes[lane].handle_grant(end)? {
            self.announce.insert(lane);
        }
        Ok(())
    }

    /// Notes what a builder's sink accepted, and gives its memory back.
    ///
    /// # Errors
    /// It accepted what was not sent: drop the connection.
    pub fn handle_commit(
        &mut self,
        lane: LaneIndex,
        offset: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), LaneError> {
        self.lanes[lane].handle_commit(offset, ranges)
    }

    /// Appends announcements to a lane's stream: of those that wait, as many as may go now.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        // What is left waits.
        if self.lanes[lane].announce(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns the bytes that a lane may send now; none while it is not connected.
    pub fn sendable(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].sendable()
    }

    /// As [`Self::sendable`], about so many and rather whole fragments: see
    /// [`OutgoingLane::sendable_whole`](crate::lane::OutgoingLane::sendable_whole).
    pub fn sendable_whole(&self, lane: LaneIndex, about: u64) -> u64 {
        self.lanes[lane].sendable_whole(about)
    }

    /// Hands out at most `limit` permitted bytes of a lane.
    pub fn take(&mut self, lane: LaneIndex, limit: u64) -> Option<Taken> {
        self.lanes[lane].take(limit)
    }

    /// Collects the memory behind a range that was handed out: see
    /// [`OutgoingLane::gather`](crate::lane::OutgoingLane::gather).
    pub fn gather<'a>(&'a self, lane: LaneIndex, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        self.lanes[lane].gather(range, slices)
    }

    /// The same, piece by piece: see [`OutgoingLane::pieces`](crate::lane::OutgoingLane::pieces).
    pub fn pieces<'a>(
        &'a self,
        lane: LaneIndex,
        range: Range<u64>,
        room: usize,
        each: impl FnMut(&'a [u8]),
    ) -> u64 {
        self.lanes[lane].outgoing().pieces(range, room, each)
    }

    /// Returns the lane offset up to which a builder has granted.
    pub fn granted(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].outgoing().granted()
    }

    /// Returns the events whose fragments a lane keeps until they are committed.
    pub fn held_events(&self, lane: LaneIndex) -> impl Iterator<Item = EventId> {
        self.lanes[lane].held_events()
    }

    /// Lets a lane's records and bytes come and go by datagrams of this association, of at most `datagram` bytes, until
    /// [`Self::handle_lane_disconnected`]. Call it after [`Self::handle_lane_connected`]. `estimate` is a round trip to the
    /// builder, if one is known.
    pub fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
    ) {
        self.lanes[lane].associate(association, estimate, datagram, &self.times);
    }

    /// Takes in a datagram that came for a lane; replies to probes are the driver's.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// [`DatagramFault`]: drop the datagram if it is stale, else the connection.
    pub fn handle_datagram(
        &mut self,
        lane: LaneIndex,
        header: &DatagramHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        self.lanes[lane].handle_datagram(header, body, now)?;
        self.announce.insert(lane);
        Ok(())
    }

    /// Appends one datagram of records, if the lane has an association: announcements that wait, and what was heard. When
    /// [`Output::Announce`](super::Output::Announce) asks for it.
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        if self.lanes[lane].write_datagram(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns headers for the segments of a train that was taken from a lane; `None` if it has no association any more. Call
    /// [`Self::handle_sent`] when they are sent.
    pub fn sealing(&mut self, lane: LaneIndex, request: Request) -> Option<Sealing> {
        self.lanes[lane].sealing(request)
    }

    /// Notes that so many segments were sent with the headers of [`Self::sealing`].
    pub fn handle_sent(&mut self, lane: LaneIndex, count: u32) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.advance(count);
        }
    }

    /// Asks for the lane's records again at `until`: they cannot be sent now.
    pub fn put_off(&mut self, lane: LaneIndex, until: Instant) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.put_off(until);
        }
    }

    /// Notes whether answers to the builder's requests were taken from the lane and are not sent yet.
    pub fn set_answering(&mut self, lane: LaneIndex, is_answering: bool) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.set_answering(is_answering);
        }
    }

    /// Returns true if the lane's datagrams get nowhere: close its connection, and look for another path.
    pub fn is_silent(&self, lane: LaneIndex, now: Instant) -> bool {
        self.lanes[lane].datagrams().is_some_and(|datagrams| datagrams.is_silent(now))
    }

    /// Returns the association of a lane, if it has one.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.get(lane.get())?.datagrams().map(OutgoingDatagrams::association)
    }

    /// Returns the fragments that are held until their builder commits them, or a builder is found for them.
    pub fn uncommitted(&self) -> usize {
        let held = |lane: &SourceLane| lane.outgoing().held_fragments();
        self.lanes.iter().map(held).sum::<usize>() + self.parking.len()
    }
}
