//! Retries of a failing sink: without limit while the run goes on, and for a limited time when it
//! ends.

use std::time::Duration;

use evb_core::{
    builder::SINK_RETRY,
    id::BuilderId,
    quantities::{counted, time},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::sink::{SinkError, with_remedy};

/// Remedy for a sink that may accept events later.
const MAKE_ROOM: &str = "make room, or repair the disk";

/// Interval at which a continuing failure of the sink is logged.
const REMIND: Duration = Duration::from_secs(10);

pub(super) struct Patience {
    builder: BuilderId,
    give_up: Duration,
    ending: watch::Receiver<bool>,
    /// Times at which the failure began and at which it was last logged.
    trouble: Option<(Instant, Instant)>,
    /// True if stored events are gone since the failure began.
    has_lost: bool,
    /// Time until which the sink is retried; set when the run is ending.
    until: Option<Instant>,
}

impl Patience {
    pub(super) fn new(builder: BuilderId, give_up: Duration, ending: watch::Receiver<bool>) -> Self {
        Self { builder, give_up, ending, trouble: None, has_lost: false, until: None }
    }

    /// Notes that the sink accepts no events, and logs this the first time. Returns the time of the
    /// last log line about the failure.
    pub(super) fn note(&mut self, error: &SinkError, held: usize) -> &mut Instant {
        let builder = self.builder.number();
        let (_, told) = self.trouble.get_or_insert_with(|| {
            let kept = if held == 0 { "those that come".to_owned() } else { counted(held, "event") };
            tracing::warn!(builder, %error, held, "the builder's sink accepts no events, so the builder keeps {kept} and tries again: {}", with_remedy(error, MAKE_ROOM));
            let now = Instant::now();
            (now, now)
        });
        told
    }

    /// Notes that stored events are gone.
    pub(super) fn note_loss(&mut self) {
        self.has_lost = true;
    }

    /// Waits until the next retry; returns false if the time for retries is over.
    pub(super) async fn wait(&mut self, error: &SinkError, held: usize) -> bool {
        let now = Instant::now();
        let builder = self.builder.number();
        let told = self.note(error, held);
        if now - *told >= REMIND {
            *told = now;
            let kept = counted(held, "event");
            tracing::warn!(builder, %error, held, "the builder's sink still accepts no events, and the builder keeps {kept}: {}", with_remedy(error, MAKE_ROOM));
        }
        self.look_for_the_end();
        let again = sleep(SINK_RETRY);
        match self.until {
            Some(until) if until <= now => {
                let lost = counted(held, "event");
                tracing::error!(builder, %error, events = held, "this builder lost {lost}, because its sink still accepts none after the stop: {}", with_remedy(error, "make room, or repair the disk before the next run"));
                return false;
            }
            Some(until) => tokio::select! {
                () = again => {}
                () = sleep_until(until) => {}
            },
            None => tokio::select! {
                () = again => {}
                // An error means that the stage is gone, which the loop that waits here also
                // notices.
                _ = self.ending.changed() => self.look_for_the_end(),
            },
        }
        true
    }

    /// Notes that the sink accepts events again.
    pub(super) fn end_trouble(&mut self) {
        if let Some((since, _)) = self.trouble.take()
            && self.until.is_none_or(|until| until > Instant::now())
        {
            let (builder, took) = (self.builder.number(), time(since.elapsed()));
            match std::mem::take(&mut self.has_lost) {
                true => tracing::warn!(
                    builder,
                    "the builder's sink accepts events again, after {took}, but stored events are gone: the lines before name them, the cause and what to do"
                ),
                false => {
                    tracing::warn!(
                        builder,
                        "the builder's sink accepts events again, after {took}; no event was lost, and nothing needs to be done"
                    )
                }
            }
        }
    }

    /// Returns the text with which the ledger names an event that was given up.
    pub(super) fn words(&self, error: &SinkError) -> String {
        format!(
            "the sink did not accept the event within {} s after the stop: {error}",
            self.give_up.as_secs_f64()
        )
    }

    fn look_for_the_end(&mut self) {
        if self.until.is_none() && (*self.ending.borrow_and_update() || self.ending.has_changed().is_err()) {
            self.until = Some(Instant::now() + self.give_up);
        }
    }
}
