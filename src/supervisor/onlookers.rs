//! [`Onlookers`]: who watches the counters of a run.

use std::time::Duration;

use evb_core::{supervisor::Progress, time::Instant};
use tokio::sync::watch;

/// How often they see new counters.
const PERIOD: Duration = Duration::from_millis(20);

/// Whoever holds a handle, and when it is shown something next.
#[derive(Debug)]
pub(super) struct Onlookers {
    progress: watch::Sender<Progress>,
    due: Instant,
}

impl Onlookers {
    pub(super) fn new(progress: watch::Sender<Progress>) -> Self {
        Self { progress, due: Instant::ZERO }
    }

    /// Shows what there is, if it is time or the last that there is to see.
    pub(super) fn show(&mut self, progress: impl FnOnce() -> Progress, is_last: bool, now: Instant) {
        if now < self.due && !is_last {
            return;
        }
        self.due = now + PERIOD;
        let progress = progress();
        self.progress.send_if_modified(|shown| std::mem::replace(shown, progress) != progress);
    }
}
