//! The sink's results for a builder's events.

use evb_core::{event::Event, quantities::counted, session::RoleFault, time::Instant};

use super::BuilderRole;
use crate::ShapedBuilder;

/// Counts of the events at the sink, over all incarnations of the builder.
#[derive(Debug, Default)]
pub(super) struct AtSink {
    count: usize,
    /// Number of events at the sink that belong to an earlier incarnation of the builder, so that
    /// their result no longer matters.
    stale: usize,
    /// Number of events that the sink has accepted.
    written: u64,
}

impl AtSink {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn stale(&self) -> usize {
        self.stale
    }

    /// Notes that an event goes to the sink.
    pub(super) fn submit(&mut self) {
        self.count += 1;
    }

    /// Notes that the builder begins a new incarnation; returns true if no event of an earlier one
    /// is still at the sink.
    pub(super) fn begin_anew(&mut self) -> bool {
        self.stale = self.count;
        self.stale == 0
    }

    /// Describes the unfinished and the lost events, when the builder gives up on a supervisor that
    /// is lost.
    pub(super) fn give_up(&self, core: &ShapedBuilder) -> String {
        let Self { written, count, .. } = self;
        let (open, done) = (self.open(core), core.unaccounted());
        if open > 0 {
            let builder = core.config().id;
            let events = counted(open, "event");
            tracing::error!(%builder, lost = open, "this builder ends, because it has no supervisor, and drops {events} that it was building: another builder builds them if the run goes on, else they are lost; start this builder again when the supervisor runs, whose log says what was lost");
        }
        format!(
            "the sink has accepted {} of this run and is still writing {count} more; this builder was building {open} \
             more, lost unless another builder gets them; the supervisor has not yet counted {done} of the finished ones",
            counted(*written, "event")
        )
    }

    /// Returns the number of events that are being built and are not at the sink. Events that are
    /// still being built are lost when the builder ends without a supervisor.
    fn open(&self, core: &ShapedBuilder) -> usize {
        core.slots_used().saturating_sub(self.count)
    }
}

impl BuilderRole {
    /// Notes that the sink has accepted an event.
    pub fn handle_written(&mut self, event: Event, now: Instant) {
        self.sink.written += 1;
        if self.take_back() {
            self.core.handle_written(event, now);
        }
    }

    /// Notes that the filter has rejected an event.
    pub fn handle_rejected(&mut self, event: Event, now: Instant) {
        if self.take_back() {
            self.core.handle_rejected(event, now);
        }
    }

    /// Notes that the sink failed to write an event, which is therefore lost.
    pub fn handle_failed(&mut self, event: Event, cause: &str, now: Instant) {
        if self.take_back() {
            self.core.handle_failed(event, cause, now);
        }
    }

    /// Notes that the sink has failed for good. The builder ends, and the supervisor gives its
    /// events to other builders, as after a crash.
    pub fn handle_sink_gone(&mut self) {
        self.attendance.fail(RoleFault::SinkGone);
    }

    /// Returns the number of events at the sink that belong to an earlier incarnation of the
    /// builder.
    pub fn stale_at_sink(&self) -> usize {
        self.sink.stale
    }

    /// Counts an event that the sink has finished; returns true if the event belongs to the present
    /// incarnation.
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
