//! Input of a builder from its sources: connections, announcements and data, over streams and
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
    /// Admits an incarnation of a source to its lane. The lane of a new incarnation begins at 0.
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

    /// Notes that the connection of a source is gone.
    pub fn handle_lane_disconnected(&mut self, lane: LaneIndex, now: Instant) {
        self.lanes.disconnect(lane, now);
    }

    /// Returns a lane for the driver to close, because it has grants but brings no data while other
    /// lanes wait for the budget ([`GrantPolicy::withholding`]).
    pub fn withholding_lane(&self, now: Instant) -> Option<LaneIndex> {
        self.lanes.withholding(now)
    }

    /// Returns true if the lane's connection is up.
    pub fn is_lane_connected(&self, lane: LaneIndex) -> bool {
        self.lanes.lane(lane).incoming().is_connected()
    }

    /// Returns the lane offset up to which the builder permits the source to send.
    pub fn granted(&self, lane: LaneIndex) -> u64 {
        self.lanes.lane(lane).incoming().granted()
    }

    /// Accepts an ANNOUNCE record. The fragments are added to their events in the order of the
    /// record.
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

    /// Checks that a data record with this offset and length is valid now.
    pub fn check_data(&self, lane: LaneIndex, offset: u64, length: u32) -> Result<(), LaneError> {
        self.lanes.lane(lane).incoming().check_data(offset, length)
    }

    /// Accepts data bytes of a record that [`Self::check_data`] accepted.
    pub fn handle_data(&mut self, lane: LaneIndex, bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_data(lane, bytes, &mut self.slots, now)
    }

    /// Returns memory for the next bytes of a large fragment, and the most bytes to read into it.
    /// Call [`Self::handle_filled`] after the read. Returns `None` if the bytes are to go through
    /// [`Self::handle_data`].
    pub fn spare_memory(&mut self, lane: LaneIndex) -> Option<(&mut BytesMut, usize)> {
        self.lanes.lane(lane).spare_memory(&mut self.slots)
    }

    /// Notes that the driver has read `count` bytes into [`Self::spare_memory`].
    pub fn handle_filled(&mut self, lane: LaneIndex, count: usize, now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_filled(lane, count, &mut self.slots, now);
        Ok(())
    }

    /// Appends the records that wait for the lane's source (docs/reference/protocol.md LANE-18).
    pub fn write_records(&mut self, lane: LaneIndex, into: &mut BytesMut) {
        self.lanes.write_records(lane, into);
    }

    /// Makes the lane's records and data travel in datagrams of this association, until
    /// [`Self::handle_lane_disconnected`]. Call `associate` after [`Self::handle_lane_connected`].
    /// The lane keeps early bytes up to `window` beyond the first missing byte; `estimate` is the
    /// round trip time to the source, if known.
    pub fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        window: Bytes,
        now: Instant,
    ) {
        let mut datagrams = IncomingDatagrams::new(association, estimate, window, now);
        datagrams.recovery.expect_queue(self.config.queue_delay);
        self.lanes.associate(lane, datagrams);
    }

    /// Returns the association of the lane; `None` for a lane over a stream.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.iter().nth(lane.get())?.datagrams().map(IncomingDatagrams::association)
    }

    /// Handles one datagram of that lane. PROBE datagrams are answered by
    /// [`DatagramEnds`](super::DatagramEnds).
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

    /// Handles consecutive datagrams of that lane. The header fields that they share are handled
    /// once for all of them.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// Returns [`DatagramFault`]. Drop the datagrams if the fault is [`DatagramFault::Stale`];
    /// otherwise close the lane's connection.
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

    /// Appends one datagram with all records for the lane's source, or nothing if the lane has no
    /// association.
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.lanes.write_datagram(lane, now, into);
    }

    /// Returns lanes whose datagrams the source has not answered for too long. Close their
    /// connections, so that the sources look for another path.
    pub fn silent_lanes(&self, now: Instant) -> impl Iterator<Item = LaneIndex> {
        self.lanes.silent(now)
    }

    /// Returns the datagram counters of a lane, over all its associations.
    pub fn datagram_counters(&self, lane: LaneIndex) -> DatagramCounters {
        self.lanes.lane(lane).datagram_counters()
    }
}
