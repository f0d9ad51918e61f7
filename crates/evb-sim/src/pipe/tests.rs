use core::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure, Pace,
    cost::{CELL, PacketCost},
    sums::{busy_time, overload_buffer},
};

use super::{Departures, KeptPace, LongPipe};

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
const FAST_ETHERNET: Rate = Rate::from_bits_per_second(100_000_000);
const OC12: Rate = Rate::from_bits_per_second(599_000_000);
const ROUND_TRIP: Duration = Duration::from_millis(198);

fn pipe(host_rate: Rate) -> LongPipe {
    LongPipe {
        host_rate,
        bottleneck: OC12,
        round_trip: ROUND_TRIP,
        router_buffer: Bytes::kib(256),
        transmit_queue: 25_000,
        window: LongPipe::full_window(OC12, ROUND_TRIP, 1500),
        begins_at_once: false,
        departures: Departures::Unpaced,
        cross_load: 0.0,
        mtu: 1500,
        span: Duration::from_secs(4),
        seed: 1,
    }
}

fn peak(bins: &[u32]) -> u32 {
    bins.iter().copied().max().unwrap_or_default()
}

/// Checks that a window sent at once takes X·RTT/Y on the link, and (Y−X)·X·RTT/Y in the router.
#[test]
fn a_window_fills_what_the_sums_say() {
    for host_rate in [GIGABIT, Rate::from_bits_per_second(10_000_000_000)] {
        let at_once = LongPipe {
            router_buffer: Bytes::mib(64),
            begins_at_once: true,
            span: Duration::from_millis(900),
            ..pipe(host_rate)
        };
        let report = at_once.run();
        let busy = busy_time(OC12, host_rate, ROUND_TRIP);
        let line = overload_buffer(host_rate, OC12, busy);
        let held = report.queue_peak.count() as f64 * 1538.0 / 1514.0;
        assert!((held / line.count() as f64 - 1.0).abs() < 0.01, "{held} for {line}");
        let first = report.sent.iter().take(190).filter(|count| **count > 0).count();
        assert!((first as f64 - busy.as_secs_f64() * 1e3).abs() <= 1.5, "{first} ms for {busy:?}");
        assert_eq!((report.dropped, report.retransmits), (0, 0));
    }
}

#[test]
fn a_fast_host_sends_80_packets_a_millisecond_into_a_path_of_50() {
    let report = pipe(GIGABIT).run();
    assert!((80..=82).contains(&peak(&report.sent)), "{}", peak(&report.sent));
    assert!((48..=50).contains(&peak(&report.received)), "{}", peak(&report.received));
    assert!(report.dropped > 0 && report.refused == 0, "the router overflows, and the host does not");
    let equal = pipe(FAST_ETHERNET).run();
    assert!((8..=9).contains(&peak(&equal.sent)) && (8..=9).contains(&peak(&equal.received)));
    assert_eq!((equal.dropped, equal.refused), (0, 0));
}

#[test]
fn a_full_transmit_queue_halves_the_window_and_loses_nothing() {
    let short = LongPipe { transmit_queue: 100, span: Duration::from_secs(8), ..pipe(FAST_ETHERNET) };
    let report = short.run();
    assert!(report.refused > 0 && report.dropped == 0 && report.retransmits == 0);
    let long = LongPipe { transmit_queue: 25_000, ..short.clone() }.run();
    assert!(long.goodput.bits_per_second() > 2 * report.goodput.bits_per_second());
    assert_eq!(short.run(), report, "equal seeds give equal reports");
}

#[test]
fn spaced_packets_are_single_until_the_timer_is_too_coarse() {
    let spaced = LongPipe { departures: Departures::Spaced(Duration::from_millis(1)), ..pipe(GIGABIT) };
    let report = spaced.run();
    let until = report.spaced_until.expect("ends").as_millis() as usize;
    assert!((600..2000).contains(&until), "{until}");
    assert_eq!(peak(&report.sent[..until]), 1);
    // The unpaced host has overflowed the router by the time when the spaced one fills the path.
    let unpaced = pipe(GIGABIT).run();
    assert!(report.goodput.bits_per_second() > 2 * unpaced.goodput.bits_per_second(), "{report:?}");
}

#[test]
fn a_pace_keeps_its_rate_at_the_sender() {
    let cost = PacketCost::tcp(1500, CELL);
    let pace = Pace::usual(Rate::from_bits_per_second(500_000_000), ByteMeasure::Line, &cost, None);
    for (spacing, precision) in [(1000, 100), (5, 5)].map(|(a, b)| (micros(a), micros(b))) {
        let kept = KeptPace { pace, spacing, precision };
        let report = LongPipe { departures: Departures::Paced(kept), ..pipe(GIGABIT) }.run();
        assert_eq!(report.dropped, 0, "a pace below the path loses nothing");
        // 500 Mbit/s are 40.6 packets a millisecond; a train takes half of a millisecond.
        let most = if spacing > micros(100) { 81 } else { 44 };
        assert!(peak(&report.sent) <= most, "{}", peak(&report.sent));
        let last: u32 = report.sent[3000..].iter().sum();
        assert!((39_000..=41_000).contains(&last), "{last} packets in the last second");
    }
}

#[test]
fn a_longer_gap_is_a_slower_link() {
    let of = |gap| {
        let begun = LongPipe { begins_at_once: true, ..pipe(GIGABIT) };
        peak(&LongPipe { departures: Departures::Gap(Bytes::new(gap)), ..begun }.run().sent)
    };
    assert_eq!((of(0), of(1023)), (82, 49));
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
