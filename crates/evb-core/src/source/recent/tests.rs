//! Tests of a source's answers about its last timestamps.

use super::*;
use crate::alignment::readings_of;

fn filled(events: u64) -> RecentReadings {
    let mut recent = RecentReadings::default();
    (1..=events).for_each(|event| recent.add(EventId::new(event), Timestamp::new(event * 10)));
    recent
}

#[test]
fn the_answer_waits_for_the_event_of_the_question() {
    let mut recent = filled(300);
    recent.handle_wanted(ReadingsWanted { question: 4, event: 302 }, Instant::ZERO);
    assert_eq!(recent.take_answer(), None);
    for event in 301..=310 {
        recent.add(EventId::new(event), Timestamp::new(event * 10));
    }
    let answer = recent.take_answer().unwrap();
    let pairs: Vec<_> = readings_of(&answer).unwrap().collect();
    assert_eq!((answer.question, pairs[0], pairs.len()), (4, (302, 3020), 240));
    assert_eq!((recent.take_answer(), recent.next_timeout()), (None, None));
}

#[test]
fn a_question_about_what_is_there_is_answered_at_once_and_any_after_two_seconds() {
    let mut recent = filled(3);
    recent.handle_wanted(ReadingsWanted { question: 1, event: 0 }, Instant::ZERO);
    assert_eq!(recent.take_answer().unwrap().events.len(), 3);
    recent.handle_wanted(ReadingsWanted { question: 2, event: 9 }, Instant::ZERO);
    let due = recent.next_timeout().unwrap();
    assert_eq!(due, Instant::ZERO + PATIENCE);
    recent.handle_timeout(due);
    assert_eq!(recent.take_answer().unwrap().question, 2);
}
