//! [`Onlookers`]: the handles that watch the progress of a run.

use std::time::Duration;

use evb_core::{supervisor::Progress, time::Instant};
use tokio::sync::watch;

/// Interval at which the counters that handles see are updated.
const PERIOD: Duration = Duration::from_millis(20);

/// The watch channel of the handles, and the time of its next update.
#[derive(Debug)]
pub(super) struct Onlookers {
    progress: watch::Sender<Progress>,
    due: Instant,
}

impl Onlookers {
    pub(super) fn new(progress: watch::Sender<Progress>) -> Self {
        Self { progress, due: Instant::ZERO }
    }

    /// Publishes the progress, if an update is due or must not wait.
    pub(super) fn show(&mut self, progress: impl FnOnce() -> Progress, at_once: bool, now: Instant) {
        if now < self.due && !at_once {
            return;
        }
        self.due = now + PERIOD;
        let progress = progress();
        self.progress.send_if_modified(|shown| std::mem::replace(shown, progress) != progress);
    }
}
