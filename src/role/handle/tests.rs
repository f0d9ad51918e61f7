use std::{pin::pin, sync::mpsc, task::Poll, time::Duration};

use evb_core::id::{Epoch, RunId, RunNumber};

use super::*;

fn refused() -> Result<RunOutcome, RoleError> {
    Err(RoleError::Roster("no such thing".to_owned()))
}

/// The resolution of a name may occupy a thread for a long time after the role has given up.
#[tokio::test]
async fn who_waits_for_a_role_that_cannot_join_sleeps_and_gets_the_error_itself() {
    let (go, gone) = mpsc::channel::<()>();
    let mut starting = pin!(RoleHandle::start(
        "early".to_owned(),
        RoleThread::Own(None),
        |_joined: oneshot::Sender<Joined<()>>, _| async {
            tokio::task::spawn_blocking(move || gone.recv_timeout(Duration::from_secs(2)));
            refused()
        }
    ));
    let mut polls = 0;
    let outcome = std::future::poll_fn(|cx| {
        polls += 1;
        if polls > 10 { Poll::Ready(None) } else { starting.as_mut().poll(cx).map(Some) }
    })
    .await;
    drop(go);
    assert!(
        matches!(outcome, Some(Err(RoleError::Roster(_)))),
        "{:?} after {polls} polls",
        outcome.is_some()
    );
}

#[tokio::test]
async fn what_ends_a_role_that_has_just_joined_is_found_at_its_end() {
    for _ in 0..100 {
        let role = |joined, _| async {
            hand_over(joined, 7).await?;
            refused()
        };
        let (what, handle) =
            RoleHandle::start("late".to_owned(), RoleThread::Any, role).await.expect("the peer joins");
        let error = handle.finished().await.expect_err("the role fails");
        assert!(what == 7 && matches!(*error, RoleError::Roster(_)), "{error}");
    }
}

#[tokio::test]
async fn a_role_that_ends_well_before_it_joins_has_vanished() {
    let outcome = RunOutcome {
        run: RunNumber::new(1),
        run_id: RunId::new(1),
        epoch: Epoch::new(1),
        exit_code: 0,
        verdict: String::new(),
        report: None,
        took_part: None,
    };
    let role = |_joined: oneshot::Sender<Joined<()>>, _| async { Ok(outcome) };
    let started = RoleHandle::start("none".to_owned(), RoleThread::Own(None), role).await;
    assert!(matches!(started, Err(RoleError::Vanished)));
}
