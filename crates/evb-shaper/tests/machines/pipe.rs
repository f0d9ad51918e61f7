//! One lane's connection in memory. The connection passes bytes to builder and source in pieces of
//! any size, and can break at any byte.

use bytes::BytesMut;
use evb_core::{
    builder::BuilderCore,
    index::LaneIndex,
    source::SourceCore,
    time::Instant,
    wire::{
        control::LaneState,
        record::{ANNOUNCEMENT, Announcement, COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_range},
    },
};
use evb_shaper::Policy;

/// The bytes under way in both directions, and the lane's counters as seen in the records so far.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) up: BytesMut,
    pub(crate) down: BytesMut,
    /// The builder's answer to a new connection, which the source has not received yet.
    pub(crate) welcome: Option<LaneState>,
    pub(crate) is_up: bool,
    /// Data bytes of the current record that the builder has not received yet.
    data_left: usize,
    announced: u64,
    received: u64,
    granted: u64,
    committed: u64,
}

impl Pipe {
    /// Connects the lane, after the builder has accepted the connection with `state`.
    pub(crate) fn connect(&mut self, state: LaneState) {
        assert_eq!((state.received, state.announced), (self.received, self.announced));
        assert!(state.committed <= state.received && state.received <= state.announced);
        *self =
            Self { is_up: true, welcome: Some(state), up: BytesMut::new(), down: BytesMut::new(), ..*self };
        (self.data_left, self.granted) = (0, self.received);
    }

    pub(crate) fn cut(&mut self) {
        self.is_up = false;
        self.welcome = None;
        self.up.clear();
        self.down.clear();
    }

    /// Passes at most `limit` bytes to the builder. Data are handed in by either of the builder's
    /// two functions for this.
    pub(crate) fn feed_builder(
        &mut self,
        builder: &mut BuilderCore<Policy>,
        lane: LaneIndex,
        limit: usize,
        now: Instant,
    ) {
        let mut budget = limit.min(self.up.len());
        loop {
            if self.data_left > 0 {
                let count = budget.min(self.data_left);
                if count == 0 {
                    return;
                }
                let data = self.up.split_to(count);
                read_data(builder, lane, &data, now);
                self.received += count as u64;
                self.data_left -= count;
                budget -= count;
                continue;
            }
            let Some(header) = self.up.first_chunk::<RECORD_HEADER>() else { return };
            let header = RecordHeader::decode(*header).unwrap();
            let length = RECORD_HEADER + header.body();
            if budget < length {
                return;
            }
            budget -= length;
            let record = self.up.split_to(length);
            match header {
                RecordHeader::Data { offset, length } => {
                    builder.check_data(lane, offset, length).unwrap();
                    assert!(offset + u64::from(length) <= self.granted, "sent what was not granted");
                    self.data_left = length as usize;
                }
                RecordHeader::Announce { offset, .. } => {
                    let items = record[RECORD_HEADER..].as_chunks::<ANNOUNCEMENT>().0;
                    let items = items.iter().map(Announcement::decode);
                    let end = offset + items.clone().map(|item| item.lane_length()).sum::<u64>();
                    builder.handle_announcements(lane, offset, items, now).unwrap();
                    self.announced = self.announced.max(end);
                }
                _ => panic!("not a source's record"),
            }
        }
    }

    /// Reads the records that the builder has written, and checks the order of the lane's counters:
    /// committed ≤ received ≤ granted ≤ ready.
    pub(crate) fn note_written(&mut self, mut written: &[u8]) {
        while let Some(header) = written.first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*header).unwrap();
            let (body, rest) = written[RECORD_HEADER..].split_at(header.body());
            match header {
                RecordHeader::Grant { end } => self.granted = end,
                RecordHeader::Commit { offset, .. } => {
                    assert!(offset >= self.committed, "committed goes back");
                    self.committed = offset;
                    for range in body.as_chunks::<COMMIT_RANGE>().0 {
                        let range = decode_range(range).unwrap();
                        assert!(offset < range.start && range.end <= self.received, "{range:?}");
                    }
                }
                _ => panic!("not a builder's record"),
            }
            written = rest;
        }
        assert!(self.committed <= self.received);
        assert!(self.received <= self.granted);
        assert!(self.granted <= self.announced);
    }

    /// Passes at most `limit` bytes of whole records to the source.
    pub(crate) fn feed_source(&mut self, source: &mut SourceCore, limit: usize) {
        let mut budget = limit.min(self.down.len());
        while let Some(header) = self.down.first_chunk::<RECORD_HEADER>() {
            let header = RecordHeader::decode(*header).unwrap();
            let length = RECORD_HEADER + header.body();
            if budget < length {
                break;
            }
            budget -= length;
            let record = self.down.split_to(length);
            match header {
                RecordHeader::Grant { end } => source.handle_grant(LaneIndex::new(0), end).unwrap(),
                RecordHeader::Commit { offset, .. } => {
                    let ranges = record[RECORD_HEADER..].as_chunks::<COMMIT_RANGE>().0;
                    let ranges: Vec<_> = ranges.iter().map(|r| decode_range(r).unwrap()).collect();
                    source.handle_commit(LaneIndex::new(0), offset, &ranges).unwrap();
                }
                _ => panic!("not a builder's record"),
            }
        }
    }
}

fn read_data(builder: &mut BuilderCore<Policy>, lane: LaneIndex, mut data: &[u8], now: Instant) {
    while !data.is_empty() {
        let count = match builder.spare_memory(lane) {
            Some((memory, room)) => {
                let count = room.min(data.len());
                memory.extend_from_slice(&data[..count]);
                count
            }
            None => {
                // The piece is small, so that after the header of a large fragment the builder can
                // offer memory to read into.
                let count = data.len().min(40);
                builder.handle_data(lane, &data[..count], now).unwrap();
                data = &data[count..];
                continue;
            }
        };
        builder.handle_filled(lane, count, now).unwrap();
        data = &data[count..];
    }
}
