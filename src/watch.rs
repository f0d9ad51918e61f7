//! [`Watch`]: follows a value that changes.

use tokio::sync::watch;

/// A value that changes. A reader sees the latest value and may miss intermediate ones. Clones
/// watch independently.
#[derive(Clone, Debug)]
pub struct Watch<T>(watch::Receiver<T>);

impl<T: Clone> Watch<T> {
    pub(crate) fn new(receiver: watch::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// Returns the latest value without marking it as seen.
    pub fn latest(&self) -> T {
        self.0.borrow().clone()
    }

    /// Returns the latest value, and marks it as seen for [`Self::has_changed`] and [`Self::next`].
    pub fn see(&mut self) -> T {
        self.0.borrow_and_update().clone()
    }

    /// Returns true if there is an unseen value, or if no more values will come.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits for an unseen value, and returns it; `None` when no more values will come.
    ///
    /// Cancel safety: a call that is dropped has marked no value as seen.
    pub async fn next(&mut self) -> Option<T> {
        self.0.changed().await.ok()?;
        Some(self.see())
    }

    /// Waits until the value meets a condition, and returns it; `None` if no more values will come.
    ///
    /// Cancel safety: a call that is dropped changes only which values count as seen.
    pub async fn wait_for(&mut self, condition: impl FnMut(&T) -> bool) -> Option<T> {
        self.0.wait_for(condition).await.ok().map(|value| value.clone())
    }
}
