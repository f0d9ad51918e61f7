//! What the sink does with a builder's events.

use evb_core::{event::Event, session::RoleFault, time::Instant};

use super::BuilderRole;
use crate::ShapedBuilder;

/// Events that the sink has, over all lives of the builder.
#[derive(Debug, Default)]
pub(super) struct AtSink {
    count: usize,
    /// Number of them that belong to an earlier life, whose outcome no longer matters.
    stale: usize,
    /// Bytes that the sink has acknowledged.
    written: u64,
}

impl AtSink {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn stale(&self) -> usize {
        self.stale
    }

    /// An event goes to the sink.
    pub(super) fn submit(&mut self) {
        self.count += 1;
    }

    /// The builder begins another life; returns whether its sink is free.
    pub(super) fn begin_anew(&mut self) -> bool {
        self.stale = self.count;
        self.stale == 0
    }

    /// Describes the unfinished events, and those lost, when the run has no supervisor any more.
    pub(super) fn give_up(&self, core: &ShapedBuilder) -> String {
        let Self { written, count, .. } = self;
        let (open, done) = (self.open(core), core.unaccounted());
        if open > 0 {
            let builder = core.config().id;
            tracing::error!(%builder, lost = open, "the supervisor did not come back: the events that this builder was building are lost");
        }
        format!(
            "the sink has accepted {written} events of this run, and {count} more are being written to it; {open} \
             events that this builder was building are lost; the supervisor has not entered {done} finished events \
             into the ledger"
        )
    }

    /// Returns the events that no sink has, and that are not built any more once this builder ends.
    fn open(&self, core: &ShapedBuilder) -> usize {
        core.slots_used().saturating_sub(self.count)
    }
}

impl BuilderRole {
    /// The sink accepted the event.
    pub fn handle_written(&mut self, event: Event, now: Instant) {
        self.sink.written += 1;
        if self.take_back() {
            self.core.handle_written(event, now);
        }
    }

    /// The filter rejected the event.
    pub fn handle_rejected(&mut self, event: Event, now: Instant) {
        if self.take_back() {
            self.core.handle_rejected(event, now);
        }
    }

    /// The sink failed to take the event: it is lost.
    pub fn handle_failed(&mut self, event: Event, cause: &str, now: Instant) {
        if self.take_back() {
            self.core.handle_failed(event, cause, now);
        }
    }

    /// Notes that the sink is gone. Its events go to another builder, as after a death; no more may
    /// come here and be lost.
    pub fn handle_sink_gone(&mut self) {
        self.attendance.fail(RoleFault::SinkGone);
    }

    /// Returns the number of events at the sink that belong to an earlier life of the builder.
    pub fn stale_at_sink(&self) -> usize {
        self.sink.stale
    }

    /// Takes back an event that the sink has finished; returns true if it is of this life.
    fn take_back(&mut self) -> bool {
        self.sink.count = self.sink.count.saturating_sub(1);
        if self.sink.stale == 0 {
            return true;
        }
        self.sink.stale -= 1;
        self.core.open_sink(self.sink.stale == 0);
        false
    }
}
