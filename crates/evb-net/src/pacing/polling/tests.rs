use std::time::Duration;

use evb_core::time::Instant;

use super::{PollingRefused, TRIAL, absence, judge, prove_polling};

/// Returns a clock that advances by 1 µs with each reading, and by a further `gap` with every
/// `looks`-th reading.
fn clock(looks: u64, gap: Duration) -> impl FnMut() -> Instant {
    let (mut now, mut count) = (Instant::from_nanos(1), 0);
    move || {
        count += 1;
        now = now + Duration::from_micros(1) + if count % looks == 0 { gap } else { Duration::ZERO };
        now
    }
}

#[test]
fn polling_wants_a_core_for_each_thread_and_one_more() {
    assert_eq!(prove_polling(1, 3), Err(PollingRefused::TooFewCores { cores: 3, threads: 1 }));
    assert_eq!(prove_polling(4, 4), Err(PollingRefused::TooFewCores { cores: 4, threads: 4 }));
    assert!(prove_polling(8, 8).unwrap_err().to_string().contains("busy_poll = \"force\""));
}

#[test]
fn a_thread_that_keeps_its_core_is_never_absent() {
    assert_eq!(absence(clock(u64::MAX, Duration::ZERO)), Duration::ZERO);
    assert_eq!(judge(Duration::ZERO), Ok(()));
}

#[test]
fn a_thread_that_shares_its_core_is_refused() {
    // This thread is off its core for 1 ms after each 1 ms of running.
    let absent = absence(clock(1000, Duration::from_millis(1)));
    assert!(absent >= TRIAL / 3, "{absent:?}");
    assert!(matches!(judge(absent), Err(PollingRefused::CoreTaken { percent: 30.. })));
    // An absence for a tenth of the trial is accepted.
    assert_eq!(judge(TRIAL / 10), Ok(()));
    assert!(judge(TRIAL / 8).is_err());
}
