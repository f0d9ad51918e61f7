//! [`Timer`]: wakes a task at an absolute time, tens of microseconds late instead of tokio's
//! millisecond.

#[cfg(test)]
mod tests;

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::time::Instant;

use crate::clock;

/// A timer that would expire more than this much earlier than needed is set again, to save a
/// useless wake-up.
const MUCH_LATER: Duration = Duration::from_millis(50);

/// A timer that wakes one task and can be armed again and again. The timer is a `timerfd` on Linux,
/// and tokio's own timer on other systems.
#[derive(Debug)]
pub struct Timer {
    armed: Option<Instant>,
    /// Time before the expiry at which the alarm wakes the task, which then spins until the expiry.
    margin: Duration,
    alarm: platform::Alarm,
}

impl Timer {
    /// Creates a disarmed timer; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Fails if the process has no file descriptors left.
    pub fn new() -> io::Result<Self> {
        Self::new_spinning(Duration::ZERO)
    }

    /// Creates a timer that wakes the task `margin` before the time of expiry and spins for the
    /// rest, so that it expires only a fraction of a microsecond late if a core is free. While the
    /// timer spins, no other task runs on the thread, so keep the margin below a millisecond.
    ///
    /// # Errors
    /// Fails as [`new`](Self::new) does.
    pub fn new_spinning(margin: Duration) -> io::Result<Self> {
        Ok(Self { armed: None, margin, alarm: platform::Alarm::new()? })
    }

    /// Sets the time of expiry; `None` disarms the timer. Makes no system call if the time is
    /// unchanged.
    pub fn arm(&mut self, at: Option<Instant>) {
        if at != self.armed {
            self.armed = at;
            self.alarm.set(at.map(|at| earlier(at, self.margin)));
        }
    }

    /// Ensures that the timer expires at `at` at the latest, and perhaps earlier: an occasional
    /// early expiry costs less than setting the timer at every turn. The timer does not expire much
    /// earlier, since a needless wake-up costs more than setting the timer once.
    pub fn arm_by(&mut self, at: Option<Instant>) {
        let Some(at) = at else { return };
        if self.armed.is_none_or(|armed| at < armed || at > armed + MUCH_LATER) {
            self.arm(Some(at));
        }
    }

    /// Returns the time for which the timer is armed.
    pub fn armed(&self) -> Option<Instant> {
        self.armed
    }

    /// Becomes ready once, when the armed time has come, and disarms the timer.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.armed else { return Poll::Pending };
        let expired = self.alarm.poll(cx);
        if expired.is_ready() {
            self.armed = None;
            while !self.margin.is_zero() && clock::now() < at {
                std::hint::spin_loop();
            }
        }
        expired
    }

    /// Waits until the armed time; waits forever if the timer is disarmed. Safe to cancel.
    pub async fn expired(&mut self) {
        std::future::poll_fn(|cx| self.poll_expired(cx)).await;
    }
}

/// Returns the time `margin` before `at`.
fn earlier(at: Instant, margin: Duration) -> Instant {
    at.shifted(-i64::try_from(margin.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(target_os = "linux")]
mod platform {
    use std::{
        io,
        task::{Context, Poll, ready},
    };

    use evb_core::time::Instant;
    use tokio::io::unix::AsyncFd;

    use crate::sys_time::TimerFd;

    #[derive(Debug)]
    pub(super) struct Alarm(AsyncFd<TimerFd>);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(TimerFd::new()?.watched()?))
        }

        pub(super) fn set(&mut self, at: Option<Instant>) {
            // Setting the timer fails only for an invalid descriptor or time, and this module
            // provides valid ones.
            if let Err(error) = self.0.get_ref().set(at.map(|at| at.max(Instant::ZERO).as_nanos())) {
                tracing::warn!(%error, "this process cannot set a timer, so its part in the run may stand still, which is a fault of evb: {error}; start it again, and report this");
            }
        }

        /// Polls whether the timer has expired since it was armed.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                let Ok(mut guard) = ready!(self.0.poll_read_ready(cx)) else { return Poll::Ready(()) };
                // The descriptor may still be marked as ready from an expiry before the timer was
                // armed again; in that case the wait continues.
                if guard.try_io(|timer| timer.get_ref().take_expiry()).is_ok() {
                    // The timer does not expire again until it is armed again, so later polls need
                    // no system call.
                    guard.clear_ready();
                    return Poll::Ready(());
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::{
        future::Future as _,
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    use evb_core::time::Instant;

    #[derive(Debug)]
    pub(super) struct Alarm(Option<Pin<Box<tokio::time::Sleep>>>);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(None))
        }

        pub(super) fn set(&mut self, at: Option<Instant>) {
            let when = |at: Instant| tokio::time::Instant::now() + at.since(crate::clock::now());
            self.0 = at.map(|at| Box::pin(tokio::time::sleep_until(when(at))));
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            self.0.as_mut().map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
        }
    }
}
