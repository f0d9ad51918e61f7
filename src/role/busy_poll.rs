//! [`BusyPoll`]: polls a driver for a while before the driver sleeps.

#[cfg(test)]
mod tests;

use std::{
    future::Future as _,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::time::Instant;

/// Keeps a driver from sleeping for a while after each grant, so that the data of the grant need no
/// wake-up. Without a window, the driver sleeps at once.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    window: Option<Duration>,
    /// Lane bytes granted so far, over all lanes.
    granted: u64,
    until: Instant,
}

impl BusyPoll {
    pub(crate) fn new(window: Option<Duration>, now: Instant) -> Self {
        Self { window, granted: 0, until: now }
    }

    /// Makes the runtime check the sockets without waiting and then poll this task again, if
    /// `granted`, the sum over all lanes, has changed within the window.
    pub(crate) fn stay_awake(&mut self, cx: &mut Context<'_>, granted: impl FnOnce() -> u64, now: Instant) {
        let Some(window) = self.window else { return };
        let granted = granted();
        if granted != self.granted {
            (self.granted, self.until) = (granted, now + window);
        }
        if now < self.until {
            // The first poll of `yield_now` schedules this task again, behind all other ready
            // tasks.
            let asked: Poll<()> = pin!(tokio::task::yield_now()).poll(cx);
            debug_assert!(asked.is_pending());
        }
    }
}
