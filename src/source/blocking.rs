//! [`BlockingSource`]: a source for readout threads that are not async.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use evb_core::{fragment::Fragment, units::Bytes};

use super::{Permit, PushError, TryPushError, input::Intake};

/// A [`Source`](super::Source) for readout threads that are not async. Clones of the handle push
/// into the same source.
#[derive(Clone, Debug)]
pub struct BlockingSource {
    intake: Intake,
}

impl BlockingSource {
    pub(super) fn new(intake: Intake) -> Self {
        Self { intake }
    }

    /// Pushes a fragment into the source; blocks while the backlog is full.
    ///
    /// # Errors
    /// The same errors as [`Source::push`](super::Source::push).
    ///
    /// # Panics
    /// Panics inside an async task, where blocking would stop all other tasks.
    pub fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        block_on("push", self.intake.push(fragment))
    }

    /// Pushes fragments in their order, and removes the pushed ones from `fragments`; blocks while
    /// the backlog is full.
    ///
    /// # Errors
    /// The same errors as [`Source::push_many`](super::Source::push_many).
    ///
    /// # Panics
    /// Panics inside an async task.
    pub fn push_many(&self, fragments: &mut Vec<Fragment>) -> Result<(), PushError> {
        block_on("push_many", self.intake.push_many(fragments))
    }

    /// Pushes a fragment if the backlog has room at this moment.
    ///
    /// # Errors
    /// The same errors as [`Source::try_push`](super::Source::try_push).
    pub fn try_push(&self, fragment: Fragment) -> Result<(), TryPushError> {
        self.intake.try_push(fragment)
    }

    /// Reserves room for a fragment of up to `size` bytes; blocks while the backlog is full.
    ///
    /// # Errors
    /// The same errors as [`Source::reserve`](super::Source::reserve).
    ///
    /// # Panics
    /// Panics inside an async task.
    pub fn reserve(&self, size: Bytes) -> Result<Permit<'_>, PushError> {
        block_on("reserve", self.intake.reserve(size))
    }
}

/// Runs a future to its end on this thread. A future that is ready at once costs no allocation.
fn block_on<T>(method: &str, call: impl Future<Output = T>) -> T {
    let in_async = tokio::runtime::Handle::try_current().is_ok();
    assert!(
        !in_async,
        "BlockingSource::{method} would block the other async tasks of this thread: use Source::{method} in async tasks"
    );
    let mut call = pin!(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => pollster::block_on(call),
    }
}
