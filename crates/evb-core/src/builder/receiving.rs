//! What sources send to a builder: connections, announcements and data, over streams and datagrams.

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
    /// A source wants its lane, in that life of it. A new life's lane begins at 0; false: of a life that is over.
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

    /// A source connected, or connected anew. Returns what we hold, for it to go on from there.
    pub fn handle_lane_connected(&mut self, lane: LaneIndex, now: Instant) -> LaneState {
        self.lanes.connect(lane, now)
    }

    /// A source's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: LaneIndex, now: Instant) {
        self.lanes.disconnect(lane, now);
    }

    /// A lane to be closed because it holds what the others wait for ([`GrantPolicy::withholding`]).
    pub fn withholding_lane(&self, now: Instant) -> Option<LaneIndex> {
        self.lanes.withholding(now)
    }

    /// Whether a source has a live connection.
    pub fn is_lane_connected(&self, lane: LaneIndex) -> bool {
        self.lanes.lane(lane).incoming().is_connected()
    }

    /// Returns the lane offset up to which a source was granted.
    pub fn granted(&self, lane: LaneIndex) -> u64 {
        self.lanes.lane(lane).incoming().granted()
    }

    /// An announcement record came in. Announcements of one record open their events in order.
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

    /// Whether a data record may come now.
    pub fn check_data(&self, lane: LaneIndex, offset: u64, length: u32) -> Result<(), LaneError> {
        self.lanes.lane(lane).incoming().check_data(offset, length)
    }

    /// Data bytes, within a record that was checked.
    pub fn handle_data(&mut self, lane: LaneIndex, bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_data(lane, bytes, &mut self.slots, now)
    }

    /// Memory for the next bytes of a large fragment, and how many it may take: read into it and call
    /// [`Self::handle_filled`]. `None` where the bytes are to go through [`Self::handle_data`].
    pub fn spare_memory(&mut self, lane: LaneIndex) -> Option<(&mut BytesMut, usize)> {
        self.lanes.lane(lane).spare_memory(&mut self.slots)
    }

    /// `count` bytes were read into [`Self::spare_memory`].
    pub fn handle_filled(&mut self, lane: LaneIndex, count: usize, now: Instant) -> Result<(), LaneError> {
        self.lanes.handle_filled(lane, count, &mut self.slots, now);
        Ok(())
    }

    /// Appends what the source of that lane is to hear (docs/reference/protocol.md LANE-18).
    pub fn write_records(&mut self, lane: LaneIndex, into: &mut BytesMut) {
        self.lanes.write_records(lane, into);
    }

    /// From now on, the lane's records and bytes come and go by datagrams of this association: until
    /// [`Self::handle_lane_disconnected`]. Call it after [`Self::handle_lane_connected`]. Bytes are kept up to `window` beyond
    /// the first that is missing; `estimate` is a round trip to the source, if one is known.
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

    /// The association of a lane, if it has one.
    pub fn association(&self, lane: LaneIndex) -> Option<Association> {
        self.lanes.iter().nth(lane.get())?.datagrams().map(IncomingDatagrams::association)
    }

    /// A datagram came in for that lane; probes are the driver's to answer.
    ///
    /// # Errors
    /// As [`Self::handle_datagrams`].
    pub fn handle_datagram(
        &mut self,
        lane: LaneIndex,
        header: &DatagramHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        self.handle_datagrams(lane, &Segments::one(*header, body), now)
    }

    /// Datagrams came in for that lane that follow each other. All but their bytes is dealt with once for all of them.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    ///
    /// # Errors
    /// [`DatagramFault`]: drop the datagrams if they are stale, else the connection.
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

    /// Appends the datagram that the source of that lane is to get; nothing if the lane has no association.
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.lanes.write_datagram(lane, now, into);
    }

    /// Lanes whose datagrams get nowhere: close their connections, and let the sources find another path.
    pub fn silent_lanes(&self, now: Instant) -> impl Iterator<Item = LaneIndex> {
        let lanes = self.lanes.iter().enumerate();
        let silent = lanes.filter(move |(_, lane)| lane.datagrams().is_some_and(|one| one.is_silent(now)));
        silent.map(|(index, _)| LaneIndex::new(index))
    }

    /// What was counted of a lane's datagrams, over all its associations.
    pub fn datagram_counters(&self, lane: LaneIndex) -> DatagramCounters {
        self.lanes.lane(lane).datagram_counters()
    }
}
