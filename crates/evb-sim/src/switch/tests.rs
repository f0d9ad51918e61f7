use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

use super::{Losses, OutputPort};
use crate::link::Link;

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
const FULL: Bytes = Bytes::new(1514);

#[test]
fn a_port_drops_what_does_not_fit_and_drains_at_line_rate() {
    let mut port = OutputPort::new(Link::new(GIGABIT, Duration::ZERO), Bytes::new(3 * 1514 + 100));
    let at = Instant::from_nanos;
    let arrivals: Vec<_> = (0..4).map(|_| port.enqueue(FULL, at(0))).collect();
    // A full frame of 1538 bytes takes 12.304 µs on the line.
    assert_eq!(arrivals, [Some(at(12_304)), Some(at(24_608)), Some(at(36_912)), None]);
    assert_eq!(port.enqueue(FULL, at(12_303)), None, "the last bit of the first frame has not left");
    assert_eq!(port.enqueue(FULL, at(12_304)), Some(at(49_216)));
    let counters = port.counters;
    assert_eq!((counters.dropped, counters.peak, counters.bytes), (2, FULL * 3, FULL * 4));
}

#[test]
fn loss_is_as_frequent_as_asked() {
    let mut losses = Losses::new(0.01, 7);
    let lost = (0..100_000).filter(|_| losses.strike()).count();
    // The number of lost frames is binomially distributed, 1000 ± 31.5; the limits are at five
    // sigma.
    assert!((843..1158).contains(&lost), "{lost} of 100000");
    assert_eq!(losses.count(), lost as u64);
}

/// Checks that an idle port with a token bucket sends a bucket of bytes at once, and then continues
/// at line rate.
#[test]
fn a_bucket_is_sent_at_once() {
    let link = Link::new(GIGABIT, Duration::ZERO).with_bucket(Bytes::new(2 * 1538));
    let mut port = OutputPort::new(link, Bytes::MAX);
    let now = Instant::ZERO + Duration::from_millis(1);
    let frame = Bytes::new(1538) / GIGABIT;
    let left: Vec<_> = (0..5).map(|_| port.enqueue(FULL, now).unwrap().since(now)).collect();
    assert_eq!(left, [Duration::ZERO, Duration::ZERO, frame, frame * 2, frame * 3]);
}
