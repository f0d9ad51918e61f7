//! [`Recovery`]: continues a run from the journal of another supervisor.

mod reading;
#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod tests;

use super::{PlanError, RunPlan, SupervisorCore, journal::What, nonsense::Nonsense};
use crate::{id::RunNumber, time::Instant, wire::journal::Entry};
use reading::Reading;

/// Reason why a run cannot be recovered from a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The journal has no entries. Start a new run.
    #[error("the journal has no entry")]
    Empty,
    /// The first entry of the journal is missing.
    #[error("the first entry of the journal is not the beginning of a run")]
    NoBeginning,
    /// The run in the journal has ended. Start a new run.
    #[error("run {0} of the journal is over")]
    Over(RunNumber),
    /// The journal belongs to a run with other sources.
    #[error("the journal belongs to run {0}, whose sources differ from those that are configured now")]
    OtherSources(RunNumber),
    /// An entry contradicts the entries before it. The entry is damaged, or was written by another
    /// version of evb.
    #[error("entry {number} of the journal is damaged or of another version: {problem}")]
    Senseless {
        /// Number of the entry, counted from 1.
        number: usize,
        /// Description of the contradiction.
        problem: String,
    },
    /// The plan with which the run should continue contradicts itself or a limit.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Returns the number of the run that these entries describe; `None` if that run has ended.
///
/// # Errors
/// Returns the error that the iterator returned.
pub fn unfinished<E>(entries: impl IntoIterator<Item = Result<Entry, E>>) -> Result<Option<RunNumber>, E> {
    let (mut run, mut has_ended) = (None, false);
    for (index, entry) in entries.into_iter().enumerate() {
        match entry?.what {
            Some(What::Begun(begun)) if index == 0 => run = Some(RunNumber::new(begun.run)),
            Some(What::Ended(_)) => has_ended = true,
            _ => {}
        }
    }
    Ok(run.filter(|_| !has_ended))
}

/// Recovery of a run from its journal. Number, epoch, builders and seed of the run come from the
/// journal, and so do changes by operators during the run; everything else comes from the plan.
/// Entries are read one after the other, and none is kept.
#[derive(Clone, Debug)]
pub struct Recovery {
    state: ReadingState,
    /// Number of entries that have been read.
    number: usize,
    run: Option<RunNumber>,
    over: bool,
}

/// The progress of reading. A fault is reported only at the end, because it does not matter if the
/// run has ended.
#[derive(Clone, Debug)]
enum ReadingState {
    Empty(Box<RunPlan>),
    Reading(Box<Reading>),
    Faulty(RecoverError),
}

impl Recovery {
    /// Creates a recovery that has read no entry.
    pub fn new(plan: RunPlan) -> Self {
        Self { state: ReadingState::Empty(Box::new(plan)), number: 0, run: None, over: false }
    }

    /// Reads the next entry.
    pub fn read(&mut self, entry: &Entry) {
        self.number += 1;
        let senseless = |Nonsense(problem)| RecoverError::Senseless { number: self.number, problem };
        match &entry.what {
            Some(What::Begun(begun)) if self.number == 1 => self.run = Some(RunNumber::new(begun.run)),
            Some(What::Ended(_)) => self.over = true,
            _ => {}
        }
        let fault = match &mut self.state {
            ReadingState::Empty(plan) => match Reading::begin(plan, entry) {
                Ok(reading) => return self.state = ReadingState::Reading(Box::new(reading)),
                Err(fault) => fault,
            },
            ReadingState::Reading(reading) => match reading.read(entry) {
                Ok(()) => return,
                Err(fault) => senseless(fault),
            },
            ReadingState::Faulty(_) => return,
        };
        self.state = ReadingState::Faulty(fault);
    }

    /// Ends the reading and returns the supervisor. The supervisor waits for the peers of the run
    /// for two leases at most, and then treats those that have not returned as lost.
    ///
    /// # Errors
    /// Returns [`RecoverError`] if the journal contains no run that can be continued.
    pub fn finish(self, now: Instant) -> Result<SupervisorCore, RecoverError> {
        if let Some(run) = self.run.filter(|_| self.over) {
            return Err(RecoverError::Over(run));
        }
        match self.state {
            ReadingState::Empty(_) => Err(RecoverError::Empty),
            ReadingState::Reading(reading) => Ok(reading.finish(now)),
            ReadingState::Faulty(fault) => Err(fault),
        }
    }
}
