//! evbd as a service: tells systemd by datagrams when evbd is ready, what state it is in, that it
//! is alive, and when it ends (sd_notify(3)).

mod watch;
#[cfg(test)]
mod tests;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use evb::role::TurnCounters;
use evb_core::quantities::time;
use sd_notify::NotifyState;

use watch::Watch;

/// Interval at which changes of the state are reported.
const TELL: Duration = Duration::from_secs(1);

/// Connection to the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Service {
    /// False without a service manager.
    is_managed: bool,
    turn_counters: TurnCounters,
}

impl Service {
    /// Reads the environment. The watchdog supervises the loops that `turn_counters` counts.
    pub(crate) fn from_environment(turn_counters: TurnCounters) -> Self {
        Self { is_managed: std::env::var_os("NOTIFY_SOCKET").is_some(), turn_counters }
    }

    /// Returns the turn counters that the roles of this process are to use.
    pub(crate) fn turn_counters(&self) -> TurnCounters {
        self.turn_counters.clone()
    }

    /// Tells the service manager that all roles of this process listen and have joined.
    pub(crate) fn ready(&self) {
        tell(NotifyState::Ready);
    }

    /// Tells the service manager that the process is ending.
    pub(crate) fn stopping(&self) {
        tell(NotifyState::Stopping);
    }

    /// Reports the state of the process, and reports that it is alive while no loop hangs. Never
    /// returns. This method must run on the same thread as the roles' tasks, so that the reports
    /// stop when the thread is blocked.
    pub(crate) async fn attend<F: Future<Output = String>>(&self, mut status: impl FnMut() -> F) {
        if !self.is_managed {
            return std::future::pending().await;
        }
        let limit = sd_notify::watchdog_enabled();
        let mut watch = Watch::new(limit.unwrap_or(Duration::MAX) / 2);
        let interval = limit.map_or(TELL, |limit| TELL.min(limit / 4));
        let mut last_status = String::new();
        let mut told_at = None::<Instant>;
        loop {
            let now = Instant::now();
            if limit.is_some() {
                match watch.look(self.turn_counters.turns(), now) {
                    Ok(()) => tell(NotifyState::Watchdog),
                    Err(hanging) => {
                        let limit = limit.unwrap_or_default();
                        tracing::warn!(
                            "{} made no progress for {}, and after {} (WatchdogSec=) the service manager restarts this process; nothing is lost so far: check now whether a disk hangs, or the host is overloaded",
                            hanging.join(", "),
                            time(limit / 2),
                            time(limit)
                        );
                    }
                }
            }
            if told_at.is_none_or(|at| now - at >= TELL) {
                let text = status().await.replace('\n', "; ");
                if text != last_status {
                    tell(NotifyState::Status(&text));
                    last_status = text;
                }
                told_at = Some(now);
            }
            tokio::time::sleep(interval).await;
        }
    }
}

/// Sends a message to the service manager, if there is one. An error is only logged: the manager
/// itself acts when messages fail to arrive.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
