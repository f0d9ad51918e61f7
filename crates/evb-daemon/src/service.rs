//! evbd as a service: tells systemd by datagrams when it is ready, what state it is in, that it is
//! alive, and when it ends (sd_notify(3)).

mod notify;
mod watch;
#[cfg(test)]
mod tests;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use evb::role::Beats;

pub(crate) use notify::Notifier;
use watch::Watch;

/// Time between messages about the state, if it has changed.
const TELL: Duration = Duration::from_secs(1);

/// The service manager's view of this process, if there is a service manager.
#[derive(Debug)]
pub(crate) struct Service {
    notifier: Option<Notifier>,
    beats: Beats,
}

impl Service {
    /// Reads the environment. The watchdog supervises loops that count their turns in these
    /// counters.
    pub(crate) fn from_environment(beats: Beats) -> Self {
        Self { notifier: Notifier::from_environment(), beats }
    }

    /// Returns the counters of turns for the roles of this process.
    pub(crate) fn beats(&self) -> Beats {
        self.beats.clone()
    }

    /// Tells that all roles of this process listen and have joined.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Tells that the process is ending.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Tells the state of the process, and that it is alive while no loop hangs. Never returns. It
    /// must run on the same thread as the roles' tasks, so that it stops when the thread is
    /// blocked.
    pub(crate) async fn attend<F: Future<Output = String>>(&self, mut status: impl FnMut() -> F) {
        let Some(notifier) = &self.notifier else { return std::future::pending().await };
        let limit = notifier.watchdog();
        let mut watch = Watch::new(limit.unwrap_or(Duration::MAX) / 2);
        let interval = limit.map_or(TELL, |limit| TELL.min(limit / 4));
        let mut told = String::new();
        let mut told_at = None::<Instant>;
        loop {
            let now = Instant::now();
            if limit.is_some() {
                match watch.look(self.beats.turns(), now) {
                    Ok(()) => self.tell("WATCHDOG=1"),
                    Err(hanging) => tracing::warn!(
                        hanging = hanging.join(", "),
                        "these roles have made no progress for half of the watchdog's time: the service manager gets no WATCHDOG=1 until they go on"
                    ),
                }
            }
            if told_at.is_none_or(|at| now - at >= TELL) {
                let text = status().await.replace('\n', "; ");
                if text != told {
                    self.tell(&format!("STATUS={text}"));
                    told = text;
                }
                told_at = Some(now);
            }
            tokio::time::sleep(interval).await;
        }
    }

    fn tell(&self, message: &str) {
        if let Some(notifier) = &self.notifier {
            notifier.send(message);
        }
    }
}
