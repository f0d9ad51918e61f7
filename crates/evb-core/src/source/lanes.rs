//! The interface of a source's lanes for its driver, by their index.

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
    /// Notes that a builder accepted our connection, with the lane state that the builder has.
    ///
    /// # Errors
    /// Returns an error if that state is impossible: drop the connection.
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

    /// Takes in a builder's grant.
    ///
    /// # Errors
    /// Returns an error if it grants bytes that were not announced: drop the connection.
    pub fn handle_grant(&mut self, lane: LaneIndex, end: u64) -> Result<(), LaneError> {
        if self.lanes[lane].handle_grant(end)? {
            self.announce.insert(lane);
        }
        Ok(())
    }

    /// Takes in a commit, and frees the memory of the committed fragments.
    ///
    /// # Errors
    /// Returns an error if it commits bytes that were not sent: drop the connection.
    pub fn handle_commit(
        &mut self,
        lane: LaneIndex,
        offset: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), LaneError> {
        self.lanes[lane].handle_commit(offset, ranges)
    }

    /// Appends announcements to a lane's stream, as many of those that wait as may go now.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        // The others wait.
        if self.lanes[lane].announce(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns the bytes that a lane may send now; none while it is not connected.
    pub fn sendable(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].sendable()
    }

    /// Returns a part of [`Self::sendable`] of about `about` bytes that ends with a fragment if
    /// possible: see [`OutgoingLane::sendable_whole`](crate::lane::OutgoingLane::sendable_whole).
    pub fn sendable_whole(&self, lane: LaneIndex, about: u64) -> u64 {
        self.lanes[lane].sendable_whole(about)
    }

    /// Hands out at most `limit` granted bytes of a lane.
    pub fn take(&mut self, lane: LaneIndex, limit: u64) -> Option<Taken> {
        self.lanes[lane].take(limit)
    }

    /// Collects the memory behind a range that was handed out: see
    /// [`OutgoingLane::gather`](crate::lane::OutgoingLane::gather).
    pub fn gather<'a>(&'a self, lane: LaneIndex, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        self.lanes[lane].gather(range, slices)
    }

    /// Calls `each` for the pieces of a range: see
    /// [`OutgoingLane::pieces`](crate::lane::OutgoingLane::pieces).
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

    /// Moves a lane's records and bytes to datagrams of this association, of at most `datagram`
    /// bytes, until [`Self::handle_lane_disconnected`]. Call it after
    /// [`Self::handle_lane_connected`]. `estimate` is the round trip to the builder, if known.
    pub fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
    ) {
        self.lanes[lane].associate(association, estimate, datagram, &self.times);
    }

    /// Takes in a datagram for a lane. Drivers handle replies to probes themselves.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// Returns [`DatagramFault`]: drop the datagram if it is stale, otherwise close the connection.
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

    /// Appends one datagram of records, if the lane has an association: announcements that wait,
    /// and acknowledgements. Call it after [`Output::Announce`](super::Output::Announce).
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        if self.lanes[lane].write_datagram(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns the common part of the headers for a train that was taken from a lane, or `None` if
    /// it has no association any more. Call [`Self::handle_sent`] when the segments are sent.
    pub fn sealing(&mut self, lane: LaneIndex, request: Request) -> Option<Sealing> {
        self.lanes[lane].sealing(request)
    }

    /// Notes that `count` segments were sent with the headers of [`Self::sealing`].
    pub fn handle_sent(&mut self, lane: LaneIndex, count: u32) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.advance(count);
        }
    }

    /// Lets the lane's records wait until `until`, as they cannot be sent now.
    pub fn put_off(&mut self, lane: LaneIndex, until: Instant) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.put_off(until);
        }
    }

    /// Sets whether answers to the builder's requests were taken from the lane and are not sent
    /// yet.
    pub fn set_answering(&mut self, lane: LaneIndex, is_answering: bool) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.set_answering(is_answering);
        }
    }

    /// Returns true if the lane's datagrams get no answer. Close its connection, and look for
    /// another path.
    pub fn is_silent(&self, lane: LaneIndex, now: Instant) -> bool {
        self.lanes[lane].datagrams().is_some_and(|datagrams| datagrams.is_silent(now))
    }

    /// Returns the association of a lane, if it has one.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.get(lane.get())?.datagrams().map(OutgoingDatagrams::association)
    }

    /// Returns the number of fragments that are held until their builder commits them, or until
    /// there is a builder for them.
    pub fn uncommitted(&self) -> usize {
        let held = |lane: &SourceLane| lane.outgoing().held_fragments();
        self.lanes.iter().map(held).sum::<usize>() + self.parking.len()
    }
}
