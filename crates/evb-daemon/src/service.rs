//! evbd as a service: tells systemd when it is ready, how it is, that it lives and that it ends (sd_notify(3), by datagrams).

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

/// How often the state is told, if it has changed.
const TELL: Duration = Duration::from_secs(1);

/// Tells the service manager about this process, if there is one.
#[derive(Debug)]
pub(crate) struct Service {
    notifier: Option<Notifier>,
    beats: Beats,
}

impl Service {
    /// As the environment says. Roles whose turns count for the watchdog are to be given `beats`.
    pub(crate) fn from_environment(beats: Beats) -> Self {
        Self { notifier: Notifier::from_environment(), beats }
    }

    /// For the roles of this process.
    pub(crate) fn beats(&self) -> Beats {
        self.beats.clone()
    }

    /// All roles of this process listen and have joined.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The process is on its way to its end.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Tells how it is and that it lives, for as long as that is so. Never ends; to be run beside what it tells of, on the same
    /// thread, so that it falls silent with it.
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
                        "no turn for half of the watchdog's time: it hears nothing until they turn again"
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
