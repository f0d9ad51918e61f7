use bytes::BytesMut;
use proptest::prelude::*;

use super::{
    control::{Assignments, Completions, Decisions, Verdict},
    preamble::{ConnectionKind, PreambleError, Spoken, check_preamble, preamble, protected_preamble},
    record::{
        ANNOUNCEMENT, Announcement, MAX_ANNOUNCEMENTS, MAX_COMMIT_RANGES, MAX_DATA, MAX_RESEND_RANGES,
        RECORD_HEADER, RecordError, RecordHeader, decode_range, encode_commit, encode_resend, next_record,
    },
};
use crate::{
    fragment::Timestamp,
    id::{BuilderId, EventId},
};

#[test]
fn preamble_tells_strangers_versions_and_ports_apart() {
    let ours = preamble(ConnectionKind::Lane);
    assert_eq!(check_preamble(ours, ConnectionKind::Lane), Ok(Spoken::Clear));
    let sealed = protected_preamble(ConnectionKind::Lane, Spoken::Noise);
    assert_eq!((&sealed[..7], sealed[7]), (&ours[..7], 1));
    assert_eq!(check_preamble(sealed, ConnectionKind::Lane), Ok(Spoken::Noise));
    let mut unknown = ours;
    unknown[7] = 2;
    assert_eq!(check_preamble(unknown, ConnectionKind::Lane), Err(PreambleError::Protection(2)));
    assert_eq!(check_preamble(ours, ConnectionKind::Control), Err(PreambleError::Kind { wanted: 2 }));
    assert_eq!(check_preamble(*b"GET / HT", ConnectionKind::Lane), Err(PreambleError::Foreign(*b"GET / HT")));
    let mut newer = ours;
    newer[4] = 9;
    assert_eq!(check_preamble(newer, ConnectionKind::Lane), Err(PreambleError::Version { theirs: 9 }));
}

#[test]
fn golden_bytes_of_every_record() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(
        hex(&RecordHeader::Announce { count: 2, offset: 0x1122 }.encode()),
        "01000200300000002211000000000000"
    );
    assert_eq!(
        hex(&RecordHeader::Data { length: 8192, offset: 1 }.encode()),
        "02000000002000000100000000000000"
    );
    assert_eq!(hex(&RecordHeader::Grant { end: 3 }.encode()), "03000000000000000300000000000000");
    let mut commit = BytesMut::new();
    encode_commit(7, core::slice::from_ref(&(9..10)), &mut commit);
    assert_eq!(hex(&commit), "0400010010000000070000000000000009000000000000000a00000000000000");
    let mut announcement = BytesMut::new();
    Announcement { event: EventId::new(5), timestamp: Timestamp::new(6), length: 7, lost_packets: 0 }
        .encode(&mut announcement);
    assert_eq!(hex(&announcement), "050000000000000006000000000000000700000000000000");
    let mut resend = BytesMut::new();
    encode_resend(0x1122, core::slice::from_ref(&(9..10)), &mut resend);
    assert_eq!(hex(&resend), "0500010010000000221100000000000009000000000000000a00000000000000");
    let known = RecordHeader::Announced { offset: 0x33 }.encode();
    assert_eq!(hex(&known), "06000000000000003300000000000000");
    let missing = RecordHeader::Reannounce { offset: 0x44 }.encode();
    assert_eq!(hex(&missing), "07000000000000004400000000000000");
}

#[test]
fn a_request_has_a_number_and_ranges() {
    let mut body = BytesMut::new();
    let ranges: Vec<_> = (0..40u64).map(|start| start * 2..start * 2 + 1).collect();
    encode_resend(7, &ranges, &mut body);
    let header = RecordHeader::Resend { count: MAX_RESEND_RANGES as u16, request: 7 };
    let mut rest = &body[..];
    assert_eq!(next_record(&mut rest).map(|record| record.map(|(header, _)| header)), Ok(Some(header)));
    assert_eq!((rest, next_record(&mut rest)), (&[][..], Ok(None)));
    let with = |at: usize, value: u8| {
        let mut bytes = *body.first_chunk::<RECORD_HEADER>().unwrap();
        bytes[at] = value;
        RecordHeader::decode(bytes)
    };
    for (at, value, what) in
        [(8, 0, "number 0"), (10, 1, "number 65543"), (2, 0, "no range"), (2, 31, "too long")]
    {
        assert!(matches!(with(at, value), Err(RecordError::Length { kind: 5, .. })), "{what}");
    }
    assert_eq!(with(1, 1), Err(RecordError::Flags(1)));
}

