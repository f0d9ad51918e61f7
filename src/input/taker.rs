//! The destination of inputs that push fragments: a source, or its substitute in a test.

#[cfg(test)]
pub(super) mod tests;

use std::future::Future;

use evb_core::fragment::Fragment;

use crate::source::{PushError, Source};

/// Takes fragments.
pub(super) trait Taker: Clone + Send + Sync + 'static {
    /// Takes one; waits while the backlog is full.
    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send;
}

impl Taker for Source {
    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send {
        self.push(fragment)
    }
}
