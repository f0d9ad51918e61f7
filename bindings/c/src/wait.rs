//! Waits on threads that are not async, with a time limit.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::task::unconstrained;

use crate::error::{Failure, evb_code, evb_fault};

/// The time limit that means none.
pub const EVB_FOREVER: u64 = u64::MAX;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Runs a future to its end on this thread.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    wait_until(future, None).unwrap_or_else(|| unreachable!("a wait without a limit has ended early"))
}

/// Runs a future to its end on this thread.
///
/// # Errors
/// The future is not ready within `limit` milliseconds.
pub(crate) fn wait_for<F: Future>(future: F, limit: u64) -> Result<F::Output, Failure> {
    let until = (limit != EVB_FOREVER).then(|| Instant::now().checked_add(Duration::from_millis(limit)));
    wait_until(future, until.flatten()).ok_or_else(|| {
        let reason =
            format!("the run has not ended within {limit} ms, and goes on, as it loses nothing by this wait");
        let remedy =
            "wait again, or abort the run: if the program has callbacks, see that each of them returns";
        Failure::new(evb_code::EVB_TIMED_OUT, evb_fault::EVB_FAULT_CALLER, reason, remedy)
    })
}

fn wait_until<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    // A sink's callback runs inside a task. Within a task, tokio lets a future wait after some
    // turns so that other tasks get theirs, which would be for ever on this thread.
    let mut future = pin!(unconstrained(future));
    WAKER.with(|waker| {
        let mut cx = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Some(output);
            }
            let Some(until) = until else {
                thread::park();
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    })
}
