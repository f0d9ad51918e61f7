use core::time::Duration;

use super::*;
use crate::{
    alignment::{ClockWrap, Explanation},
    rng::Rng,
    units::Frequency,
};

/// Returns the result for two boards of 100 MHz and one of 40 MHz with triggers 0.1 to 1.9 ms
/// apart. `of_second` gives the event whose reading the second board sends, if it sends one.
fn watch<E: Into<Option<u64>>>(events: u64, of_second: impl Fn(u64) -> E) -> StreamFindings {
    watch_readings(events, |event, times| {
        of_second(event).into().map(|event| times[event as usize] / 10 + 77)
    })
}

/// Does the same with the readings of the second board, which `of_second` gives for an event and
/// the times of all.
fn watch_readings(events: u64, of_second: impl Fn(u64, &[u64]) -> Option<u64>) -> StreamFindings {
    let mut rng = Rng::new(7);
    let mut times = vec![0];
    (0..events + 50).for_each(|_| times.push(times[times.len() - 1] + 100_000 + rng.below(1_800_000)));
    watch_times(events, &times, of_second)
}

/// Does the same with triggers at those times in nanoseconds.
fn watch_times(events: u64, times: &[u64], of_second: impl Fn(u64, &[u64]) -> Option<u64>) -> StreamFindings {
    let clock = |hertz| DetectorClock::new(Frequency::from_hertz(hertz).unwrap(), ClockWrap::Bits(48));
    let mut watch = StreamGuard::new(&[clock(1e8), clock(1e8), clock(4e7)]);
    for event in 1..=events {
        let nanos = times[event as usize];
        let readings = [Some(nanos / 10), of_second(event, times), Some(nanos / 25 + 5)];
        watch.observe(0, EventId::new(event), Instant::ZERO + Duration::from_nanos(nanos), &readings);
    }
    watch.finish()
}

#[test]
fn healthy_events_have_no_finding() {
    let watched = watch(3000, |event| event);
    assert_eq!((watched.disagreeing, &watched.findings[..]), (0, &[][..]));
    assert!(watched.clocks.iter().all(|clock| clock.agree > 2900), "{watched:?}");
}

#[test]
fn a_fragment_that_is_missing_counts_for_nothing() {
    let watched = watch(3000, |event| (event % 3 > 0).then_some(event));
    let sums = watched.clocks.iter().map(|clock| clock.agree + clock.disagree + clock.unknown);
    assert_eq!(sums.collect::<Vec<_>>(), [3000, 2000, 3000]);
    assert_eq!(watched.findings, []);
}

#[test]
fn a_board_that_misses_a_trigger_is_found_with_the_event() {
    for at in [1000, 2990] {
        let watched = watch(3000, |event| if event < at { event } else { event + 1 });
        let [found] = &watched.findings[..] else { panic!("{watched:?}") };
        assert_eq!((found.clock.get(), found.since.number()), (1, at), "{found:?}");
        assert!(matches!(found.verdict, Explanation::Slip { shift: 1, .. }), "{found:?}");
        assert_eq!(watched.clocks[1].disagree, 3001 - at);
        assert_eq!((watched.clocks[0].disagree, watched.clocks[2].disagree), (0, 0));
    }
}

#[test]
fn a_board_that_has_a_trigger_twice_is_found() {
    let watched = watch(3000, |event| if event < 1500 { event } else { event - 1 });
    let [found] = &watched.findings[..] else { panic!("{watched:?}") };
    assert!(matches!(found.verdict, Explanation::Slip { shift: -1, .. }), "{found:?}");
}

#[test]
fn a_clock_that_stands_still_is_found_once_each_time() {
    let watched = watch(3000, |event| match event {
        500..1000 => 499,
        1500.. => 1499,
        _ => event,
    });
    let stuck = watched.findings.iter().filter(|found| found.verdict == Explanation::Stuck);
    let since: Vec<_> = stuck.map(|found| found.since.number()).collect();
    assert_eq!((since.as_slice(), watched.further), ([500, 1500].as_slice(), 0), "{:?}", watched.findings);
}

#[test]
fn a_clock_that_becomes_too_fast_is_never_taken_for_one_with_few_bits() {
    for at in 500..600 {
        let watched = watch_readings(2000, |event, times| {
            let (now, since) = (times[event as usize], times[at - 1]);
            Some((now + now.saturating_sub(since) / 1000) / 10 + 77)
        });
        let mut verdicts = watched.findings.iter().map(|found| found.verdict);
        let is_wrong = |one: Explanation| one.is_misaligned() || matches!(one, Explanation::OtherBits(_));
        assert!(!verdicts.clone().any(is_wrong), "{at}: {watched:?}");
        assert!(verdicts.any(|one| matches!(one, Explanation::OtherRate { .. })), "{at}: {watched:?}");
    }
}

#[test]
fn a_clock_that_is_too_fast_for_periodic_triggers_is_said_to_be_nothing_else() {
    let times: Vec<_> = (0..2000).map(|event| event * 5_000_000).collect();
    // At some of these rates, most intervals between readings just fit.
    for ppm in 890..900 {
        let watched = watch_times(1500, &times, |event, times| {
            let (now, since) = (times[event as usize], times[499]);
            let jitter = if event % 83 == 7 { 40 } else { 0 };
            Some((now + now.saturating_sub(since) * ppm / 1_000_000 + jitter) / 10 + 77)
        });
        let is_rate = |found: &Finding| matches!(found.verdict, Explanation::OtherRate { .. });
        assert!(watched.findings.iter().all(is_rate), "{ppm}: {watched:?}");
        assert!(!watched.findings.is_empty(), "{ppm}");
    }
}

#[test]
fn a_slip_that_ends_has_its_last_event() {
    for lasts in [20, 60, 500] {
        let slipped = 1000..1000 + lasts;
        let watched = watch(3000, |event| if slipped.contains(&event) { event + 1 } else { event });
        let [found] = &watched.findings[..] else { panic!("{watched:?}") };
        assert_eq!((found.since.number(), found.until), (1000, Some(EventId::new(999 + lasts))), "{found:?}");
    }
}
