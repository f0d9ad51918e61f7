//! The state machines of a source and a builder, with as much data announced and granted as is
//! measured.

use std::time::Duration;

use bytes::BytesMut;
use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    fragment::{Checksum, Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    set::SourceSet,
    source::{self, SourceCore, SourceCoreConfig},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, Decisions, Verdict},
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
        record::{Announcement, encode_fragment_header},
    },
};
use evb_net::clock;
use evb_shaper::{
    Policy, Shaping,
    cost::{CELL, PacketCost},
};

pub(super) const ASSOCIATION: Association = Association {
    epoch: Epoch::new(1),
    source: SourceId::new(1),
    builder: BuilderId::new(1),
    connection: 0xabcd,
};
/// Lane bytes of a segment in a packet of 1500 B.
pub(super) const DATAGRAM: usize = 1472 - DATAGRAM_HEADER;
/// Least number of payload bytes that are measured. `cargo xtask instructions` divides by whole
/// fragments of at least this many bytes.
const PAYLOAD: usize = 256_000;

/// Returns the payload of one fragment, and the number of fragments.
pub(super) fn payload(length: usize) -> (Vec<u8>, usize) {
    ((0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect(), PAYLOAD.div_ceil(length))
}

/// Returns the lane's bytes: header and payload of each fragment.
pub(super) fn lane_bytes(length: usize) -> Vec<u8> {
    let (payload, count) = payload(length);
    let checksum = Checksum::of(&payload);
    let fragment = |event| [&encode_fragment_header(EventId::new(event), checksum)[..], &payload].concat();
    (1..=count as u64).flat_map(fragment).collect()
}

/// Returns a source whose fragments are all announced and granted.
pub(super) fn source_core(length: usize, datagrams: bool) -> SourceCore {
    let config = SourceCoreConfig {
        id: ASSOCIATION.source,
        max_fragment: Bytes::mib(1),
        orphan_timeout: Duration::from_secs(3600),
        heartbeat: Duration::from_secs(3600),
        builders: vec![ASSOCIATION.builder],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::from_secs(20),
        queue_delay: Duration::from_millis(1),
        report_period: Duration::ZERO,
    };
    let now = clock::now();
    let mut core = SourceCore::new(config, now);
    core.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    let (payload, count) = payload(length);
    let mut decisions = Decisions::starting(EventId::FIRST);
    decisions.extend(count as u32, Verdict::Assigned(ASSOCIATION.builder));
    core.handle_decisions(&decisions).unwrap();
    for event in 1..=count as u64 {
        core.push(Fragment::new(EventId::new(event), Timestamp::default(), payload.clone()), now).unwrap();
    }
    let mut records = BytesMut::new();
    // Announcements that are not urgent wait for others to share a packet with, so the loop lets
    // time pass.
    for at in (0..=count as u32).map(|step| now + Duration::from_millis(50) * step) {
        core.handle_timeout(at);
        while let Some(output) = core.poll(at) {
            if let source::Output::Announce(lane) = output {
                core.announce(lane, at, &mut records);
            }
        }
    }
    if datagrams {
        core.associate(LaneIndex::new(0), ASSOCIATION, None, DATAGRAM + DATAGRAM_HEADER);
    }
    core.handle_grant(LaneIndex::new(0), lane_length(length)).unwrap();
    core
}

/// Returns a header of the source's datagrams.
pub(super) fn header(kind: DatagramKind, sequence: u32, offset: u64) -> DatagramHeader {
    DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence, heard: 0, offset }
}

/// Returns a builder whose lane is completely announced and granted.
pub(super) fn builder_core(length: usize, datagrams: bool) -> BuilderCore<Policy> {
    let (payload, count) = payload(length);
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: ASSOCIATION.builder,
        run: RunNumber::new(1),
        epoch: ASSOCIATION.epoch,
        slots: count,
        deadline: Duration::from_secs(3600),
        heartbeat: Duration::from_secs(3600),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![ASSOCIATION.source],
        max_fragment: vec![Bytes::new(length as u64)],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let now = clock::now();
    let cost = if datagrams { PacketCost::udp(1500, CELL) } else { PacketCost::tcp(1500, CELL) };
    let mut core = BuilderCore::new(config, Shaping::LOOPBACK.policy(1, cost, 0), now);
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), now);
    core.handle_lane_connected(LaneIndex::new(0), now);
    if datagrams {
        core.associate(LaneIndex::new(0), ASSOCIATION, None, Bytes::mib(4), now);
        // The builder has heard from the source.
        core.handle_datagram(LaneIndex::new(0), &header(DatagramKind::Records, 1, 0), &[], now).unwrap();
    }
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    let mut last = (EventId::default(), 0);
    let events = || (1..=count as u64).map(EventId::new);
    events().for_each(|event| assignments.add(&mut last, event, now.as_nanos()));
    core.handle_assignments(&assignments, now).unwrap();
    let length = payload.len() as u32;
    let announcements = events().map(|event| Announcement {
        event,
        timestamp: Timestamp::default(),
        length,
        lost_packets: 0,
    });
    core.handle_announcements(LaneIndex::new(0), 0, announcements, now).unwrap();
    settle(&mut core, now, |core, lane| {
        core.write_records(LaneIndex::new(lane), &mut BytesMut::new());
    });
    core
}

/// Returns the number of lane bytes that are measured.
pub(super) fn lane_length(length: usize) -> u64 {
    let (_, count) = payload(length);
    (count * (length + encode_fragment_header(EventId::FIRST, Checksum::default()).len())) as u64
}

/// Performs the builder's outputs, and returns the number of events that it has built.
pub(super) fn settle(
    core: &mut BuilderCore<Policy>,
    now: Instant,
    mut write: impl FnMut(&mut BuilderCore<Policy>, usize),
) -> usize {
    let mut built = 0;
    while let Some(output) = core.poll(now) {
        match output {
            builder::Output::Event(event) => {
                built += 1;
                assert!(event.is_complete());
                core.handle_written(event, now);
            }
            builder::Output::Lane(lane) => write(core, lane.get()),
            builder::Output::Supervisor(control) => {
                if let Some(accounted) = Accounted::of(&control) {
                    core.handle_accounted(&accounted).unwrap();
                }
            }
        }
    }
    built
}
