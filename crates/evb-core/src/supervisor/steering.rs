//! What people may change while a run goes on.

use super::{SupervisorCore, journal::What, plan::with_rate};
use crate::{
    id::BuilderId,
    time::Instant,
    trigger::{Trigger, TriggerKind},
    units::Frequency,
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING},
};

/// Why the run is not changed: it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It has not begun, or takes no more triggers.
    #[error("no run is under way; start one first")]
    NotRunning,
    /// Triggers are not taken already.
    #[error("the run is paused already; resume goes on with it")]
    Paused,
    /// Triggers are taken already.
    #[error("the run is not paused; nothing is to be done")]
    NotPaused,
    /// There is nothing whose rate could be set.
    #[error(
        "the trigger of this run has no rate; only periodic, poisson, gaussian and burst triggers have one"
    )]
    NoRate,
    /// It may register already.
    #[error("builder {0} is part of the run already")]
    KnownBuilder(BuilderId),
    /// It was removed, and is not done yet.
    #[error("builder {0} is leaving the run; add it when it has left, which the status shows")]
    LeavingBuilder(BuilderId),
    /// There is none of that number.
    #[error("the run has no builder {0}, or it is leaving already")]
    UnknownBuilder(BuilderId),
    /// Somebody must build.
    #[error("builder {0} is the last one; stop the run, or add another builder first")]
    LastBuilder(BuilderId),
    /// Sources hold a lane to each, in sets of a fixed size.
    #[error("a run has at most {MAX_BUILDERS} builders")]
    TooManyBuilders,
    /// Sources are told of all outstanding events when one of their builders is lost.
    #[error(
        "{0} slots of one more builder may hold too many events: a run has at most {MAX_OUTSTANDING} under construction"
    )]
    TooManyOutstanding(u32),
}

impl SupervisorCore {
    /// Takes no triggers until [`resume`](Self::resume). Those that come from elsewhere are inhibited, those of the run's own
    /// clock do not happen.
    ///
    /// # Errors
    /// [`ChangeError`]: it is not running, or paused already.
    pub fn pause(&mut self, now: Instant) -> Result<(), ChangeError> {
        if self.paused && self.is_running() {
            return Err(ChangeError::Paused);
        }
        self.settle_pending(now);
        if !self.is_running() {
            return Err(ChangeError::NotRunning);
        }
        tracing::info!(run = %self.plan.run, "paused");
        self.paused = true;
        self.journal(What::Paused(true), now);
        Ok(())
    }

    /// Takes triggers again.
    ///
    /// # Errors
    /// [`ChangeError`]: it is not running, or not paused.
    pub fn resume(&mut self, now: Instant) -> Result<(), ChangeError> {
        if !self.is_running() {
            return Err(ChangeError::NotRunning);
        }
        if !self.paused {
            return Err(ChangeError::NotPaused);
        }
        tracing::info!(run = %self.plan.run, "resumed");
        self.paused = false;
        self.journal(What::Paused(false), now);
        self.restart_trigger(now);
        Ok(())
    }

    /// Sets the mean rate of the run's own trigger, from now on; a held run may be changed as well.
    ///
    /// # Errors
    /// [`ChangeError::NoRate`]: it has none.
    pub fn set_rate(&mut self, rate: Frequency, now: Instant) -> Result<(), ChangeError> {
        self.plan.trigger = with_rate(self.plan.trigger, rate).ok_or(ChangeError::NoRate)?;
        self.rate = Some(rate);
        tracing::info!(run = %self.plan.run, %rate, "trigger rate");
        self.journal(What::Rate(rate.hertz()), now);
        self.restart_trigger(now);
        Ok(())
    }

    /// The run's own trigger from now on; its chance is not that of the start once more.
    pub(super) fn restart_trigger(&mut self, now: Instant) {
        let seed = self.seed ^ self.tally.triggered.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trigger = Trigger::new(self.plan.trigger, seed, now);
    }

    /// Whether triggers of the run's own clock happen.
    pub(super) fn takes_triggers(&self) -> bool {
        self.is_running() && !self.paused
    }

    pub(super) fn has_external_trigger(&self) -> bool {
        self.plan.trigger == TriggerKind::External
    }
}