#[test]
fn records_of_a_datagram_are_whole() {
    let mut body = BytesMut::new();
    body.extend_from_slice(&RecordHeader::Grant { end: 3 }.encode());
    encode_commit(7, &[9..10, 20..30], &mut body);
    for cut in 0..=body.len() {
        let mut rest = &body[..cut];
        let mut read = || next_record(&mut rest).map(|record| record.map(|(_, items)| items.len()));
        let expected = match cut {
            0 => vec![Ok(None)],
            1..16 => vec![Err(RecordError::Truncated)],
            16 => vec![Ok(Some(0)), Ok(None)],
            17..64 => vec![Ok(Some(0)), Err(RecordError::Truncated)],
            _ => vec![Ok(Some(0)), Ok(Some(32)), Ok(None)],
        };
        let got: Vec<_> = expected.iter().map(|_| read()).collect();
        assert_eq!(got, expected, "{cut} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_16_bytes_are_a_sound_header_or_an_error(bytes: [u8; RECORD_HEADER]) {
        match RecordHeader::decode(bytes) {
            Ok(header) => {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(header.body() <= MAX_ANNOUNCEMENTS * ANNOUNCEMENT);
                if let RecordHeader::Data { length, .. } = header {
                    prop_assert!(length <= MAX_DATA);
                }
            }
            Err(RecordError::Range { .. }) => prop_assert!(false, "headers have no ranges"),
            Err(_) => {}
        }
    }

    #[test]
    fn headers_near_valid_ones_round_trip(kind in 0u8..9, count in 0u16..1100, length in 0u32..30_000, offset: u64) {
        let mut bytes = [0; RECORD_HEADER];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&count.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..].copy_from_slice(&offset.to_le_bytes());
        if let Ok(header) = RecordHeader::decode(bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn commit_ranges_come_back(offset: u64, ranges in prop::collection::vec((0u64..1000, 1u64..1000), 0..100)) {
        let ranges: Vec<_> = ranges.iter().map(|(start, length)| *start..start + length).collect();
        let mut bytes = BytesMut::new();
        encode_commit(offset, &ranges, &mut bytes);
        let (items, rest) = bytes[RECORD_HEADER..].as_chunks();
        prop_assert!(rest.is_empty());
        let read: Result<Vec<_>, _> = items.iter().map(decode_range).collect();
        prop_assert_eq!(read.as_deref(), Ok(&ranges[..ranges.len().min(MAX_COMMIT_RANGES)]));
    }

    #[test]
    fn decisions_come_back(first in 1u64..1 << 40, runs in prop::collection::vec((1u32..100, 0u16..5), 0..50)) {
        let verdict = |number: u16| match number {
            0 => Verdict::Inhibited,
            1 => Verdict::Closed,
            builder => Verdict::Assigned(BuilderId::new(builder)),
        };
        let mut decisions = Decisions::starting(EventId::new(first));
        let mut each = Vec::new();
        for (count, number) in runs {
            decisions.extend(count, verdict(number));
            each.extend(std::iter::repeat_n(verdict(number), count as usize));
        }
        let read: Vec<_> = decisions.verdicts().unwrap().into_iter()
            .flat_map(|(from, count, verdict)| (0..u64::from(count)).map(move |n| (from.number() + n, verdict)))
            .collect();
        let expected: Vec<_> = (first..).zip(each).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn arbitrary_decisions_never_panic(first: u64, runs: Vec<u32>) {
        if let Ok(verdicts) = (Decisions { first, runs }).verdicts() {
            let covered: u64 = verdicts.iter().map(|(_, count, _)| u64::from(*count)).sum();
            prop_assert!(covered <= super::control::MAX_BATCH);
        }
    }

    #[test]
    fn assignments_and_completions_come_back(events: Vec<(u64, u64)>) {
        let events: Vec<_> = events.into_iter().map(|(id, at)| (EventId::new(id.max(1)), at)).collect();
        let (mut assignments, mut last) = (Assignments::default(), (EventId::new(0), 0));
        let (mut completions, mut last_event) = (Completions::default(), EventId::new(0));
        for (event, at) in &events {
            assignments.add(&mut last, *event, *at);
            completions.add(&mut last_event, *event);
        }
        prop_assert_eq!(assignments.events(), Ok(events.clone()));
        let ids: Vec<_> = events.iter().map(|(event, _)| *event).collect();
        prop_assert_eq!(completions.events().collect::<Vec<_>>(), ids);
    }
}
