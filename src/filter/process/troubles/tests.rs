use std::time::{Duration, Instant};

use evb_core::id::EventId;

use super::{NAMED, OnFailure, PERIOD, Troubles};

#[test]
fn so_many_events_are_named_and_the_others_counted() {
    let (mut troubles, now) = (Troubles::default(), Instant::now());
    for event in 0..3 * NAMED as u64 {
        troubles.note_event(EventId::new(event));
    }
    assert_eq!((troubles.events.len(), troubles.more), (NAMED, 2 * NAMED as u64));
    troubles.say(OnFailure::Keep, now);
    assert_eq!((troubles.events.len(), troubles.more), (0, 0));
}

#[test]
fn warnings_are_joined() {
    let (mut troubles, now) = (Troubles::default(), Instant::now());
    troubles.say(OnFailure::Keep, now);
    let mut said = 0;
    for millis in 0..25_000 {
        troubles.note("worker 1 exited with code 3".to_owned());
        troubles.say(OnFailure::Keep, now + Duration::from_millis(millis));
        said += u32::from(troubles.failures == 0);
    }
    assert_eq!(said, 1 + (Duration::from_secs(25).as_secs() / PERIOD.as_secs()) as u32);
    assert_eq!(troubles.latest(), "worker 1 exited with code 3");
}
