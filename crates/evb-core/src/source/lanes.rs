//! Methods of [`SourceCore`] by which its driver uses the lanes. Each lane is identified by its
//! index.

#[cfg(test)]
mod tests;

use core::{cmp::Reverse, ops::Range, time::Duration};
use std::io::IoSlice;

use bytes::BytesMut;

use super::{SourceCore, lane::SourceLane};
use crate::{
    id::{BuilderId, EventId},
    index::LaneIndex,
    lane::{DatagramFault, LaneError, OutgoingDatagrams, Request, Sealing, Taken},
    time::Instant,
    wire::{
        control::{MAX_PATHS, PathReport},
        datagram::{Association, DatagramHeader},
    },
};

impl SourceCore {
    /// Returns the lanes that sent most bytes again, at most [`MAX_PATHS`], the worst first.
    /// `tcp_retransmits` contains the number of segments that the kernel sent again on each lane.
    pub fn worst_paths(&self, tcp_retransmits: &[u64]) -> Vec<PathReport> {
        let path = |(builder, lane): (BuilderId, LaneIndex)| PathReport {
            builder: builder.number().into(),
            tcp_retransmits: tcp_retransmits.get(lane.get()).copied().unwrap_or(0),
            resends: self.lanes[lane].counters().resends,
        };
        let repeated = |path: &PathReport| path.tcp_retransmits.saturating_add(path.resends);
        let mut paths: Vec<_> = self.seats.iter().map(path).filter(|path| repeated(path) > 0).collect();
        paths.sort_by_key(|path| Reverse(repeated(path)));
        paths.truncate(MAX_PATHS);
        paths
    }

    /// Notes that a builder accepted the lane's connection. `received` and `announced` are the
    /// builder's state of the lane.
    ///
    /// # Errors
    /// Returns an error if the builder's state is impossible; then close the connection.
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

