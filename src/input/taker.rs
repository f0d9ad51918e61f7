//! [`Taker`]: the destination of fragments that an input pushes; a source, or its substitute in a
//! test.

#[cfg(test)]
pub(super) mod tests;

use std::future::Future;

use evb_core::{fragment::Fragment, id::SourceId};

use crate::source::{PushError, Source};

/// A destination that accepts fragments.
pub(super) trait Taker: Clone + Send + Sync + 'static {
    /// Returns the id of the source, for the log.
    fn source(&self) -> SourceId;

    /// Accepts a fragment; waits while the source's backlog is full.
    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send;

    /// Accepts fragments and removes them; one that is refused stays at the front.
    #[cfg(feature = "udp")]
    fn take_many(&self, fragments: &mut Vec<Fragment>) -> impl Future<Output = Result<(), PushError>> + Send {
        async move {
            while let Some(fragment) = fragments.first().cloned() {
                self.take(fragment).await?;
                fragments.remove(0);
            }
            Ok(())
        }
    }
}

impl Taker for Source {
    fn source(&self) -> SourceId {
        self.id()
    }

    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send {
        self.push(fragment)
    }

    #[cfg(feature = "udp")]
    fn take_many(&self, fragments: &mut Vec<Fragment>) -> impl Future<Output = Result<(), PushError>> + Send {
        self.push_many(fragments)
    }
}
