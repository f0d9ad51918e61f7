//! [`Intake`]: which triggers are to be decided, and when: those of the run's own clock and those from elsewhere.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::plan::with_rate;
use crate::{
    time::Instant,
    trigger::{Trigger, TriggerKind},
    units::Frequency,
};

/// How many triggers one turn takes; the rest come with the next.
pub(super) const TRIGGERS_PER_TURN: u32 = 1 << 14;

/// Time between two decisions that inhibit. Sources hear of triggers in excess together, because a message for each would
/// take the processor from those that build events; the slots that come free meanwhile go to those that wait.
pub(super) const INHIBIT_EVERY: Duration = Duration::from_millis(10);

/// How many external triggers may wait to be decided.
const PENDING_LIMIT: u64 = 1 << 32;

/// The triggers that are not decided yet.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    kind: TriggerKind,
    /// It fixes random triggers.
    seed: u64,
    clock: Trigger,
    /// External triggers that wait.
    pending: u64,
    /// Time of the last decision that inhibited.
    inhibited_at: Option<Instant>,
    paused: bool,
    /// The clock's rate, if somebody has set it.
    rate: Option<Frequency>,
}

impl Intake {
    pub(super) fn new(kind: TriggerKind, seed: u64, now: Instant) -> Self {
        let clock = Trigger::new(kind, seed, now);
        Self { kind, seed, clock, pending: 0, inhibited_at: None, paused: false, rate: None }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns true if triggers come from elsewhere.
    pub(super) fn is_external(&self) -> bool {
        self.kind == TriggerKind::External
    }

    /// Returns true if a free slot is a trigger.
    pub(super) fn is_free(&self) -> bool {
        self.kind == TriggerKind::AsFastAsPossible
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Returns the clock's rate, if somebody has set it.
    pub(super) fn rate(&self) -> Option<Frequency> {
        self.rate
    }

    /// Sets the rate of the clock that [`restart`](Self::restart) begins; false if this trigger has none.
    pub(super) fn set_rate(&mut self, rate: Frequency) -> bool {
        let Some(kind) = with_rate(self.kind, rate) else { return false };
        (self.kind, self.rate) = (kind, Some(rate));
        true
    }

    /// Begins the run's own clock.
    pub(super) fn start(&mut self, now: Instant) {
        self.clock = Trigger::new(self.kind, self.seed, now);
    }

    /// Begins the run's own clock once more, after so many triggers; its chance is not that of the start.
    pub(super) fn restart(&mut self, triggered: u64, now: Instant) {
        let seed = self.seed ^ triggered.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.clock = Trigger::new(self.kind, seed, now);
    }

    /// Returns the clock's next trigger if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Instant> {
        self.clock.pop_due(now)
    }

    /// Returns when the clock triggers next; nothing while its triggers are not taken.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.clock.next_due().filter(|_| !self.paused)
    }

    /// Takes external triggers in, to be decided; returns how many.
    pub(super) fn add(&mut self, count: u64) -> u64 {
        let taken = count.min(PENDING_LIMIT - self.pending);
        self.pending += taken;
        taken
    }

    /// Returns how many external triggers wait.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    /// Notes that so many of those that wait are decided.
    pub(super) fn settle(&mut self, count: u64) {
        self.pending -= count;
    }

    /// Forgets those that wait: no more triggers are taken.
    pub(super) fn forget(&mut self) {
        self.pending = 0;
    }

    /// Returns true if triggers without a slot are inhibited in this turn.
    pub(super) fn inhibits(&self, now: Instant) -> bool {
        self.inhibited_at.is_none_or(|at| now == at || now >= at + INHIBIT_EVERY)
    }

    /// Notes that triggers were inhibited.
    pub(super) fn note_inhibited(&mut self, now: Instant) {
        self.inhibited_at = Some(now);
    }

    /// Lets triggers be inhibited at once.
    pub(super) fn hurry(&mut self) {
        self.inhibited_at = None;
    }

    /// Returns when the next trigger can be decided, if it happens at `due`: one without a slot waits for others.
    pub(super) fn next_decision(&self, due: Option<Instant>, has_slot: bool) -> Option<Instant> {
        let due = if self.pending > 0 { Some(Instant::ZERO) } else { due };
        let earliest = self.inhibited_at.filter(|_| !has_slot).map(|at| at + INHIBIT_EVERY);
        due.max(earliest.filter(|_| due.is_some()))
    }
}
