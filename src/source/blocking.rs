//! [`BlockingSource`]: a source for readout threads that are not async.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use evb_core::{fragment::Fragment, units::Bytes};

use super::{Permit, PushError, TryPushError, input::Intake};

/// A [`Source`](super::Source) for readout threads that are not async. Clones push into the same
/// source.
///
/// ```no_run
/// # fn read_hardware() -> evb::fragment::Fragment { unimplemented!() }
/// # fn readout(source: evb::source::BlockingSource) -> Result<(), evb::source::PushError> {
/// loop {
///     source.push(read_hardware())?;
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlockingSource {
    intake: Intake,
}

impl BlockingSource {
    pub(super) fn new(intake: Intake) -> Self {
        Self { intake }
    }

    /// Hands a fragment over; blocks while the backlog is full.
    ///
    /// # Errors
    /// As [`Source::push`](super::Source::push).
    ///
    /// # Panics
    /// Inside an async task, where blocking would stop the others.
    pub fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        block_on("push", self.intake.push(fragment))
    }

    /// Hands fragments over in their order, and removes them from `fragments`; blocks while the
    /// backlog is full.
    ///
    /// # Errors
    /// As [`Source::push_many`](super::Source::push_many).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn push_many(&self, fragments: &mut Vec<Fragment>) -> Result<(), PushError> {
        block_on("push_many", self.intake.push_many(fragments))
    }

    /// Hands a fragment over if the backlog has room at this moment.
    ///
    /// # Errors
    /// As [`Source::try_push`](super::Source::try_push).
    pub fn try_push(&self, fragment: Fragment) -> Result<(), TryPushError> {
        self.intake.try_push(fragment)
    }

    /// Reserves room for a fragment of up to `size` bytes; blocks while the backlog is full.
    ///
    /// # Errors
    /// As [`Source::reserve`](super::Source::reserve).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn reserve(&self, size: Bytes) -> Result<Permit<'_>, PushError> {
        block_on("reserve", self.intake.reserve(size))
    }
}

/// Runs a call to its end. A call that need not wait costs no allocation.
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
