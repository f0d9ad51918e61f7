//! [`Books`]: the supervisor's ledger: the outcomes of triggers, the times of the run, and the
//! peers at fault.

mod recall;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{
    builders::BuilderSet,
    dead_time::{self, Blames, DeadTime},
    findings::Findings,
    journal::What,
    outbox::Outbox,
    peer_names::short,
};
use crate::{
    alignment::Episode,
    event::Cause,
    id::SourceId,
    index::{BuilderIndex, Per, SourceIndex},
    ledger::{EventCounts, OwingChange},
    quantities::split_remedy,
    time::Instant,
    wire::{
        control::{Completions, Exception, Outcome},
        journal::{BuilderCounts, BuilderTotals, Finding},
    },
};

/// The supervisor's own counts in a run.
#[derive(Clone, Debug)]
pub(super) struct Books {
    /// Counts of all triggers by their outcome; the number of assigned ones is not kept.
    tally: EventCounts,
    times: Times,
    builders: Per<BuilderIndex, BuilderBooks>,
    /// Builders that have not been told yet how many of their completions are in the ledger.
    unanswered: BuilderSet,
    /// For each source, the number of incomplete events without its fragment, by cause.
    missing: Per<SourceIndex, BTreeMap<Cause, u64>>,
    /// For each source, the number of complete events without its fragment, by the cause for which
    /// it did not owe one.
    absent: Per<SourceIndex, BTreeMap<Cause, u64>>,
    dead_time: DeadTime,
    asks_for_culprits: bool,
    findings: Findings,
    /// The exit code; `None` until the ledger is closed.
    exit_code: Option<u8>,
}

/// Times at which the phases of a run began and ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) started: Option<Instant>,
    pub(super) first_trigger: Option<Instant>,
    pub(super) last_trigger_possible: Option<Instant>,
    pub(super) last_completion: Option<Instant>,
    pub(super) drained: Option<Instant>,
}

/// Counts of one builder.
#[derive(Clone, Copy, Debug, Default)]
struct BuilderBooks {
    present: BuilderCounts,
    /// Counts of the builder's earlier incarnations.
    past: BuilderCounts,
    /// Events that the sinks of the builder's earlier incarnations accepted.
    past_written: u64,
    /// Completions of the builder's present incarnation that are in the ledger.
    accounted: u64,
}

/// A gap in a builder's numbered completions. Without the missing completions, the supervisor
/// cannot tell which of the others it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it reports finished events from number {before} on, but the supervisor knows only {accounted}, so some reports are missing"
)]
pub(super) struct Gap {
    before: u64,
    accounted: u64,
}

impl Books {
    /// Creates empty books for these numbers of sources and builders.
    pub(super) fn new(sources: usize, builders: usize) -> Self {
        Self {
            tally: EventCounts::default(),
            times: Times::default(),
            builders: core::iter::repeat_n(BuilderBooks::default(), builders).collect(),
            unanswered: BuilderSet::default(),
            missing: core::iter::repeat_n(BTreeMap::new(), sources).collect(),
            absent: core::iter::repeat_n(BTreeMap::new(), sources).collect(),
            dead_time: DeadTime::default(),
            asks_for_culprits: false,
            findings: Findings::default(),
            exit_code: None,
        }
    }

    /// Adds empty counts for a new builder.
    pub(super) fn add_builder(&mut self) {
        self.builders.push(BuilderBooks::default());
    }

    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    pub(super) fn is_started(&self) -> bool {
        self.times.started.is_some()
    }

    /// Returns true if the run takes no more triggers.
    pub(super) fn is_stopped(&self) -> bool {
        self.times.last_trigger_possible.is_some()
    }

    pub(super) fn start(&mut self, now: Instant) {
        self.times.started = Some(now);
    }

    /// Records the time at which the last trigger was possible; `None` if the run may take triggers
    /// again.
    pub(super) fn stop(&mut self, at: Option<Instant>) {
        self.times.last_trigger_possible = at;
    }

