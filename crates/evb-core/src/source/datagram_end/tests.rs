use core::ops::Range;

use bytes::BytesMut;

use super::{DatagramEnd, MAX_DATAGRAMS, Train};
use crate::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, SourceId},
    index::LaneIndex,
    lane::{Envelope, MAX_RESENDS, Request, TagDatagrams, Tags, Unbelieved},
    source::{
        SourceCore,
        tests::{FOUR, at, decisions, source},
    },
    units::Bytes,
    wire::{
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
        record::{RecordHeader, encode_commit},
        tag::TAG_LENGTH,
    },
};

const LANE: LaneIndex = LaneIndex::new(0);
const ASSOCIATION: Association = Association {
    epoch: Epoch::new(7),
    source: SourceId::new(3),
    builder: BuilderId::new(4),
    connection: 0xabcd,
};

/// Number of lane bytes in a datagram.
const SEGMENT: usize = 60;

/// Lane bytes of all fragments.
const LANE_BYTES: u64 = 30 * 100;

/// Returns a source that has sent all bytes of its lane, and the end of the lane, which sends at
/// most three datagrams at once.
fn lane(tags: Tags) -> (SourceCore, DatagramEnd) {
    let mut core = source(false);
    core.handle_lane_connected(LANE, 0, 0).unwrap();
    core.associate(LANE, ASSOCIATION, None, 1472);
    core.handle_decisions(&decisions(1, &[FOUR; 30])).unwrap();
    for event in 1..=30 {
        let payload = vec![event as u8; 84];
        core.push(Fragment::new(EventId::new(event), Timestamp::default(), payload), at(0)).unwrap();
    }
    for turn in 0..100 {
        core.write_datagram(LANE, at(turn * 100), &mut BytesMut::new());
    }
    core.handle_grant(LANE, LANE_BYTES).unwrap();
    while core.take(LANE, u64::MAX).is_some() {}
    let datagram = DATAGRAM_HEADER + SEGMENT + if tags.is_some() { TAG_LENGTH } else { 0 };
    (core, DatagramEnd::new(datagram, tags).in_trains_of(Some(Bytes::new(3 * datagram as u64))))
}

/// Returns a datagram with records of the builder.
fn of_builder(records: &[u8]) -> BytesMut {
    let kind = DatagramKind::Records;
    let header =
        DatagramHeader { kind, request: 0, association: ASSOCIATION, sequence: 1, heard: 0, offset: 0 };
    BytesMut::from(&[&header.seal([records])[..], records].concat()[..])
}

/// Sends everything that waits. Returns the request and the lane bytes of each data datagram, and
/// an empty range for each datagram of records.
fn sent(core: &mut SourceCore, end: &mut DatagramEnd) -> Vec<(Request, Range<u64>)> {
    let said = |datagram: &Vec<u8>| {
        let (header, body) = DatagramHeader::open(datagram).unwrap();
        match header.kind {
            DatagramKind::Data => (header.request, header.offset..header.offset + body.len() as u64),
            _ => (0, 0..0),
        }
    };
    end.send_all(core, LANE).iter().map(said).collect()
}

#[test]
fn a_socket_may_take_any_number_of_datagrams() {
    let (mut core, mut end) = lane(None);
    end.send(0..1000, 0, at(1));
    end.send(1000..1010, 0, at(2));
    let (mut taken, mut reached, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
    for most in [0, 3, 1, 0, 2, 3, 3, 3, 3, 3] {
        let transmit = |train: Train<'_>| {
            assert!(train.datagram == DATAGRAM_HEADER + SEGMENT && train.at.is_some(), "{train:?}");
            let datagrams: Vec<_> = train.datagrams().into_iter().take(most).collect();
            for datagram in &datagrams {
                let (header, body) = DatagramHeader::open(datagram).unwrap();
                assert_eq!(header.offset, taken.len() as u64);
                taken.extend_from_slice(body);
                sequences.push(header.sequence);
            }
            Ok::<_, ()>(datagrams.iter().map(Vec::len).sum())
        };
        reached.extend(end.send_train(&mut core, LANE, transmit).unwrap());
    }
    assert_eq!(sent(&mut core, &mut end), []);
    assert_eq!(reached, [0, 180, 240, 240, 360, 540, 720, 900, 1000, 1010]);
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
    let mut lane = Vec::new();
    core.pieces(LANE, 0..1010, usize::MAX, |piece| lane.extend_from_slice(piece));
    assert!(taken == lane, "other bytes");
}

#[test]
fn a_full_socket_loses_nothing() {
    let (mut core, mut end) = lane(None);
    end.announce(&mut core, LANE, at(0));
    end.send(0..60, 0, at(1));
    assert_eq!(end.send_train(&mut core, LANE, |_| Err("full")), Err("full"));
    end.send(60..120, 1, at(1));
    assert_eq!(end.send_train(&mut core, LANE, |_| Err("full")), Err("full"));
    assert_eq!(sent(&mut core, &mut end), [(1, 60..120), (0, 0..0), (0, 0..60)]);
}

