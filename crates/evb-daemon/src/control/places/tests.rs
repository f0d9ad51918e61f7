use std::future::pending;

use super::*;

#[tokio::test]
async fn the_oldest_that_waits_gives_way_and_commands_do_not() {
    let places = Places::default();
    let connections: Vec<_> = (0..4).map(|_| (tokio::spawn(pending::<()>()), Busy::default())).collect();
    connections[0].1.set(true);
    for (connection, busy) in &connections[..3] {
        assert!(places.take(3, connection.abort_handle(), busy.clone()));
    }
    assert!(places.take(3, connections[3].0.abort_handle(), connections[3].1.clone()));
    tokio::task::yield_now().await;
    let open: Vec<bool> = connections.iter().map(|(connection, _)| !connection.is_finished()).collect();
    assert_eq!(open, [true, false, true, true]);
}

#[tokio::test]
async fn where_all_are_busy_nobody_else_gets_in() {
    let places = Places::default();
    let busy = Busy::default();
    busy.set(true);
    let first = tokio::spawn(pending::<()>());
    assert!(places.take(1, first.abort_handle(), busy));
    let second = tokio::spawn(pending::<()>());
    assert!(!places.take(1, second.abort_handle(), Busy::default()));
    assert!(second.await.is_err_and(|error| error.is_cancelled()) && !first.is_finished());
}
