use std::future::pending;

use super::*;

fn place(connection: &tokio::task::JoinHandle<()>, last: u8, busy: &Busy) -> OpenConnection {
    OpenConnection {
        connection: connection.abort_handle(),
        from: [10, 0, 0, last].into(),
        busy: busy.clone(),
    }
}

#[tokio::test]
async fn the_oldest_that_waits_gives_way_and_commands_do_not() {
    let places = ConnectionLimit::default();
    let connections: Vec<_> = (0..4).map(|_| (tokio::spawn(pending::<()>()), Busy::default())).collect();
    connections[0].1.set(true);
    for (connection, busy) in &connections[..3] {
        assert!(places.take(3, place(connection, 1, busy)));
    }
    assert!(places.take(3, place(&connections[3].0, 1, &connections[3].1)));
    tokio::task::yield_now().await;
    let open: Vec<bool> = connections.iter().map(|(connection, _)| !connection.is_finished()).collect();
    assert_eq!(open, [true, false, true, true]);
}

#[tokio::test]
async fn where_all_are_busy_nobody_else_gets_in() {
    let places = ConnectionLimit::default();
    let busy = Busy::default();
    busy.set(true);
    let first = tokio::spawn(pending::<()>());
    assert!(places.take(1, place(&first, 1, &busy)));
    let second = tokio::spawn(pending::<()>());
    assert!(!places.take(1, place(&second, 1, &Busy::default())));
    assert!(second.await.is_err_and(|error| error.is_cancelled()) && !first.is_finished());
}

#[tokio::test]
async fn who_has_most_connections_displaces_its_own() {
    let places = ConnectionLimit::default();
    let connections: Vec<_> = (0..40).map(|_| tokio::spawn(pending::<()>())).collect();
    // The operator's connection is the oldest, and 39 of another address follow.
    for (number, connection) in connections.iter().enumerate() {
        assert!(places.take(4, place(connection, u8::from(number > 0), &Busy::default())));
    }
    tokio::task::yield_now().await;
    let open: Vec<usize> = (0..40).filter(|number| !connections[*number].is_finished()).collect();
    assert_eq!(open, [0, 37, 38, 39]);
}
