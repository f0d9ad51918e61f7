//! Going on with a run by what another supervisor wrote down of it.

mod reading;
#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod tests;

use super::{PlanError, RunPlan, SupervisorCore, journal::What, nonsense::Nonsense};
use crate::{id::RunNumber, time::Instant, wire::journal::Entry};
use reading::Reading;

/// Why a journal does not lead on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// Nothing is written in it: begin anew.
    #[error("it has no entry")]
    Empty,
    /// It has not what it must begin with.
    #[error("it does not begin with the beginning of a run")]
    NoBeginning,
    /// That run is over: begin anew.
    #[error("run {0} is over")]
    Over(RunNumber),
    /// It is of a run with other sources.
    #[error("it is of run {0}, which has other sources than are configured now")]
    OtherSources(RunNumber),
    /// An entry contradicts those before it: damaged, or of another version.
    #[error("entry {number} makes no sense: {problem}")]
    Senseless {
        /// From 1.
        number: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The run that these entries tell of, if it is not over.
///
/// # Errors
/// That of whoever reads them.
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

/// Goes on with the run that a journal tells of. Its number, epoch, builders and seed are the journal's, and so is what people
/// changed while it went on; the rest is the plan's. Entries are read one after the other, and none is kept.
#[derive(Clone, Debug)]
pub struct Recovery {
    state: State,
    /// Entries so far.
    number: usize,
    run: Option<RunNumber>,
    over: bool,
}

/// How far the reading is. A fault is kept to the end: of a run that is over, it is of no interest.
#[derive(Clone, Debug)]
enum State {
    Empty(Box<RunPlan>),
    Reading(Box<Reading>),
    Faulty(RecoverError),
}

impl Recovery {
    /// Nothing is read yet.
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

    /// All is read. For at most two leases the supervisor waits for peers to come back, then those that have not are taken for
    /// lost.
    ///
    /// # Errors
    /// [`RecoverError`]: there is nothing to go on with.
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
