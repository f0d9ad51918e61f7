//! The end of the supervisor's part in a run: all peers are told that the run is over.

use std::{
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    ledger::RunReport,
    wire::control::{Reason, Refusal},
};
use evb_net::clock;
use tokio::task::coop::unconstrained;

use super::{
    driver::Driver,
    registrations::Registrations,
    state::{StateKeeper, note_files},
};

/// Time that peers have to read their last message and close the connection.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Leads the run to its end, and ensures that all peers are informed of it. Also returns the port,
/// for [`refuse_late`].
pub(super) async fn lead(mut driver: Driver) -> (Box<RunReport>, Registrations) {
    // A limit on the connections that are read in a turn would make silent peers of the others.
    let mut report = unconstrained(poll_fn(|cx| driver.poll_turn(cx))).await;
    report.security.add(&driver.registrations.refusals());
    report.kept_in = driver.state.as_ref().map(|state| state.path().display().to_string());
    driver.timer.arm(Some(clock::now() + CLOSING_TIME));
    poll_fn(|cx| poll_closed(&mut driver, cx)).await;
    driver.state.iter_mut().for_each(StateKeeper::note_late);
    if let Some(journal) = driver.journal.take() {
        journal.close().await;
    }
    if let Some(state) = driver.state.take() {
        // A disk that does not respond must not delay the end of the run.
        let _ = tokio::time::timeout(CLOSING_TIME, state.close()).await;
    }
    (report, driver.registrations)
}

/// Waits until all peers have read the last message and closed their connections: if the supervisor
/// closed first, the kernel would discard what a peer has not read.
fn poll_closed(driver: &mut Driver, cx: &mut Context<'_>) -> Poll<()> {
    poll_late(&mut driver.registrations, cx);
    loop {
        driver.links.poll_flush(cx);
        let state = &mut driver.state;
        let more = driver.links.poll_received(cx, clock::now(), |peer, mut message| {
            note_files(state.as_mut(), peer, &mut message);
        });
        while driver.links.pop_lost().is_some() {}
        if driver.links.is_empty() || driver.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        if !more {
            return Poll::Pending;
        }
    }
}

/// Tells members of the run who connect that the run is over, so that roles which lost their
/// connection just before the end do not wait for a supervisor until their patience ends.
pub(crate) async fn refuse_late(mut registrations: Registrations) {
    poll_fn(|cx| {
        poll_late(&mut registrations, cx);
        Poll::Pending
    })
    .await
}

/// Refuses members of the run. Others want to join the next run: they try again when their
/// connection is closed.
fn poll_late(registrations: &mut Registrations, cx: &mut Context<'_>) {
    while let Poll::Ready(incoming) = registrations.poll(cx, clock::now()) {
        if incoming.hello.known_run().is_some() {
            let peer = incoming.hello.from_peer();
            let who = peer.map_or_else(|| "this role".to_owned(), |peer| peer.to_string());
            let detail = format!("the run is over: start {who} again for the next one");
            registrations.refuse(incoming, Refusal::because(Reason::RunOver, detail));
        }
    }
}
