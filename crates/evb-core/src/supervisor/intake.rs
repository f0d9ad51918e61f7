//! [`Intake`]: the triggers that are not decided yet, external ones and those of the run's own
//! clock, and the time at which they can be decided.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::plan::with_rate;
use crate::{
    time::Instant,
    trigger::{Trigger, TriggerKind, numbers::TriggerNumbers},
    units::Frequency,
};

/// Most triggers that are decided in one turn; the remaining triggers follow in the next turn.
pub(super) const TRIGGERS_PER_TURN: u32 = 1 << 14;

/// Time between two decisions that inhibit triggers. Sources are told of many inhibited triggers in
/// one message, because one message for each would take CPU time from builders. Slots that become
/// free in the meantime are used for waiting triggers.
pub(super) const INHIBIT_EVERY: Duration = Duration::from_millis(10);

/// Number of external triggers that may wait to be decided.
const PENDING_LIMIT: u64 = 1 << 32;

/// Triggers that are not decided yet.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    kind: TriggerKind,
    /// Seed of the random times of triggers.
    seed: u64,
    clock: Trigger,
    /// External triggers that wait for a decision.
    pending: u64,
    /// Numbers of the triggers that are announced.
    pub(super) numbers: TriggerNumbers,
    /// Time of the last decision that inhibited triggers.
    inhibited_at: Option<Instant>,
    /// Time of the last decision.
    decided_at: Option<Instant>,
    paused: bool,
    /// Rate of the run's own clock; `None` unless an operator has set it.
    rate: Option<Frequency>,
}

impl Intake {
    /// Creates an intake that has seen no trigger.
    pub(super) fn new(kind: TriggerKind, seed: u64, now: Instant) -> Self {
        let clock = Trigger::new(kind, seed, now);
        Self {
            kind,
            seed,
            clock,
            pending: 0,
            numbers: TriggerNumbers::after(0),
            inhibited_at: None,
            decided_at: None,
            paused: false,
            rate: None,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns true if the run's triggers are external.
    pub(super) fn is_external(&self) -> bool {
        self.kind == TriggerKind::External
    }

    /// Returns true if each free slot counts as a trigger.
    pub(super) fn is_free(&self) -> bool {
        self.kind == TriggerKind::AsFastAsPossible
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Returns the rate of the run's own clock; `None` unless an operator has set it.
    pub(super) fn rate(&self) -> Option<Frequency> {
        self.rate
    }

    /// Sets the rate that the run's own clock has after [`restart`](Self::restart); returns false
    /// if this kind of trigger has no rate.
    pub(super) fn set_rate(&mut self, rate: Frequency) -> bool {
        let Some(kind) = with_rate(self.kind, rate) else { return false };
        (self.kind, self.rate) = (kind, Some(rate));
        true
    }

    /// Begins the run's own clock.
    pub(super) fn start(&mut self, now: Instant) {
        self.clock = Trigger::new(self.kind, self.seed, now);
    }

    /// Restarts the run's own clock after `triggered` triggers. Random trigger times then differ
    /// from those after the start.
    pub(super) fn restart(&mut self, triggered: u64, now: Instant) {
        let seed = self.seed ^ triggered.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.clock = Trigger::new(self.kind, seed, now);
    }

    /// Returns the time of the next trigger of the run's own clock if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Instant> {
        self.clock.pop_due(now)
    }

    /// Returns the time of the next trigger of the run's own clock; `None` while the run is paused.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.clock.next_due().filter(|_| !self.paused)
    }

    /// Adds external triggers to be decided; returns the number of triggers added.
    pub(super) fn add(&mut self, count: u64) -> u64 {
        let taken = count.min(PENDING_LIMIT - self.pending);
        self.pending += taken;
        taken
    }

    /// Returns the number of external triggers that wait for a decision.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    /// Notes that `count` of the waiting triggers are decided.
    pub(super) fn settle(&mut self, count: u64) {
        self.pending -= count;
    }

    /// Drops the waiting triggers, because the run takes no more triggers.
    pub(super) fn forget(&mut self) {
        self.pending = 0;
    }

    /// Returns true if triggers without a free slot are inhibited in this turn, rather than
    /// waiting.
    pub(super) fn inhibits(&self, now: Instant) -> bool {
        self.inhibited_at.is_none_or(|at| now == at || now >= at + INHIBIT_EVERY)
    }

    /// Notes that triggers were inhibited.
    pub(super) fn note_inhibited(&mut self, now: Instant) {
        self.inhibited_at = Some(now);
    }

    /// Notes that a trigger was decided.
    #[inline]
    pub(super) fn note_decided(&mut self, now: Instant) {
        self.decided_at = Some(now);
    }

    /// Returns the time at which triggers are decided again, if they wait now so that one message
    /// has the decisions of `batch` time; `None` if they are decided at once.
    pub(super) fn waits_until(&self, batch: Duration, now: Instant) -> Option<Instant> {
        let at = self.decided_at.filter(|at| *at < now)?;
        Some(at + batch).filter(|until| now < *until)
    }

    /// Allows the next decision to be taken and to inhibit triggers at once.
    pub(super) fn hurry(&mut self) {
        (self.inhibited_at, self.decided_at) = (None, None);
    }

    /// Returns the time at which the next trigger can be decided if it happens at `due` and
    /// decisions are `batch` apart. Without a free slot, the trigger waits so that it can be
    /// inhibited together with others.
    pub(super) fn next_decision(
        &self,
        due: Option<Instant>,
        has_slot: bool,
        batch: Duration,
    ) -> Option<Instant> {
        let due = if self.pending > 0 { Some(Instant::ZERO) } else { due };
        let batch = self.decided_at.filter(|_| !batch.is_zero()).map(|at| at + batch);
        let due = due.max(batch.filter(|_| due.is_some()));
        let earliest = self.inhibited_at.filter(|_| !has_slot).map(|at| at + INHIBIT_EVERY);
        due.max(earliest.filter(|_| due.is_some()))
    }
}
