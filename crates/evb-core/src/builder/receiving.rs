//! Input from sources to a builder: connections, announcements and data, over streams and
//! datagrams.

use core::time::Duration;

use bytes::BytesMut;

use super::{BuilderCore, counters::DatagramCounters, segments::Segments};
use crate::{
    grant::GrantPolicy,
    id::Incarnation,
    index::LaneIndex,
    lane::{DatagramFault, IncomingDatagrams, LaneError},
    time::Instant,
    units::Bytes,
    wire::{
        control::LaneState,
        datagram::{Association, DatagramHeader},
        record::Announcement,
    },
};

impl<P: GrantPolicy> BuilderCore<P> {
    /// Admits a source's incarnation to its lane. The lane of a new incarnation begins at 0.
    /// Returns false for an incarnation that has been replaced.
    /// Requirements: docs/reference/protocol.md LANE-24.
    pub fn meet(&mut self, lane: LaneIndex, incarnation: Incarnation, now: Instant) -> bool {
        let known = self.lanes.lane(lane).incarnation();
        if incarnation > known {
            self.lanes.restart(lane, incarnation, now);
            self.unaccounted.void(lane);
            self.slots.withdraw(lane.get(), now, |ended| self.lanes.note_end(ended));
        }
        incarnation >= known
    }

    /// Notes that a source connected or reconnected. Returns the lane's state, from which the
    /// source continues.
    pub fn handle_lane_connected(&mut self, lane: LaneIndex, now: Instant) -> LaneState {
        self.lanes.connect(lane, now)
    }

    /// Notes that a source's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: LaneIndex, now: Instant) {
        self.lanes.disconnect(lane, now);
    }

    /// Returns a lane that is to be closed because it withholds budget that others wait for
    /// ([`GrantPolicy::withholding`]).
    pub fn withholding_lane(&self, now: Instant) -> Option<LaneIndex> {
        self.lanes.withholding(now)
    }

    /// Returns true if the source of that lane has a live connection.
    pub fn is_lane_connected(&self, lane: LaneIndex) -> bool {
        self.lanes.lane(lane).incoming().is_connected()
    }

    /// Returns the lane offset up to which the source has been granted.
    pub fn granted(&self, lane: LaneIndex) -> u64 {
        self.lanes.lane(lane).incoming().granted()
    }

    /// Takes in an announcement record. Its announcements open their events in order.
    pub fn handle_announcements(
        &mut self,
        lane: LaneIndex,
        offset: u64,
        announcements: impl Iterator<Item = Announcement>,
        now: Instant,
    ) -> Result<(), LaneError> {
        let taken = self.lanes.handle_announcements(lane, offset, announcements, &mut self.slots, now);
        self.hasten_if_full();
        taken
    }

    /// Checks that a data record may come now.
    pub fn check_data(&self, lane: LaneIndex, offset: u64, length: u32) -> Result<(), LaneError> {
        self.lanes.lane(lane).incoming().check_data(offset, length)
    }

    /// Takes in data bytes of a record that was checked.
    pub fn handle_data(&mut self, lane: LaneIndex, bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_data(lane, bytes, &mut self.slots, now)
    }

    /// Returns memory for the next bytes of a large fragment, and the most bytes to read into it.
    /// Call [`Self::handle_filled`] after the read. Returns `None` if the bytes are to go through
    /// [`Self::handle_data`].
    pub fn spare_memory(&mut self, lane: LaneIndex) -> Option<(&mut BytesMut, usize)> {
        self.lanes.lane(lane).spare_memory(&mut self.slots)
    }

    /// Notes that `count` bytes were read into [`Self::spare_memory`].
    pub fn handle_filled(&mut self, lane: LaneIndex, count: usize, now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_filled(lane, count, &mut self.slots, now);
        Ok(())
    }

    /// Appends the records for the lane's source (docs/reference/protocol.md LANE-18).
    pub fn write_records(&mut self, lane: LaneIndex, into: &mut BytesMut) {
        self.lanes.write_records(lane, into);
    }

    /// Moves the lane's records and bytes to datagrams of this association, until
    /// [`Self::handle_lane_disconnected`]. Call it after [`Self::handle_lane_connected`]. Bytes are
    /// kept up to `window` beyond the first missing one; `estimate` is the round trip to the
    /// source, if known.
    pub fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        window: Bytes,
        now: Instant,
    ) {
        let mut datagrams = IncomingDatagrams::new(association, estimate, window, now);
        datagrams.recovery.expect_queue(self.config.queue);
        self.lanes.associate(lane, datagrams);
    }

    /// Returns the association of a lane, if it has one.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.iter().nth(lane.get())?.datagrams().map(IncomingDatagrams::association)
    }

    /// Takes in a datagram for that lane. Drivers answer probes themselves.
    ///
    /// # Errors
    /// The errors are those of [`Self::handle_datagrams`].
    pub fn handle_datagram(
        &mut self,
        lane: LaneIndex,
        header: &DatagramHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        self.handle_datagrams(lane, &Segments::one(*header, body), now)
    }

    /// Takes in consecutive datagrams for that lane. Everything but their bytes is handled once for
    /// all of them.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// Returns [`DatagramFault`]: drop the datagrams if they are stale, otherwise close the
    /// connection.
    pub fn handle_datagrams(
        &mut self,
        lane: LaneIndex,
        segments: &Segments<'_>,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        let taken = self.lanes.handle_datagrams(lane, segments, &mut self.slots, now);
        self.hasten_if_full();
        taken
    }

    /// Appends the datagram for the lane's source, or nothing if the lane has no association.
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.lanes.write_datagram(lane, now, into);
    }

    /// Returns lanes whose datagrams get no answer. Close their connections, and let the sources
    /// find another path.
    pub fn silent_lanes(&self, now: Instant) -> impl Iterator<Item = LaneIndex> {
        let lanes = self.lanes.iter().enumerate();
        let silent = lanes.filter(move |(_, lane)| lane.datagrams().is_some_and(|one| one.is_silent(now)));
        silent.map(|(index, _)| LaneIndex::new(index))
    }

    /// Returns the datagram counters of a lane, over all its associations.
    pub fn datagram_counters(&self, lane: LaneIndex) -> DatagramCounters {
        self.lanes.lane(lane).datagram_counters()
    }
}
