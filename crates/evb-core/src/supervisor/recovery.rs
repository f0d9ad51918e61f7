//! Going on with a run by what another supervisor wrote down of it.

#[cfg(test)]
mod tests;

use super::{
    Phase, PlanError, RunPlan, SupervisorCore,
    journal::What,
    outstanding::{HOMELESS, Place},
    recall::{Nonsense, content, epoch, nonsense},
};
use crate::{
    id::{BuilderId, RunNumber},
    time::Instant,
    undo,
    wire::journal::{Begun, Entry, Resumed},
};

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

/// The state that the entries so far have led to.
#[derive(Clone, Debug)]
struct Reading {
    /// Its times are those of the entries.
    core: SupervisorCore,
    /// By whose clock they are, and the latest of them.
    boot_id: String,
    last: Instant,
    /// Nothing has come that totals could contradict.
    untouched: bool,
}

impl Reading {
    fn begin(plan: &RunPlan, entry: &Entry) -> Result<Self, RecoverError> {
        let Some(What::Begun(begun)) = &entry.what else { return Err(RecoverError::NoBeginning) };
        let senseless = |Nonsense(problem)| RecoverError::Senseless { number: 1, problem };
        let (_, at) = content(entry).map_err(senseless)?;
        let run = RunNumber::new(begun.run);
        if !plan.sources.iter().map(|id| u32::from(id.number())).eq(begun.sources.iter().copied()) {
            return Err(RecoverError::OtherSources(run));
        }
        let plan = RunPlan {
            run,
            epoch: epoch(begun.epoch).map_err(senseless)?,
            builders: builders(begun).map_err(senseless)?,
            journal: true,
            ..plan.clone()
        };
        plan.check()?;
        let mut core = SupervisorCore::waiting(plan, begun.seed, at);
        // What is said while entries are read was said by whoever wrote them.
        core.plan.journal = false;
        Ok(Self { core, boot_id: begun.boot_id.clone(), last: at, untouched: true })
    }

    fn read(&mut self, entry: &Entry) -> Result<(), Nonsense> {
        let (what, at) = content(entry)?;
        match what {
            What::Totals(totals) if self.untouched => self.core.recall_totals(totals, at)?,
            What::Resumed(resumed) => self.go_on_by(&resumed.boot_id, at),
            what => self.core.recall(what, at)?,
        }
        self.untouched &= matches!(what, What::Epoch(_));
        self.last = self.last.max(at);
        Ok(())
    }

    /// From the clock of whoever wrote so far to another one: the same, or one that goes on where the last entry was written.
    fn go_on_by(&mut self, boot_id: &str, now: Instant) {
        let same = !boot_id.is_empty() && self.boot_id == boot_id && self.last <= now;
        if !same {
            self.core.shift_times(now.as_nanos().wrapping_sub(self.last.as_nanos()) as i64);
            boot_id.clone_into(&mut self.boot_id);
            self.last = now;
        }
    }

    fn finish(mut self, now: Instant) -> SupervisorCore {
        let boot_id = self.core.plan.boot_id.clone();
        self.go_on_by(&boot_id, now);
        let mut core = self.core;
        core.plan.journal = true;
        core.begin_recovery(now);
        core
    }
}

fn builders(begun: &Begun) -> Result<Vec<BuilderId>, Nonsense> {
    let id = |id: &u32| u16::try_from(*id).map(BuilderId::new);
    begun.builders.iter().map(id).collect::<Result<_, _>>().or_else(|_| nonsense("no such builder"))
}

impl SupervisorCore {
    fn begin_recovery(&mut self, now: Instant) {
        self.journal(What::Resumed(Resumed { boot_id: self.plan.boot_id.clone() }), now);
        self.raise_epoch(now);
        // Nobody knows what reached whom: builders answer for all that they have before sources hear of it.
        self.answer = 1;
        let held: Vec<Place> =
            self.outstanding.iter().filter(|place| place.builder != HOMELESS).copied().collect();
        for place in held {
            self.outstanding.hand_over(place.event, place.builder, self.answer);
        }
        self.hear_everybody(now);
        self.pulse.restart(now);
        if self.tally.started.is_none() {
            tracing::info!(run = %self.plan.run, "begins once more");
            self.tally.last_trigger_possible = None;
            self.phase = Phase::Gathering { until: now + self.plan.start_timeout };
            return;
        }
        // Somebody has begun it.
        self.plan.hold = false;
        tracing::info!(
            run = %self.plan.run, epoch = %self.epoch, decided = self.outbox.decided(),
            outstanding = self.outstanding.len(), "goes on"
        );
        self.phase = Phase::Recovering { until: now + self.two_leases() };
        self.restart_trigger(now);
    }

    /// No more triggers; the drain begins when the run goes on.
    pub(super) fn stop_when_recovered(&mut self, cause: &str, now: Instant) {
        if self.tally.last_trigger_possible.is_none() {
            tracing::info!(run = %self.plan.run, cause, "stops when peers are back");
            self.journal(What::Stopping(cause.to_owned()), now);
            self.settle_pending(now);
            self.tally.last_trigger_possible = Some(now);
            self.pending = 0;
        }
    }

    /// Goes on as soon as everybody is back.
    pub(super) fn check_recovered(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Recovering { .. }) {
            return;
        }
        let sources = self.up.iter().all(|index| self.sources[index].is_ready());
        let builders = self.builders.iter().all(|seat| !seat.is_alive() || seat.connection.is_some());
        if sources && builders {
            self.go_on(now);
        }
    }

    /// Requirements: docs/protocol.md RUN-23.
    pub(super) fn go_on(&mut self, now: Instant) {
        self.close_batches();
        let stopping = self.tally.last_trigger_possible;
        self.phase = Phase::Running { until: None };
        for index in 0..self.sources.len() {
            if self.sources[index].connection.is_none() {
                self.lower(index, "it did not come back to a new supervisor", now);
            }
        }
        if self.up.is_empty() && !undo::is_undone(undo::Fix::C33dca9c) {
            self.pulse.no_source_since = Some((now, self.absence_limit(true)));
        }
        for index in 0..self.builders.len() {
            let seat = &self.builders[index];
            if seat.is_alive() && seat.connection.is_none() {
                self.end_incarnation(index, "it did not come back to a new supervisor", now);
            }
        }
        self.hear_everybody(now);
        if self.builders.iter().all(|seat| !seat.is_alive()) {
            // Nobody knows whether they are dead, or cut off.
            self.pulse.give_up_builders = Some(now + self.absence_limit(true));
        }
        for index in 0..self.builders.len() {
            self.offer_slots(index, now);
        }
        self.restart_trigger(now);
        tracing::info!(run = %self.plan.run, outstanding = self.outstanding.len(), "peers are back");
        match (stopping, self.tally.started.zip(self.plan.duration)) {
            (Some(at), _) => {
                self.begin_draining("triggers had ended before", now);
                self.tally.last_trigger_possible = Some(at);
            }
            (None, Some((started, duration))) => {
                self.phase = Phase::Running { until: Some((started + duration).max(now)) };
            }
            (None, None) => {}
        }
    }
}
