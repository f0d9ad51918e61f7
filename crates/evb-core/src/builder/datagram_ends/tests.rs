use bytes::BytesMut;

use super::{DatagramEnds, Noted, REPLIES};
use crate::{
    builder::{
        BuilderCore,
        tests::{GrantAll, at, config},
    },
    id::{BuilderId, Epoch, SourceId},
    index::LaneIndex,
    lane::{DatagramFault, Unbelieved},
    set::SourceSet,
    units::Bytes,
    wire::{
        control::DatagramReport,
        datagram::{Association, DatagramHeader, DatagramKind},
    },
};

/// The second of two lanes.
const LANE: LaneIndex = LaneIndex::new(1);
const ASSOCIATION: Association =
    Association { epoch: Epoch::new(1), source: SourceId::new(2), builder: BuilderId::new(1), connection: 7 };

/// Addresses of a source and of others.
const SOURCE: u16 = 1000;
const OTHER: u16 = 2000;

/// Returns a builder with an open lane, and the ends of its lanes.
fn opened() -> (BuilderCore<GrantAll>, DatagramEnds<u16>) {
    let mut core = BuilderCore::new(config(2, 4), GrantAll::default(), at(0));
    core.handle_roster(1, SourceSet::first(2), SourceSet::default(), at(0));
    core.handle_lane_connected(LANE, at(0));
    core.associate(LANE, ASSOCIATION, None, Bytes::kib(64), at(0));
    let mut ends = DatagramEnds::new(core.config().sources.clone());
    ends.open(LANE, None);
    (core, ends)
}

fn sealed(association: Association, kind: DatagramKind, sequence: u32, body: &[u8]) -> Vec<u8> {
    let header = DatagramHeader { kind, request: 0, association, sequence, heard: 0, offset: 0 };
    [&header.seal([body])[..], body].concat()
}

/// Passes datagrams on that arrived together, and returns what the driver learns of them.
fn receive(
    core: &mut BuilderCore<GrantAll>,
    ends: &mut DatagramEnds<u16>,
    from: u16,
    datagrams: &[Vec<u8>],
) -> Vec<Noted> {
    let mut noted = Vec::new();
    ends.receive(core, from, datagrams.iter().map(Vec::as_slice), at(1), |what| noted.push(what));
    noted
}

/// Returns the address to which the lane's records go now.
fn peer(core: &mut BuilderCore<GrantAll>, ends: &mut DatagramEnds<u16>) -> Option<u16> {
    ends.write(core, LANE, at(2), &mut BytesMut::new())
}

#[test]
fn datagrams_of_no_lane_are_counted_by_their_fault() {
    let (mut core, mut ends) = opened();
    let good = sealed(ASSOCIATION, DatagramKind::Records, 1, &[]);
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    let stale = sealed(Association { connection: 8, ..ASSOCIATION }, DatagramKind::Records, 1, &[]);
    let unknown =
        sealed(Association { source: SourceId::new(9), ..ASSOCIATION }, DatagramKind::Records, 1, &[]);
    let noted = receive(&mut core, &mut ends, OTHER, &[b"short".to_vec(), damaged, stale, unknown]);
    assert!(
        matches!(
            noted[..],
            [
                Noted::Ignored(Unbelieved::Datagram(_)),
                Noted::Ignored(Unbelieved::Datagram(_)),
                Noted::Ignored(Unbelieved::Stale),
                Noted::Ignored(Unbelieved::Stale)
            ]
        ),
        "{noted:?}"
    );
    assert_eq!(
        ends.counts(),
        DatagramReport { foreign: 1, damaged: 1, stale: 2, ..DatagramReport::default() }
    );
    assert_eq!(peer(&mut core, &mut ends), None, "they tell no address");
    assert!(receive(&mut core, &mut ends, SOURCE, std::slice::from_ref(&good)).is_empty());
    assert_eq!(peer(&mut core, &mut ends), Some(SOURCE));
    ends.close(LANE);
    assert!(matches!(
        receive(&mut core, &mut ends, SOURCE, &[good])[..],
        [Noted::Ignored(Unbelieved::Stale)]
    ));
}

#[test]
fn only_a_probe_moves_the_source_and_is_replied_to() {
    let (mut core, mut ends) = opened();
    let records = |sequence| sealed(ASSOCIATION, DatagramKind::Records, sequence, &[]);
    assert!(receive(&mut core, &mut ends, SOURCE, &[records(1)]).is_empty());
    assert!(receive(&mut core, &mut ends, OTHER, &[records(2)]).is_empty());
    assert_eq!(peer(&mut core, &mut ends), Some(SOURCE));
    let probe = sealed(ASSOCIATION, DatagramKind::Probe, 3, &[0; 100]);
    let probes = vec![probe.clone(); REPLIES + 5];
    assert!(receive(&mut core, &mut ends, OTHER, &probes).is_empty());
    assert_eq!(peer(&mut core, &mut ends), Some(OTHER));
    let replies: Vec<_> = ends.take_replies().collect();
    assert_eq!(replies.len(), REPLIES);
    for (to, reply) in replies {
        let (header, body) = DatagramHeader::open(&reply).unwrap();
        assert!(to == OTHER && header.kind == DatagramKind::ProbeReply && body.is_empty());
        assert_eq!(header.offset, probe.len() as u64);
    }
}

#[test]
fn a_source_that_breaks_the_protocol_ends_its_lane() {
    let (mut core, mut ends) = opened();
    let reply = sealed(ASSOCIATION, DatagramKind::ProbeReply, 1, &[]);
    let noted = receive(&mut core, &mut ends, SOURCE, &[reply]);
    assert!(matches!(noted[..], [Noted::Ended(LANE, DatagramFault::WrongDirection)]), "{noted:?}");
}
