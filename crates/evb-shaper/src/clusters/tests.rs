use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use proptest::prelude::*;

use super::Clusters;
use crate::{
    bucket::EdtBucket,
    cost::{ByteMeasure, CELL, PacketCost},
    pace::Pace,
};

fn pace(bits_per_second: u64, measure: ByteMeasure) -> Pace {
    Pace { rate: Rate::from_bits_per_second(bits_per_second), burst: Bytes::new(3000), measure }
}

/// Returns the interval between clusters of `packets` packets.
fn interval(packets: u64, pace: &Pace, cost: &PacketCost) -> Duration {
    cost.packet(pace.measure) * packets / pace.rate
}

#[test]
fn ten_gigabits_by_a_timer_of_fifty_microseconds() {
    let cost = PacketCost::tcp(1500, CELL);
    let line = pace(10_000_000_000, ByteMeasure::Line);
    let clusters = Clusters::of(&line, Duration::from_micros(50), &cost);
    // A full packet takes 1230.4 ns at 10 Gbit/s.
    assert_eq!(interval(1, &line, &cost), Duration::from_nanos(1231));
    assert_eq!(clusters.packets, 41);
    assert_eq!(interval(41, &line, &cost), Duration::from_nanos(50_447));
    assert_eq!(clusters.lane, Bytes::new(41 * 1448 - 16));
    // At 10 Mbit/s, single packets are far enough apart.
    let slow = pace(10_000_000, ByteMeasure::Buffer);
    assert_eq!(Clusters::of(&slow, Duration::from_micros(50), &cost).packets, 1);
    assert_eq!(interval(1, &slow, &cost), Duration::from_nanos(1_211_200));
    let absurd = Clusters::of(&pace(u64::MAX, ByteMeasure::Line), Duration::MAX, &cost);
    assert!(absurd.packets > 1 && absurd.lane == cost.full_packets(absurd.packets));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Checks that clusters have as few packets as the precision permits, and that the rate over
    /// many clusters is the rate of single packets.
    #[test]
    fn clusters_keep_the_precision_and_the_rate(
        bits in 1_000_000u64..400_000_000_000,
        micros in 0u64..1000,
        mtu in 576u32..9001,
        buffer: bool,
    ) {
        let cost = PacketCost::tcp(mtu, CELL);
        let measure = if buffer { ByteMeasure::Buffer } else { ByteMeasure::Line };
        let (pace, precision) = (pace(bits, measure), Duration::from_micros(micros));
        let clusters = Clusters::of(&pace, precision, &cost);
        prop_assert!(interval(clusters.packets, &pace, &cost) >= precision);
        let fewer = interval(clusters.packets - 1, &pace, &cost);
        prop_assert!(clusters.packets == 1 || fewer <= precision, "fewer would do: {clusters:?}");
        let wire = cost.wire(clusters.lane + Bytes::new(16));
        prop_assert_eq!(wire.buffer, cost.packet_buffer() * clusters.packets);
        let (mut alone, mut together) = (EdtBucket::new(pace.rate, pace.burst), EdtBucket::new(pace.rate, pace.burst));
        let packet = Bytes::new(wire.by(measure).count() / clusters.packets);
        for _ in 0..100 {
            together.depart(wire.by(measure), Instant::ZERO);
            for _ in 0..clusters.packets.min(1000) {
                alone.depart(packet, Instant::ZERO);
            }
        }
        if clusters.packets <= 1000 {
            prop_assert_eq!(alone.departure(Instant::ZERO), together.departure(Instant::ZERO));
        }
    }
}
