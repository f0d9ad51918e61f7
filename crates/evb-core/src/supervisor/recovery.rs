//! Recovery of a run from the journal of another supervisor.

mod reading;
#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod tests;

use super::{PlanError, RunPlan, SupervisorCore, journal::What, nonsense::Nonsense};
use crate::{id::RunNumber, time::Instant, wire::journal::Entry};
use reading::Reading;

/// The reason why a run cannot be recovered from a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The journal has no entries: start a new run.
    #[error("the journal has no entry")]
    Empty,
    /// The journal lacks its first entry.
    #[error("the first entry of the journal is not the beginning of a run")]
    NoBeginning,
    /// The run is over: start a new one.
    #[error("run {0} is over")]
    Over(RunNumber),
    /// The journal is of a run with other sources.
    #[error("the journal is of run {0}, whose sources are not the ones that are configured now")]
    OtherSources(RunNumber),
    /// An entry contradicts those before it: it is damaged, or of another version.
    #[error("entry {number} of the journal is damaged or of another version: {problem}")]
    Senseless {
        /// Number of the entry, from 1.
        number: usize,
        /// The fault of the entry.
        problem: String,
    },
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Returns the run in these entries, if it is not over.
///
/// # Errors
/// The error that the iterator returned.
pub fn unfinished<E>(entries: impl IntoIterator<Item = Result<Entry, E>>) -> Result<Option<RunNumber>, E> {
    let (mut run, mut over) = (None, false);
    for (index, entry) in entries.into_iter().enumerate() {
        match entry?.what {
            Some(What::Begun(begun)) if index == 0 => run = Some(RunNumber::new(begun.run)),
            Some(What::Ended(_)) => over = true,
            _ => {}
        }
    }
    Ok(run.filter(|_| !over))
}

/// The recovery of a run from its journal. Its number, epoch, builders and seed are the journal's,
/// and so are changes by operators during the run; the rest is the plan's. Entries are read one
/// after the other, and none is kept.
#[derive(Clone, Debug)]
pub struct Recovery {
    state: State,
    /// Number of entries so far.
    number: usize,
    run: Option<RunNumber>,
    over: bool,
}

/// The progress of reading. A fault is kept to the end, because it does not matter if the run is
/// over.
#[derive(Clone, Debug)]
enum State {
    Empty(Box<RunPlan>),
    Reading(Box<Reading>),
    Faulty(RecoverError),
}

impl Recovery {
    /// Creates a recovery that has read nothing yet.
    pub fn new(plan: RunPlan) -> Self {
        Self { state: State::Empty(Box::new(plan)), number: 0, run: None, over: false }
    }

    /// Takes the next entry.
    pub fn read(&mut self, entry: &Entry) {
        self.number += 1;
        let senseless = |Nonsense(problem)| RecoverError::Senseless { number: self.number, problem };
        match &entry.what {
            Some(What::Begun(begun)) if self.number == 1 => self.run = Some(RunNumber::new(begun.run)),
            Some(What::Ended(_)) => self.over = true,
            _ => {}
        }
        let fault = match &mut self.state {
            State::Empty(plan) => match Reading::begin(plan, entry) {
                Ok(reading) => return self.state = State::Reading(Box::new(reading)),
                Err(fault) => fault,
            },
            State::Reading(reading) => match reading.read(entry) {
                Ok(()) => return,
                Err(fault) => senseless(fault),
            },
            State::Faulty(_) => return,
        };
        self.state = State::Faulty(fault);
    }

    /// Ends the reading. The supervisor waits at most two leases for its peers to return; those
    /// that have not are then taken for lost.
    ///
    /// # Errors
    /// [`RecoverError`]: there is no run to resume.
    pub fn finish(self, now: Instant) -> Result<SupervisorCore, RecoverError> {
        if let Some(run) = self.run.filter(|_| self.over) {
            return Err(RecoverError::Over(run));
        }
        match self.state {
            State::Empty(_) => Err(RecoverError::Empty),
            State::Reading(reading) => Ok(reading.finish(now)),
            State::Faulty(fault) => Err(fault),
        }
    }
}
