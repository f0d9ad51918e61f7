use std::time::Duration;

use evb_core::time::Instant;

use super::{Gso, GsoState};

#[test]
fn pauses_double_up_to_a_minute_and_end_when_it_works_again() {
    let mut gso = Gso::default();
    assert!(gso.is_worth_trying(|| unreachable!("the time does not matter")));
    let mut now = Instant::from_nanos(7);
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        gso.refused(now);
        let until = now + Duration::from_secs(seconds);
        assert_eq!(gso.state(), GsoState::Paused { until });
        assert!(!gso.is_worth_trying(|| Instant::from_nanos(until.as_nanos() - 1)));
        assert!(gso.is_worth_trying(|| until));
        now = until;
    }
    gso.worked();
    assert!(gso.state().is_on());
    gso.refused(now);
    assert_eq!(gso.state(), GsoState::Paused { until: now + Duration::from_secs(1) });
}

#[test]
fn off_stays_off() {
    let gso = Gso::off();
    assert!(!gso.is_worth_trying(|| Instant::FAR_FUTURE));
    assert!(!gso.state().is_on());
}
