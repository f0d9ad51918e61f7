use std::{sync::Arc, time::Duration};

use tokio::sync::Barrier;

use super::*;

#[tokio::test]
async fn roles_on_shared_threads_run_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(101));
    for _ in 0..100 {
        let barrier = Arc::clone(&barrier);
        run(move || {
            Box::pin(async move {
                barrier.wait().await;
            })
        })
        .unwrap();
    }
    tokio::time::timeout(Duration::from_secs(10), barrier.wait()).await.expect("all roles run");
}

#[test]
fn places_for_threads_are_given_back() {
    // Other tests of this process also take places.
    let taken: Vec<_> = std::iter::from_fn(OwnThread::take).collect();
    assert!(taken.len() <= OWN_THREADS);
    drop(taken);
    assert!(OwnThread::take().is_some());
}