    /// Notes that the lane's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: LaneIndex) {
        self.lanes[lane].handle_disconnected();
    }

    /// Returns true if the lane's connection is up.
    pub fn is_lane_connected(&self, lane: LaneIndex) -> bool {
        self.lanes[lane].is_connected()
    }

    /// Returns true if the lanes to all builders of the roster are connected.
    pub fn is_connected(&self) -> bool {
        let mut lanes = self.lanes.iter().enumerate();
        lanes.all(|(index, lane)| lane.is_connected() || !self.seats.is_listed(LaneIndex::new(index)))
    }

    /// Handles a builder's grant up to lane offset `end`.
    ///
    /// # Errors
    /// Returns an error if the builder grants bytes that were not announced; then close the
    /// connection.
    pub fn handle_grant(&mut self, lane: LaneIndex, end: u64) -> Result<(), LaneError> {
        if self.lanes[lane].handle_grant(end)? {
            self.announce.insert(lane);
        }
        self.permitted.insert(lane);
        Ok(())
    }

    /// Handles a commit, and frees the memory of the committed fragments.
    ///
    /// # Errors
    /// Returns an error if the builder commits bytes that were not sent; then close the connection.
    pub fn handle_commit(
        &mut self,
        lane: LaneIndex,
        offset: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), LaneError> {
        self.lanes[lane].handle_commit(offset, ranges)
    }

    /// Appends the announcements that are due to a lane's stream.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        // Further announcements wait for their time.
        if self.lanes[lane].announce(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns a lane that has got a grant or a request since the last call that returned it. A
    /// lane without bytes to send has none until `take_permitted` returns it, so that a shaper with
    /// hundreds of lanes looks at few of them.
    pub fn take_permitted(&mut self) -> Option<LaneIndex> {
        self.permitted.take_first()
    }

    /// Returns the number of bytes that a lane may send now; 0 without a connection.
    pub fn sendable(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].sendable()
    }

    /// Returns the number of bytes of [`Self::sendable`] to send next: about `about` bytes that end
    /// with a fragment if possible (see
    /// [`OutgoingLane::sendable_whole`](crate::lane::OutgoingLane::sendable_whole)).
    pub fn sendable_whole(&self, lane: LaneIndex, about: u64) -> u64 {
        self.lanes[lane].sendable_whole(about)
    }

    /// Returns at most `limit` granted bytes of a lane for sending.
    pub fn take(&mut self, lane: LaneIndex, limit: u64) -> Option<Taken> {
        self.lanes[lane].take(limit)
    }

    /// Collects the memory of a range that [`Self::take`] returned (see
    /// [`OutgoingLane::gather`](crate::lane::OutgoingLane::gather)).
    pub fn gather<'a>(&'a self, lane: LaneIndex, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        self.lanes[lane].gather(range, slices)
    }

    /// Calls `each` for the pieces of memory of a range (see
    /// [`OutgoingLane::pieces`](crate::lane::OutgoingLane::pieces)).
    pub fn pieces<'a>(
        &'a self,
        lane: LaneIndex,
        range: Range<u64>,
        room: usize,
        each: impl FnMut(&'a [u8]),
    ) -> u64 {
        self.lanes[lane].outgoing().pieces(range, room, each)
    }

    /// Returns the lane offset up to which the builder permits the source to send.
    pub fn granted(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].outgoing().granted()
    }

    /// Returns the events whose fragments a lane keeps until they are committed.
    pub fn held_events(&self, lane: LaneIndex) -> impl Iterator<Item = EventId> {
        self.lanes[lane].held_events()
    }

    /// Makes a lane's records and data travel in datagrams of this association, of at most
    /// `datagram` bytes each, until [`Self::handle_lane_disconnected`]. Call `associate` after
    /// [`Self::handle_lane_connected`]. `estimate` is the round trip time to the builder, if known.
    pub fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
    ) {
        self.lanes[lane].associate(association, estimate, datagram, &self.times);
    }

    /// Handles a datagram for a lane. PROBE_REPLY datagrams are handled by the driver.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// Returns [`DatagramFault`]. Drop the datagram if the fault is [`DatagramFault::Stale`];
    /// otherwise close the lane's connection.
    pub fn handle_datagram(
        &mut self,
        lane: LaneIndex,
        header: &DatagramHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        // A datagram may be faulty after a grant.
        self.permitted.insert(lane);
        self.lanes[lane].handle_datagram(header, body, now)?;
        self.announce.insert(lane);
        Ok(())
    }

    /// Appends one datagram of records if the lane has an association: announcements that are due,
    /// and acknowledgements. Call `write_datagram` after
    /// [`Output::Announce`](super::Output::Announce).
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        if self.lanes[lane].write_datagram(now, into) {
            self.announce.insert(lane);
        }
    }

    /// Returns the header fields that the datagrams of a train share, or `None` if the lane's
    /// association has ended. Call [`Self::handle_sent`] when the datagrams are sent.
    pub(super) fn sealing(&mut self, lane: LaneIndex, request: Request) -> Option<Sealing> {
        self.lanes[lane].sealing(request)
    }

    /// Notes that `count` datagrams were sent with the header fields of [`Self::sealing`].
    pub(super) fn handle_sent(&mut self, lane: LaneIndex, count: u32) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.advance(count);
        }
    }

    /// Delays the lane's records until `until`, because the host cannot send them now.
    pub(super) fn put_off(&mut self, lane: LaneIndex, until: Instant) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.put_off(until);
        }
    }

    /// Sets whether bytes that answer the builder's requests have been taken from the lane and not
    /// been sent yet.
    pub(super) fn set_answering(&mut self, lane: LaneIndex, is_answering: bool) {
        if let Some(datagrams) = self.lanes[lane].datagrams_mut() {
            datagrams.set_answering(is_answering);
        }
    }

    /// Returns true if the builder has not acknowledged the lane's announcements for too long.
    /// Close the lane's connection, and look for another path.
    pub fn is_silent(&self, lane: LaneIndex, now: Instant) -> bool {
        self.lanes[lane].datagrams().is_some_and(|datagrams| datagrams.is_silent(now))
    }

    /// Returns the number of datagrams that repeated announcements of the lane's association.
    pub fn repeated_announcements(&self, lane: LaneIndex) -> u64 {
        self.lanes[lane].datagrams().map_or(0, |datagrams| datagrams.repeated)
    }

    /// Returns the association of the lane; `None` for a lane over a stream.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.get(lane.get())?.datagrams().map(OutgoingDatagrams::association)
    }

    /// Returns the number of fragments that the source keeps: until the builder commits them, or
    /// until their event has a builder.
    pub fn uncommitted(&self) -> usize {
        let held = |lane: &SourceLane| lane.outgoing().held_fragments();
        self.lanes.iter().map(held).sum::<usize>() + self.parking.len()
    }
}
