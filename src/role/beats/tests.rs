use std::{task::Poll, time::Duration};

use super::Beats;

#[tokio::test]
async fn a_loop_is_listed_while_it_runs_and_its_turns_are_counted() {
    let beats = Beats::default();
    let mut left = 5;
    let loops = beats.clone();
    let count = beats.count(
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
    assert_eq!(beats.turns(), []);
    // A loop that is dropped is removed too, and one that hangs has no turns.
    let hanging = beats.count("builder 2".to_owned(), std::future::pending::<()>());
    assert!(tokio::time::timeout(Duration::from_millis(20), hanging).await.is_err());
    assert_eq!(beats.turns(), []);
}
