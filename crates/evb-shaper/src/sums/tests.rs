use core::time::Duration;

use evb_core::units::{Bytes, Rate};
use proptest::prelude::*;

use super::{
    busy_time, drain_time, full_budget, incast_buffer, largest_window, most_windows, overload_buffer,
    utilisation, windows_buffer,
};
use crate::cost::{CELL, PacketCost};

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);

#[test]
fn eight_fragments_of_64_kilobytes_through_a_gigabit_port() {
    // Each fragment takes 512 µs on its link, and seven of eight fragments have to wait in the
    // port.
    let time = Bytes::new(64_000) / GIGABIT;
    assert_eq!(incast_buffer(8, GIGABIT, time), Bytes::new(7 * 64_000));
    assert_eq!(incast_buffer(1, GIGABIT, time), Bytes::ZERO);
    assert_eq!(incast_buffer(0, GIGABIT, time), Bytes::ZERO);
    // Data flow in at 10 Gbit/s and out at 1 Gbit/s.
    let tenfold = Rate::from_bits_per_second(10_000_000_000);
    assert_eq!(overload_buffer(tenfold, GIGABIT, Duration::from_micros(100)), Bytes::new(112_500));
    assert_eq!(overload_buffer(GIGABIT, tenfold, Duration::from_secs(1)), Bytes::ZERO);
    assert_eq!(drain_time(Bytes::kib(128), GIGABIT), Duration::from_nanos(1_048_576));
}

#[test]
fn a_budget_against_the_round_trip() {
    // A budget of 118 kB fills a link of 10 Gbit/s at a round trip of 60 µs, and 0.47 of it at 200
    // µs.
    let (budget, link) = (Bytes::new(118_000), Rate::from_bits_per_second(10_000_000_000));
    assert_eq!(utilisation(budget, link, Duration::from_micros(60)), 1.0);
    assert!((utilisation(budget, link, Duration::from_micros(200)) - 0.472).abs() < 1e-9);
    assert_eq!(utilisation(budget, link, Duration::ZERO), 1.0);
    assert_eq!(full_budget(link, Duration::from_micros(200)), Bytes::new(250_000));
}

#[test]
fn a_fast_host_is_busy_for_a_part_of_each_round_trip() {
    let (path, round_trip) = (Rate::from_bits_per_second(100_000_000), Duration::from_millis(198));
    let busy = busy_time(path, GIGABIT, round_trip);
    assert_eq!(busy, Duration::from_micros(19_800));
    assert_eq!(overload_buffer(GIGABIT, path, busy), Bytes::new(2_227_500));
    // A host that is as slow as the path or slower sends all the time, and needs no buffer.
    assert_eq!(busy_time(path, path, round_trip), round_trip);
    assert_eq!(busy_time(GIGABIT, path, round_trip), round_trip);
    assert_eq!(overload_buffer(path, path, round_trip), Bytes::ZERO);
}

#[test]
fn windows_are_bounded_by_the_port() {
    let cost = PacketCost::tcp(1500, CELL);
    let window = largest_window(Bytes::kib(128), 8, &cost).unwrap();
    // Each lane's share of 16 384 bytes holds ten full packets and one packet of 1244 bytes; packet
    // headers and the record header are subtracted.
    assert_eq!(window, Bytes::new(10 * 1448 + 1244 - 66 - 16));
    assert_eq!(windows_buffer(8, window, &cost), Bytes::kib(128));
    assert_eq!(largest_window(Bytes::kib(128), 1000, &cost), None);
    assert_eq!(most_windows(Bytes::kib(128), Bytes::new(1432), &cost), 86);
}

proptest! {
    /// Checks that windows of the largest size fit into the port, and that windows with one packet
    /// more do not.
    #[test]
    fn the_largest_window_is_the_bound(port in 1000u64..10_000_000, lanes in 1u64..300) {
        let cost = PacketCost::tcp(1500, CELL);
        if let Some(window) = largest_window(Bytes::new(port), lanes, &cost) {
            prop_assert!(windows_buffer(lanes, window, &cost) <= Bytes::new(port));
            prop_assert!(most_windows(Bytes::new(port), window, &cost) >= lanes);
            let more = window + cost.packet_payload();
            prop_assert!(windows_buffer(lanes, more, &cost) > Bytes::new(port));
        }
    }
}