    /// Records the time at which all events were settled.
    pub(super) fn drain(&mut self, now: Instant) {
        self.times.drained = Some(now);
    }

    pub(super) fn close(&mut self, exit_code: u8) {
        self.exit_code = Some(exit_code);
    }

    /// Returns the exit code; `None` until the ledger is closed.
    pub(super) fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }

    pub(super) fn counts(&self) -> EventCounts {
        EventCounts { assigned: self.assigned(), ..self.tally }
    }

    pub(super) fn triggered(&self) -> u64 {
        self.tally.triggered
    }

    /// Returns the number of assigned events.
    pub(super) fn assigned(&self) -> u64 {
        self.tally.triggered - self.tally.inhibited
    }

    /// Records the time of the run's first trigger.
    pub(super) fn note_trigger(&mut self, at: Instant) {
        self.times.first_trigger.get_or_insert(at);
    }

    /// Counts a new event, assigned to that builder.
    pub(super) fn assign(&mut self, builder: BuilderIndex) {
        self.tally.triggered += 1;
        self.builders[builder].present.assigned += 1;
    }

    /// Counts inhibited triggers. Adds their causes to `fresh`, which collects the causes for the
    /// next journal entry.
    pub(super) fn inhibit(&mut self, count: u64, cause: dead_time::Cause, fresh: Option<&mut Blames>) {
        self.tally.triggered += count;
        self.tally.inhibited += count;
        self.dead_time.add(cause, count, fresh);
    }

    /// Notes that the causes of dead time may have changed. They are computed when a trigger is
    /// inhibited, because heartbeats, which change them, are more frequent with many builders.
    pub(super) fn ask_for_culprits(&mut self) {
        self.asks_for_culprits = true;
    }

    /// Returns true if the causes of dead time may have changed since [`Self::set_culprits`].
    pub(super) fn asks_for_culprits(&self) -> bool {
        self.asks_for_culprits
    }

    /// Sets the causes to which triggers are attributed that are inhibited while all slots are
    /// taken.
    pub(super) fn set_culprits(&mut self, culprits: Vec<dead_time::Cause>) {
        self.asks_for_culprits = false;
        self.dead_time.set_culprits(culprits);
    }

    pub(super) fn dead_time(&self) -> &DeadTime {
        &self.dead_time
    }

    /// Counts events that a builder takes over from another builder.
    pub(super) fn take_over(&mut self, builder: BuilderIndex, events: u64) {
        self.builders[builder].present.assigned += events;
    }

    /// Counts events that are taken from a builder and will be given to other builders.
    pub(super) fn take_away(&mut self, builder: BuilderIndex, events: u64) {
        self.builders[builder].present.moved += events;
    }

    /// Counts lost events; each item is the builder that had the event, or `None` if it had none.
    pub(super) fn lose(&mut self, events: impl Iterator<Item = Option<BuilderIndex>>, cause: String) {
        let mut lost = 0;
        for builder in events {
            if let Some(builder) = builder {
                self.builders[builder].present.lost_with_it += 1;
            }
            lost += 1;
        }
        self.tally.lost += lost;
        self.findings.loss(cause, lost);
    }

    /// Returns how many of these completions are in the ledger already and have to be skipped
    /// (docs/reference/protocol.md RUN-20).
    pub(super) fn known(&self, builder: BuilderIndex, completions: &Completions) -> Result<usize, Gap> {
        let (before, accounted) = (completions.before, self.builders[builder].accounted);
        if before > accounted {
            return Err(Gap { before, accounted });
        }
        Ok(usize::try_from(accounted - before).unwrap_or(usize::MAX))
    }

    /// Notes that the supervisor has to tell a builder how many of its completions are in the
    /// ledger.
    pub(super) fn owe_answer(&mut self, builder: BuilderIndex) {
        self.unanswered.insert(builder);
    }

    /// Returns the builders that do not know yet how many of their completions are in the ledger,
    /// to be told now.
    pub(super) fn take_unanswered(&mut self) -> BuilderSet {
        core::mem::take(&mut self.unanswered)
    }

    /// Returns true if a builder has to be told how many of its completions are in the ledger.
    #[inline]
    pub(super) fn owes_answers(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Enters new completions into the ledger. `settle` removes an event from the builder's
    /// outstanding events, and returns false if the builder did not have that event.
    pub(super) fn account(
        &mut self,
        (builder, named): (BuilderIndex, &dyn Fn() -> String),
        completions: &Completions,
        source: impl Fn(SourceId) -> Option<SourceIndex>,
        mut settle: impl FnMut(u64) -> bool,
        now: Instant,
    ) {
        let (mut complete, mut faults) = (0, 0);
        // The number of events that each entry of the absences stands for.
        let mut lacking = vec![0; completions.absences.len()];
        for (event, absence) in completions.events_with_absences() {
            let had = settle(event.number());
            complete += u64::from(had);
            faults += u64::from(!had);
            if let Some(events) = absence.and_then(|number| lacking.get_mut(number)) {
                *events += u64::from(had);
            }
        }
        for (absence, events) in completions.absences.iter().zip(lacking) {
            for (id, cause) in absence.absent_sources().filter(|_| events > 0) {
                if let Some(index) = source(id) {
                    *self.absent[index].entry(cause).or_default() += events;
                }
            }
        }
        self.tally.complete += complete;
        let books = &mut self.builders[builder];
        books.present.complete += complete;
        let mut settled = complete;
        for exception in &completions.exceptions {
            if settle(exception.event) {
                settled += 1;
                self.account_exception((builder, named), exception, &source);
            } else {
                faults += 1;
            }
        }
        if settled > 0 {
            self.times.last_completion = Some(now);
        }
        let books = &mut self.builders[builder];
        books.present.faults += faults;
        books.accounted += completions.count() as u64;
    }

    /// Counts one event of a builder that is not complete. `index_of` finds a source of the run.
    fn account_exception(
        &mut self,
        (builder, name_of_builder): (BuilderIndex, &dyn Fn() -> String),
        exception: &Exception,
        index_of: impl Fn(SourceId) -> Option<SourceIndex>,
    ) {
        let tally = &mut self.builders[builder].present;
        match exception.outcome {
            Outcome::Incomplete => {
                tally.incomplete += 1;
                self.tally.incomplete += 1;
                for (id, cause) in exception.missing_sources() {
                    if let Some(index) = index_of(id) {
                        *self.missing[index].entry(cause).or_default() += 1;
                    }
                }
            }
            Outcome::Rejected => {
                tally.rejected += 1;
                self.tally.rejected += 1;
            }
            Outcome::Lost | Outcome::Unspecified => {
                tally.lost += 1;
                self.tally.lost += 1;
                let cause = short(&exception.cause);
                let advice = match split_remedy(&cause).1 {
                    Some(_) => "",
                    None => {
                        "; check the disk or program to which its sink writes, and its log, which names the events"
                    }
                };
                self.findings.loss(format!("{}: {cause}{advice}", name_of_builder()), 1);
            }
        }
    }

    /// Begins the counts of a builder's next incarnation, which has completed no event.
    pub(super) fn begin_incarnation(&mut self, builder: BuilderIndex) {
        self.unanswered.remove(builder);
        let books = &mut self.builders[builder];
        *books = BuilderBooks {
            past: books.past.plus(&books.present),
            past_written: books.past_written + books.present.accepted(),
            ..BuilderBooks::default()
        };
    }

    /// Returns the number of a builder's outstanding events.
    pub(super) fn outstanding(&self, builder: BuilderIndex) -> u64 {
        self.builders[builder].present.outstanding()
    }

    /// Returns the number of outstanding events of each builder, in the order of the roster.
    pub(super) fn all_outstanding(&self) -> impl Iterator<Item = u64> {
        self.builders.iter().map(|books| books.present.outstanding())
    }

    /// Returns the counts of a builder's present incarnation.
    pub(super) fn present(&self, builder: BuilderIndex) -> &BuilderCounts {
        &self.builders[builder].present
    }

    /// Returns the counts of all incarnations of a builder together.
    pub(super) fn total(&self, builder: BuilderIndex) -> BuilderCounts {
        let books = &self.builders[builder];
        books.past.plus(&books.present)
    }

    /// Returns the number of events that the sinks of a builder's earlier incarnations accepted.
    pub(super) fn past_written(&self, builder: BuilderIndex) -> u64 {
        self.builders[builder].past_written
    }

    /// Returns a builder's counts for the journal. The other fields of the message come from the
    /// builder's seat.
    pub(super) fn builder_totals(&self, builder: BuilderIndex) -> BuilderTotals {
        let BuilderBooks { present, past, past_written, accounted, .. } = self.builders[builder];
        BuilderTotals {
            accounted,
            present: Some(present),
            past: Some(past),
            past_written,
            ..BuilderTotals::default()
        }
    }

    /// Returns the number of completions of a builder's present incarnation in the ledger.
    pub(super) fn accounted(&self, builder: BuilderIndex) -> u64 {
        self.builders[builder].accounted
    }

    /// Returns the number of incomplete events without a fragment of that source.
    pub(super) fn missing(&self, source: SourceIndex) -> u64 {
        self.missing[source].values().sum()
    }

    /// Returns the number of incomplete events without a fragment of that source, by cause.
    pub(super) fn missing_by_cause(&self, source: SourceIndex) -> &BTreeMap<Cause, u64> {
        &self.missing[source]
    }

    /// Returns the number of complete events without a fragment of that source, by the cause for
    /// which it did not owe one.
    pub(super) fn absent_by_cause(&self, source: SourceIndex) -> &BTreeMap<Cause, u64> {
        &self.absent[source]
    }

    pub(super) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Records a problem for the final report.
    pub(super) fn problem(&mut self, problem: String, outbox: &mut Outbox, now: Instant) {
        let finding = Finding { problem: problem.clone(), ..Finding::default() };
        outbox.journal(What::Finding(finding), now);
        self.findings.problem(problem);
    }

    /// Records an incident that cost no event. The summary reports it to operators, but the run
    /// still counts as good.
    pub(super) fn remark(&mut self, remark: String, outbox: &mut Outbox, now: Instant) {
        let finding = Finding { problem: remark.clone(), remark: true, ..Finding::default() };
        outbox.journal(What::Finding(finding), now);
        self.findings.remark(remark);
    }

    /// Records what happened to a source, for the files of the builders.
    pub(super) fn note_episode(&mut self, episode: Episode, outbox: &mut Outbox, now: Instant) {
        outbox.journal(What::Episode(episode.message()), now);
        self.findings.note_episode(episode);
    }

    /// Records that a source was excluded or included.
    pub(super) fn note_exclusion(&mut self, change: OwingChange, outbox: &mut Outbox, now: Instant) {
        outbox.journal(What::Exclusion(change.entry()), now);
        self.findings.note_exclusion(change);
    }

    /// Records the reason why the run cannot begin or continue.
    pub(super) fn failure(&mut self, problem: String, outbox: &mut Outbox, now: Instant) {
        let finding = Finding { problem: problem.clone(), failure: true, ..Finding::default() };
        outbox.journal(What::Finding(finding), now);
        self.findings.fail(problem);
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        let tally = self.builders.positions().map(|builder| self.total(builder));
        let total = tally.fold(BuilderCounts::default(), |sum, tally| sum.plus(&tally));
        let EventCounts { triggered, inhibited, complete, incomplete, rejected, lost, .. } = self.tally;
        assert_eq!((total.complete, total.incomplete, total.rejected), (complete, incomplete, rejected));
        assert!(total.all_lost() <= lost, "{total:?} and {:?}", self.tally);
        let with_builders = total.assigned - total.moved + (lost - total.all_lost());
        assert!(with_builders <= self.assigned(), "{total:?} and {:?}", self.tally);
        assert!(inhibited <= triggered && self.dead_time.total() <= inhibited, "{:?}", self.tally);
    }
}
