use std::{future::poll_fn, task::Poll, time::Duration};

use evb_core::time::Instant;

use super::BusyPoll;

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000 + micros * 1000)
}

/// Polls at each time of `course` with that sum of grants, as long as the task schedules itself
/// again. Returns the number of polls.
fn turns(busy_poll: &mut BusyPoll, course: &[(u64, u64)]) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut turns = 0;
    let run = poll_fn(|cx| {
        let Some((micros, granted)) = course.get(turns).copied() else { return Poll::Ready(()) };
        turns += 1;
        busy_poll.stay_awake(cx, || granted, at(micros));
        Poll::Pending
    });
    // Apart from this timeout, nothing wakes a task that sleeps.
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_millis(50), run).await.unwrap_or_default() });
    turns
}

#[test]
fn without_a_window_a_driver_sleeps_at_once() {
    let mut busy_poll = BusyPoll::new(None, at(0));
    // The task is polled once, and once more when the timeout expires.
    assert!(turns(&mut busy_poll, &[(0, 10); 9]) <= 2);
}

#[test]
fn a_grant_keeps_a_driver_awake_for_the_window() {
    let mut busy_poll = BusyPoll::new(Some(Duration::from_micros(200)), at(0));
    let course = [(0, 10), (100, 10), (199, 20), (300, 20), (398, 20)];
    assert_eq!(turns(&mut busy_poll, &course), course.len());
    // The window after the last grant is over.
    assert!(turns(&mut busy_poll, &[(400, 20); 9]) <= 2);
}
