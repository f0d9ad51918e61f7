//! [`Watch`]: a value that changes, as a handle sees it.

use tokio::sync::watch;

/// A value that changes, of which a reader sees the latest state and may miss those between.
/// Clones watch independently.
///
/// ```no_run
/// # async fn show(handle: evb::supervisor::SupervisorHandle) {
/// let mut progress = handle.progress();
/// while let Some(now) = progress.next().await {
///     println!("{} events complete", now.events.complete);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Watch<T>(watch::Receiver<T>);

impl<T: Clone> Watch<T> {
    pub(crate) fn new(receiver: watch::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// Returns the latest value.
    pub fn latest(&self) -> T {
        self.0.borrow().clone()
    }

    /// Returns the latest value, and counts it as seen by [`Self::has_changed`] and
    /// [`Self::next`].
    pub fn see(&mut self) -> T {
        self.0.borrow_and_update().clone()
    }

    /// Returns true if there is a value that was not seen, or no more will come.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits for a value that was not seen, and returns it; `None` when no more will come.
    ///
    /// Cancel safety: a call that is dropped has seen nothing.
    pub async fn next(&mut self) -> Option<T> {
        self.0.changed().await.ok()?;
        Some(self.see())
    }

    /// Waits until a value meets a condition, and returns it; `None` if no more will come.
    ///
    /// Cancel safety: a call that is dropped changes nothing but what counts as seen.
    pub async fn wait_for(&mut self, condition: impl FnMut(&T) -> bool) -> Option<T> {
        self.0.wait_for(condition).await.ok().map(|value| value.clone())
    }
}
