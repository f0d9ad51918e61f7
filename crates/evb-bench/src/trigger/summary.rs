//! The summary at the end of `evb-bench trigger`.

use std::{fmt, net::SocketAddr, time::Duration};

use evb::trigger_feed::TriggerFeed;
use serde_json::{Value, json};

/// The triggers that were announced, and how well they kept to their times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    to: SocketAddr,
    triggers: String,
    asked_hz: f64,
    announced: u64,
    refused: u64,
    time: Duration,
    largest_delay: Duration,
    ended: &'static str,
}

impl Summary {
    /// Summarises a feed that ran for `time`; `asked` are the destination, a description of the
    /// triggers and their mean rate in Hz.
    pub(super) fn new(
        feed: &TriggerFeed,
        (to, triggers, asked_hz): (SocketAddr, &str, f64),
        time: Duration,
        ended: &'static str,
    ) -> Self {
        Self {
            to,
            triggers: triggers.to_owned(),
            asked_hz,
            announced: feed.sent(),
            refused: feed.refused(),
            time,
            largest_delay: feed.largest_delay(),
            ended,
        }
    }

    fn got_hz(&self) -> f64 {
        match self.time.as_secs_f64() {
            seconds if seconds > 0.0 => self.announced as f64 / seconds,
            _ => 0.0,
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "command": "trigger",
            "to": self.to,
            "triggers": self.triggers,
            "asked_hz": self.asked_hz,
            "announced": self.announced,
            "refused": self.refused,
            "seconds": self.time.as_secs_f64(),
            "got_hz": self.got_hz(),
            "largest_delay_us": self.largest_delay.as_secs_f64() * 1e6,
            "ended": self.ended,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} triggers announced to {} in {:.3} s: {:.2} Hz (asked: {:.2} Hz)",
            self.announced,
            self.to,
            self.time.as_secs_f64(),
            self.got_hz(),
            self.asked_hz,
        )?;
        writeln!(f, "largest delay behind the schedule: {:.1} µs", self.largest_delay.as_secs_f64() * 1e6)?;
        match self.refused {
            0 => Ok(()),
            refused => writeln!(f, "refused by the peer's kernel, as no program listens: {refused} answers"),
        }
    }
}
