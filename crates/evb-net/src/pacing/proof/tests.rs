use std::time::Duration;

use evb_core::{time::Instant, units::Rate};

use super::{Proof, Trial, departures::Timing, flow, prove, shaped};
use crate::{
    clock::now,
    pacing::{Offload, Transport},
};

const GAP: Duration = Duration::from_millis(2);

fn times(count: u32, first: u64, gap: Duration) -> Vec<Instant> {
    (0..count).map(|index| Instant::from_nanos(first) + gap * index).collect()
}

fn timing(seen: &[Option<Instant>]) -> Timing {
    Timing::of(&times(8, 10_000_000, GAP), seen, GAP, Duration::ZERO)
}

#[test]
fn on_time_holds_and_so_does_a_common_delay() {
    for first in [10_000_000, 10_900_000] {
        let seen: Vec<_> = times(8, first, GAP).into_iter().map(Some).collect();
        assert!(timing(&seen).holds(8), "{first}");
    }
}

#[test]
fn packets_that_leave_all_at_once_are_not_paced() {
    // 8 packets that should leave within 6 ms left within 5 µs.
    let seen: Vec<_> = times(8, 6_000_000, Duration::from_micros(5)).into_iter().map(Some).collect();
    assert!(!timing(&seen).holds(8));
}

#[test]
fn regular_but_before_their_times_does_not_hold() {
    let seen: Vec<_> = times(8, 6_000_000, GAP).into_iter().map(Some).collect();
    assert!(!timing(&seen).holds(8));
}

#[test]
fn those_that_are_meant_to_be_early_hold_and_are_precise() {
    let delta = Duration::from_millis(3);
    let seen: Vec<_> = times(8, 7_050_000, GAP).into_iter().map(Some).collect();
    let timing = Timing::of(&times(8, 10_000_000, GAP), &seen, GAP, delta);
    assert!(timing.holds(8));
    assert_eq!(timing.p99, Some(Duration::from_micros(50)));
}

#[test]
fn regular_with_another_gap_does_not_hold() {
    let seen: Vec<_> = times(8, 10_000_000, Duration::from_micros(2_300)).into_iter().map(Some).collect();
    assert!(!timing(&seen).holds(8));
}

#[test]
fn a_lost_one_does_not_hold() {
    let mut seen: Vec<_> = times(8, 10_000_000, GAP).into_iter().map(Some).collect();
    seen[3] = None;
    assert!(!timing(&seen).holds(8));
    assert!(!timing(&[None; 8]).holds(8));
}

#[test]
fn a_shaped_burst_is_known_by_the_rate_of_its_end() {
    let rate = Rate::from_bits_per_second(100_000_000);
    // First 40 packets pass because of the bucket's depth, then one packet passes every 120 µs.
    let mut seen = times(40, 0, Duration::from_micros(2));
    seen.extend(times(80, 200_000, Duration::from_micros(120)));
    let offered = times(120, 0, Duration::from_micros(5));
    let judge = |offered: &[Instant], seen: &[Instant]| shaped::judge(offered, seen.iter().copied(), rate).0;
    let holds = |offered: &[Instant], seen: &[Instant]| judge(offered, seen).held;
    assert!(holds(&offered, &seen));
    assert!(!holds(&offered, &offered), "nothing held it back");
    assert!(!holds(&offered, &seen[..30]));
    let mut late = seen.clone();
    late[43..60].fill(seen[60]);
    assert!(holds(&offered, &late), "a late timer lets several packets go at once");
    let mut apart = seen.clone();
    apart.swap(60, 119);
    assert!(holds(&offered, &apart), "two cores send at the same time");
    let slow = times(120, 0, Duration::from_micros(121));
    assert!(!holds(&slow, &slow), "the host itself was that slow");
    assert!(judge(&slow, &slow).undecided);
    let few = times(60, 0, Duration::from_micros(20));
    let (few, many) = (judge(&few, &few), judge(&offered, &offered));
    assert!(few.undecided, "a bucket of 12 ms was not emptied");
    assert!(!many.undecided && !many.held, "one of 12 ms would have been");
}

#[test]
fn the_rate_of_bursts_is_that_of_the_line_through_them() {
    // The flow sends 64 kB every 6.4 ms, each time in two pieces, which is a rate of 10 MB/s.
    let piece = |index: u32| {
        (f64::from(index / 2) * 6.4e-3 + f64::from(index % 2) * 2e-5, f64::from(index + 1) * 32e3)
    };
    for points in
        [(0..36).map(piece).collect::<Vec<_>>(), (1..36).map(piece).collect(), (3..34).map(piece).collect()]
    {
        let rate = flow::slope(&points).unwrap();
        assert!((rate / 10e6 - 1.0).abs() < 0.01, "{rate}");
    }
    assert_eq!(flow::slope(&[(1.0, 5.0)]), None);
}

#[test]
fn what_does_not_fit_the_transport_is_refused() {
    let proof = prove(Offload::Txtime, &Trial::loopback(Transport::Tcp));
    assert!(!proof.held);
    assert!(proof.why.contains("does not work with TCP"));
}

#[test]
#[cfg(target_os = "linux")]
fn loopback_without_queueing_discipline_proves_nothing_and_quickly() {
    // The result depends on the queueing discipline of the host's loopback device, which tests must
    // not change.
    let proof = prove(Offload::Txtime, &Trial::loopback(Transport::Udp));
    if super::Device::at(super::device_of(&Trial::loopback(Transport::Udp))).has("fq") {
        assert!(proof.held, "{proof}");
        return;
    }
    let began = now();
    for offload in [Offload::Txtime, Offload::Etf, Offload::PacingRate] {
        let proof = prove(offload, &Trial::loopback(Transport::Udp));
        assert!(!proof.held, "{proof}");
        assert!(proof.remedy.as_ref().is_some_and(|remedy| remedy.contains("dev lo")), "{proof:?}");
    }
    assert!(now().since(began) < Duration::from_secs(1));
}

#[test]
#[cfg(target_os = "linux")]
fn a_tcp_flow_keeps_its_rate_on_loopback() {
    // On a busy machine, a flow misses its rate now and then; without pacing, it always would.
    let trial = || prove(Offload::PacingRate, &Trial::loopback(Transport::Tcp));
    let mut trials: Vec<Proof> = Vec::new();
    while trials.len() < 5 && !trials.last().is_some_and(|proof| proof.held) {
        trials.push(trial());
    }
    let proof = trials.last().unwrap();
    assert!(proof.held, "{trials:#?}");
    assert!(proof.why.contains("still sends up to"), "{proof}");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_timer_is_measured_even_from_within_a_runtime() {
    let proof = prove(Offload::Software, &Trial::loopback(Transport::Udp));
    assert!(proof.held, "{proof}");
    assert!(proof.p99.is_some(), "{proof}");
}
