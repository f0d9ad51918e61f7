use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000);

fn hertz(rate: f64) -> Frequency {
    Frequency::from_hertz(rate).unwrap()
}

#[test]
fn external_triggers_wait_up_to_a_limit() {
    let mut intake = Intake::new(TriggerKind::External, 1, START);
    assert!(intake.is_external() && !intake.is_free() && !intake.set_rate(hertz(5.0)));
    assert_eq!(
        (intake.add(PENDING_LIMIT - 1), intake.add(3), intake.pending()),
        (PENDING_LIMIT - 1, 1, PENDING_LIMIT)
    );
    intake.settle(5);
    assert_eq!(intake.pending(), PENDING_LIMIT - 5);
    intake.forget();
    assert_eq!(intake.pending(), 0);
}

#[test]
fn triggers_in_excess_are_inhibited_together() {
    let mut intake = Intake::new(TriggerKind::External, 1, START);
    assert_eq!(intake.next_decision(None, false, Duration::ZERO), None);
    intake.add(2);
    assert!(intake.inhibits(START));
    intake.note_inhibited(START);
    let later = START + INHIBIT_EVERY / 2;
    assert!(intake.inhibits(START) && !intake.inhibits(later) && intake.inhibits(START + INHIBIT_EVERY));
    assert_eq!(intake.next_decision(None, false, Duration::ZERO), Some(START + INHIBIT_EVERY));
    assert_eq!(intake.next_decision(None, true, Duration::ZERO), Some(Instant::ZERO));
    intake.hurry();
    assert!(intake.inhibits(later));
}

#[test]
fn the_clock_goes_at_the_rate_that_was_set_and_not_while_paused() {
    let mut intake = Intake::new(TriggerKind::Periodic { rate: hertz(1.0) }, 1, START);
    assert_eq!(intake.next_due(), Some(START + Duration::from_secs(1)));
    assert!(intake.rate().is_none() && intake.set_rate(hertz(10.0)));
    assert_eq!((intake.rate(), intake.pop_due(START)), (Some(hertz(10.0)), None));
    intake.restart(7, START);
    assert_eq!(intake.next_due(), Some(START + Duration::from_millis(100)));
    intake.set_paused(true);
    assert_eq!((intake.next_due(), intake.is_paused()), (None, true));
}
