use std::{task::Poll, time::Duration};

use super::TurnCounters;

#[tokio::test]
async fn a_loop_is_listed_while_it_runs_and_its_turns_are_counted() {
    let turn_counters = TurnCounters::default();
    let mut left = 5;
    let loops = turn_counters.clone();
    let count = turn_counters.count(
        "source 1".to_owned(),
        std::future::poll_fn(move |cx| {
            assert_eq!(loops.turns(), [("source 1".to_owned(), 6 - left)]);
            left -= 1;
            if left == 0 {
                return Poll::Ready(7);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }),
    );
    assert_eq!(count.await, 7);
    assert_eq!(turn_counters.turns(), []);
    // A loop that is dropped while it hangs is removed from the list.
    let hanging = turn_counters.count("builder 2".to_owned(), std::future::pending::<()>());
    assert!(tokio::time::timeout(Duration::from_millis(20), hanging).await.is_err());
    assert_eq!(turn_counters.turns(), []);
}