#[test]
fn trains_are_as_long_as_they_are_asked_for() {
    for (datagram, asked, most) in [
        (1472, Some(8192), 5),
        (1472, Some(100), 1),
        (1472, Some(1 << 30), 44),
        (1472, None, 44),
        (100, None, MAX_DATAGRAMS),
    ] {
        let end = DatagramEnd::new(datagram, None).in_trains_of(asked.map(Bytes::new));
        assert_eq!(end.most, most, "{asked:?}");
    }
}

#[test]
fn retransmissions_go_first_and_replace_older_ones() {
    let (mut core, mut end) = lane(None);
    end.send(500..560, 0, at(1));
    end.send(0..60, 1, at(2));
    end.send(100..160, 2, at(3));
    end.send(130..190, 3, at(4));
    assert_eq!(sent(&mut core, &mut end), [(1, 0..60), (2, 100..130), (3, 130..190), (0, 500..560)]);
    // Bytes for the first time are replaced by nothing.
    end.send(500..560, 0, at(5));
    end.send(500..560, 4, at(5));
    assert_eq!(sent(&mut core, &mut end), [(4, 500..560), (0, 500..560)]);
}

/// Tests docs/reference/protocol.md UDP-16.
#[test]
fn the_queue_has_room_for_so_many_retransmissions() {
    let (mut core, mut end) = lane(None);
    for index in 0..MAX_RESENDS as u64 + 5 {
        end.send(index..index + 1, 1, at(1));
    }
    end.send(2000..2001, 0, at(1));
    let sent = sent(&mut core, &mut end);
    assert_eq!(sent.iter().filter(|(request, _)| *request == 1).count(), MAX_RESENDS);
    assert_eq!(sent.last(), Some(&(0, 2000..2001)));
}

#[test]
fn records_wait_for_what_answers_requests_but_not_for_other_data() {
    let (mut core, mut end) = lane(None);
    end.send(0..60, 0, at(1));
    end.announce(&mut core, LANE, at(0));
    assert_eq!(sent(&mut core, &mut end), [(0, 0..0), (0, 0..60)]);
    end.announce(&mut core, LANE, at(0));
    end.send(60..120, 0, at(1));
    end.send(0..60, 1, at(1));
    assert_eq!(sent(&mut core, &mut end), [(1, 0..60), (0, 0..0), (0, 60..120)]);
}

#[test]
fn one_datagram_of_records_waits_at_a_time() {
    let (mut core, mut end) = lane(None);
    assert_eq!(end.announce(&mut core, LANE, at(0)), 0, "it only acknowledges");
    end.announce(&mut core, LANE, at(0));
    assert_eq!(sent(&mut core, &mut end), [(0, 0..0)]);
}

#[test]
fn bytes_that_were_committed_meanwhile_are_not_sent_again() {
    let (mut core, mut end) = lane(None);
    end.send(0..300, 1, at(1));
    let mut commit = BytesMut::new();
    encode_commit(100, &[], &mut commit);
    assert_eq!(end.receive(&mut core, LANE, &of_builder(&commit), at(20_000)), Ok(None));
    assert_eq!(sent(&mut core, &mut end), [(1, 120..180), (1, 180..240), (1, 240..300)]);
    end.send(0..60, 2, at(1));
    assert_eq!(sent(&mut core, &mut end), []);
}

/// Tags that are the sum of all bytes.
#[derive(Debug)]
struct Sums;

impl TagDatagrams for Sums {
    fn tag(&mut self, header: &[u8; DATAGRAM_HEADER], body: &[&[u8]]) -> [u8; TAG_LENGTH] {
        [header.iter().chain(body.iter().copied().flatten()).fold(0, |sum, byte| sum ^ byte); TAG_LENGTH]
    }

    fn check(
        &mut self,
        _: &DatagramHeader,
        datagram: &[u8],
        tag: &[u8; TAG_LENGTH],
    ) -> Result<(), Unbelieved> {
        let sum = datagram.iter().fold(0, |sum, byte| sum ^ byte);
        if *tag == [sum; TAG_LENGTH] { Ok(()) } else { Err(Unbelieved::Forged) }
    }
}

#[test]
fn a_tag_follows_each_datagram_of_peers_with_a_key() {
    let (mut core, mut end) = lane(Some(Box::new(Sums)));
    end.announce(&mut core, LANE, at(0));
    end.send(0..400, 0, at(1));
    let mut tags: Tags = Some(Box::new(Sums));
    let mut kinds = Vec::new();
    for mut datagram in end.send_all(&mut core, LANE) {
        assert!(datagram.len() <= DATAGRAM_HEADER + SEGMENT + TAG_LENGTH);
        kinds.push(Envelope::open(&datagram, &mut tags).unwrap().0.kind == DatagramKind::Data);
        datagram[9] ^= 1;
        assert_eq!(Envelope::open(&datagram, &mut tags), Err(Unbelieved::Forged));
    }
    assert_eq!(kinds, [false, true, true, true, true, true, true, true]);
    // Those of the builder must have a tag, too.
    let mut datagram = of_builder(&RecordHeader::Grant { end: 1 }.encode());
    assert_eq!(end.receive(&mut core, LANE, &datagram, at(0)), Ok(Some(Unbelieved::Forged)));
    Envelope::close(&mut datagram, &mut tags);
    assert_eq!(end.receive(&mut core, LANE, &datagram, at(0)), Ok(None));
}
