//! [`RoleHandle`]: the common part of the handles to sources and builders.

use std::{future::Future, io, sync::Arc};

use evb_core::session::{Member, RunOutcome};
use evb_net::host::{self, is_forked_child};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{Instrument as _, Span};

use super::{
    Access, RoleError, decline,
    workers::{self, OwnThread},
};

/// Target of the spans whose field `who` names a role in log lines.
const WHO: &str = "evb::who";

/// The result of a role; `None` until the role has ended.
type Ending = Option<Result<RunOutcome, Arc<RoleError>>>;

/// A handle to a role that runs on a thread of its own. Dropping the handle does not end the role.
#[derive(Clone, Debug)]
pub(crate) struct RoleHandle {
    ending: watch::Receiver<Ending>,
    run_end: mpsc::Sender<String>,
    abort: Arc<Notify>,
}

/// The value that a role hands to the task that started it, once it has joined, and the channel
/// that confirms the receipt: see [`hand_over`].
pub(crate) type Joined<T> = (T, oneshot::Sender<()>);

/// The thread on which a role runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleThread {
    /// A thread of its own, pinned to the core if one is given, so that no blocking readout or sink
    /// can delay the role.
    Own(Option<usize>),
    /// A thread of its own, or, in a process with many roles, a thread that it shares with others.
    Any,
}

impl RoleHandle {
    /// Runs a role on a thread at that place. Waits until the role has joined; returns the value
    /// that the role handed over, and a handle. The role gets the requests to end the run through
    /// the receiver.
    ///
    /// # Errors
    /// The reason for which the role ended before it had joined.
    pub(crate) async fn start<T, F>(
        name: String,
        place: RoleThread,
        role: impl FnOnce(oneshot::Sender<Joined<T>>, mpsc::Receiver<String>) -> F + Send + 'static,
    ) -> Result<(T, Self), RoleError>
    where
        T: Send + 'static,
        F: 'static + Future<Output = Result<RunOutcome, RoleError>>,
    {
        if is_forked_child() {
            return Err(RoleError::Forked);
        }
        let (joined, has_joined) = oneshot::channel();
        let (early, ended_early) = oneshot::channel();
        let (end, ending) = watch::channel(None);
        let (run_end, run_ends) = mpsc::channel(1);
        let handle = Self { ending, run_end, abort: Arc::default() };
        let aborted = Arc::clone(&handle.abort);
        let thread = name.clone();
        let run = async move || {
            let outcome = tokio::select! {
                biased;
                outcome = role(joined, run_ends) => outcome,
                () = aborted.notified() => Err(RoleError::Aborted),
            };
            log(&outcome);
            let shared = match outcome {
                Ok(outcome) => Ok(outcome),
                // A task that still waits for the role to join gets the error itself, and no other
                // task can ask for it.
                Err(error) => match early.send(error) {
                    Ok(()) => return,
                    Err(error) => Err(Arc::new(error)),
                },
            };
            end.send_replace(Some(shared));
        };
        // The caller's span may name the role better than its id does.
        let span = match Span::current() {
            span if span.metadata().is_some_and(|metadata| metadata.target() == WHO) => span,
            _ => tracing::error_span!(target: WHO, "role", who = thread),
        };
        begin(thread, span, place, run)?;
        let Ok((what, taken)) = has_joined.await else {
            return Err(ended_early.await.unwrap_or(RoleError::Vanished));
        };
        // This drop must happen before the role goes on: from now on, `ending` reports the role's
        // end.
        drop(ended_early);
        let _ = taken.send(());
        Ok((what, handle))
    }

    /// Tells the supervisor why a role cannot take part, on a thread like that of a role.
    pub(crate) async fn decline(name: String, member: Member, access: Access, reason: String) {
        let role = |_: oneshot::Sender<Joined<()>>, _| async move {
            decline(member, access, &reason).await;
            Err(RoleError::Unwanted)
        };
        // The role never joins, so the result says nothing.
        drop(Self::start(name, RoleThread::Any, role).await);
    }

    /// Asks the supervisor, through the role, to end the run. Repeated requests have no effect.
    pub(crate) fn request_run_end(&self, cause: &str) {
        // The channel is full after an earlier request, and closed when the role is over.
        let _ = self.run_end.try_send(cause.to_owned());
    }

    /// Ends the role at once.
    pub(crate) fn abort(&self) {
        self.abort.notify_one();
    }

    /// Waits until the role has ended.
    pub(crate) async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        if is_forked_child() {
            return Err(Arc::new(RoleError::Forked));
        }
        let mut ending = self.ending.clone();
        let ended = ending.wait_for(Option::is_some).await;
        let vanished = || Err(Arc::new(RoleError::Vanished));
        ended.map_or_else(|_| vanished(), |end| end.clone().unwrap_or_else(vanished))
    }
}

/// Starts a role on a thread at that place. Its log lines are in the span.
fn begin<F>(
    name: String,
    span: Span,
    place: RoleThread,
    run: impl FnOnce() -> F + Send + 'static,
) -> io::Result<()>
where
    F: 'static + Future<Output = ()>,
{
    let own = OwnThread::take();
    if own.is_none() && place == RoleThread::Any {
        return workers::run(move || Box::pin(run().instrument(span)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    crate::threads::start(name, move || {
        let _role = span.entered();
        if let RoleThread::Own(Some(core)) = place
            && let Err(error) = host::pin_to_core(core)
        {
            tracing::warn!(core, %error, "this role cannot run on core {core} alone, so it runs on any core, which may cost throughput, but no data: {error}; write a core of this host as its `cpu`, or let evbd use core {core}");
        }
        runtime.block_on(run());
        drop(own);
    })?;
    Ok(())
}

/// Logs why a role has ended, unless it ended well.
fn log(outcome: &Result<RunOutcome, RoleError>) {
    match outcome {
        Ok(_) => {}
        Err(error @ (RoleError::Unwanted | RoleError::Aborted)) => {
            tracing::debug!(%error, "the role ended early");
        }
        Err(error @ RoleError::Join(reason)) => {
            tracing::warn!(%error, "this role takes no part in the run: {reason}");
        }
        Err(error) => {
            tracing::warn!(%error, "this role has left the run, whose report names the events that this costs: {error}");
        }
    }
}

/// Tells the task that started a role that the role has joined, and waits for the receipt. Without
/// the receipt, a task that has gone would leave a role in the run that has no owner.
pub(crate) async fn hand_over<T>(joined: oneshot::Sender<Joined<T>>, what: T) -> Result<(), RoleError> {
    let (taken, is_taken) = oneshot::channel();
    joined.send((what, taken)).map_err(|_| RoleError::Unwanted)?;
    is_taken.await.map_err(|_| RoleError::Unwanted)
}

#[cfg(test)]
mod tests;
