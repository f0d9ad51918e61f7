use core::time::Duration;

use bytes::Bytes;
use evb_core::time::Instant;

use super::{Endpoint, TcpSegment};

const SEGMENT: u64 = 1448;

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

fn sender(segments: u64) -> Endpoint {
    let mut end = Endpoint::new(1500);
    end.outgoing().resize((segments * SEGMENT) as usize, 7);
    end
}

fn send_all(end: &mut Endpoint, now: Instant) -> Vec<u64> {
    core::iter::from_fn(|| end.poll(now)).map(|segment| segment.offset / SEGMENT).collect()
}

fn acknowledgement(segments: u64, echo: Instant) -> TcpSegment {
    let (acknowledged, echo) = (segments * SEGMENT, Some(echo));
    TcpSegment {
        offset: 0,
        payload: Bytes::new(),
        acknowledged,
        sent_at: Instant::ZERO,
        echo,
        beyond_gap: None,
    }
}

#[test]
fn ten_segments_go_first_and_acknowledgements_double_them() {
    let mut end = sender(100);
    assert_eq!(send_all(&mut end, at(0)), (0..10).collect::<Vec<_>>());
    for count in 1..=10 {
        end.handle_segment(&acknowledgement(count, at(0)), at(100));
        assert_eq!(send_all(&mut end, at(100)), [8 + 2 * count, 9 + 2 * count]);
    }
}

#[test]
fn the_third_duplicate_fills_the_hole() {
    let mut end = sender(100);
    send_all(&mut end, at(0));
    for _ in 0..2 {
        end.handle_segment(&acknowledgement(0, at(0)), at(100));
        assert_eq!(send_all(&mut end, at(100)), [0; 0]);
    }
    end.handle_segment(&acknowledgement(0, at(0)), at(100));
    assert_eq!(send_all(&mut end, at(100)), [0]);
    // Of ten segments, all but the first had arrived. The window is now half of the bytes that were
    // under way, and grows from there.
    end.handle_segment(&acknowledgement(10, at(100)), at(200));
    assert_eq!(send_all(&mut end, at(200)), (10..15).collect::<Vec<_>>());
    assert_eq!((end.retransmits(), end.timeouts()), (1, 0));
}

#[test]
fn the_timer_waits_200_ms_longer_than_a_round_trip_and_doubles() {
    let mut end = sender(1);
    send_all(&mut end, at(0));
    end.handle_segment(&acknowledgement(1, at(0)), at(100));
    assert_eq!(end.next_timeout(), None);
    end.outgoing().extend_from_slice(&[1]);
    send_all(&mut end, at(1000));
    let mut waits = Vec::new();
    let mut before = at(1000);
    for _ in 0..4 {
        let due = end.next_timeout().unwrap();
        waits.push(due.since(before));
        end.handle_timeout(due);
        assert_eq!(send_all(&mut end, due), [1], "only the first unacknowledged segment is sent");
        before = due;
    }
    assert_eq!(waits, [200_100, 400_200, 800_400, 1_600_800].map(Duration::from_micros));
    assert_eq!((end.retransmits(), end.timeouts()), (4, 4));
}

#[test]
fn every_second_segment_is_acknowledged_at_once_and_a_single_one_after_40_ms() {
    let (mut from, mut to) = (sender(3), Endpoint::new(1500));
    let segments: Vec<_> = core::iter::from_fn(|| from.poll(at(0))).collect();
    assert_eq!(to.handle_segment(&segments[0], at(10)), segments[0].payload.len());
    assert_eq!(to.poll(at(10)), None);
    assert_eq!(to.next_timeout(), Some(at(40_010)));
    to.handle_segment(&segments[1], at(20));
    assert_eq!(to.poll(at(20)).map(|segment| segment.acknowledged), Some(2 * SEGMENT));
    to.handle_segment(&segments[2], at(30));
    assert_eq!(to.poll(at(40_029)), None);
    assert_eq!(to.poll(at(40_030)).map(|segment| segment.acknowledged), Some(3 * SEGMENT));
}
