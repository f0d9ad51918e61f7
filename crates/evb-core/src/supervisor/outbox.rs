//! [`Outbox`]: the outputs that wait to be written to the journal and sent. Decisions and
//! assignments of one turn are sent together.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use super::{
    Output, Recipients, RunPlan,
    builders::BuilderSet,
    dead_time::Blames,
    journal::{What, differences},
};
use crate::{
    id::{BuilderId, Epoch, EventId},
    index::{BuilderIndex, Per},
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Assignments, Control, Decisions, MAX_BATCH, Message, Verdict},
        journal::{Decided, Entry},
    },
};

/// Finished outputs in order, and the batches of decisions and assignments that are being filled. A
/// batch is closed before any output that must follow it, and when its messages have reached the
/// maximum length.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: VecDeque<Output>,
    decisions: Decisions,
    decided: u64,
    batch: u64,
    assignments: Per<BuilderIndex, AssignmentBatch>,
    /// Builders that have events in `assignments`.
    touched: BuilderSet,
    /// Sources that receive decisions under `roster_version`.
    up: SourceSet,
    /// Sources that are told of decisions as events from which they are excluded.
    excluded: SourceSet,
    roster_version: u32,
    /// Epoch of the next assignments, not below the epoch of the plan.
    epoch: Epoch,
    /// UTC of the zero of the supervisor's clock; zero if unknown.
    utc_zero_ns: u64,
    /// Facts for the next journal entry; `None` if no journal is kept.
    unwritten: Option<Unwritten>,
    /// Time since which the journal cannot be written; `None` while it can be written.
    stalled: Option<Instant>,
    /// Time of the last decision.
    decided_at: Instant,
    /// True after [`Output::Ended`], which is the last output.
    ended: bool,
}

#[derive(Clone, Debug, Default)]
struct AssignmentBatch {
    builder: BuilderId,
    message: Assignments,
    last: (EventId, u64),
}

/// Facts about the decisions in the batch that only the journal needs.
#[derive(Clone, Debug, Default)]
struct Unwritten {
    /// Trigger times of the assigned events in the batch.
    triggered: Vec<u64>,
    blames: Blames,
}

impl Outbox {
    /// Creates an empty outbox, before the first decision.
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            queue: VecDeque::new(),
            decisions: Decisions::starting(EventId::FIRST),
            decided: 0,
            batch: 0,
            assignments: plan
                .builders
                .iter()
                .map(|id| AssignmentBatch { builder: *id, ..AssignmentBatch::default() })
                .collect(),
            touched: BuilderSet::default(),
            up: SourceSet::default(),
            excluded: SourceSet::default(),
            roster_version: 0,
            epoch: plan.epoch,
            utc_zero_ns: 0,
            unwritten: plan.journal.then(Unwritten::default),
            stalled: None,
            decided_at: Instant::ZERO,
            ended: false,
        }
    }

    /// Adds an empty batch for a new builder.
    pub(super) fn add_builder(&mut self, builder: BuilderId) {
        self.assignments.push(AssignmentBatch { builder, ..AssignmentBatch::default() });
    }

    /// Sends later decisions to the sources `up`, under that roster version, and tells the
    /// `excluded` ones that these events are not theirs. Earlier decisions are still sent to the
    /// previous sources.
    pub(super) fn address(&mut self, up: SourceSet, excluded: SourceSet, roster_version: u32) {
        self.close_batches();
        (self.up, self.excluded, self.roster_version) = (up, excluded, roster_version);
    }

    /// Returns the sources that receive decisions, and the roster version of the decisions.
    pub(super) fn addressed(&self) -> (SourceSet, u32) {
        (self.up.clone(), self.roster_version)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Sets the UTC of the zero of the supervisor's clock, from which builders compute the UTC of
    /// triggers.
    pub(super) fn set_scale(&mut self, utc_zero_ns: u64) {
        self.utc_zero_ns = utc_zero_ns;
    }

    /// Returns the UTC of the zero of the supervisor's clock; zero if unknown.
    pub(super) fn utc_zero_ns(&self) -> u64 {
        self.utc_zero_ns
    }

    /// Raises the epoch, so that later assignments can be distinguished from all earlier ones.
    pub(super) fn raise_epoch(&mut self, now: Instant) {
        self.epoch = Epoch::new(self.epoch.number() + 1);
        self.journal(What::Epoch(self.epoch.number()), now);
    }

    /// Restores an epoch from the journal.
    pub(super) fn recall_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch.max(self.epoch);
    }

    /// Restores the highest event id with a decision, so that decisions continue after those of
    /// another supervisor.
    pub(super) fn recall(&mut self, decided: u64) {
        self.decided = decided;
        self.decisions.first = decided + 1;
    }

    /// Begins to keep a journal.
    pub(super) fn keep_journal(&mut self) {
        self.unwritten = Some(Unwritten::default());
    }

    /// Stops keeping the journal.
    pub(super) fn abandon_journal(&mut self) {
        self.unwritten = None;
    }

    /// Queues a journal entry, which will be written before any later message is sent; does nothing
    /// if no journal is kept.
    pub(super) fn journal(&mut self, what: What, at: Instant) {
        if self.unwritten.is_some() {
            self.push(Output::Journal(Box::new(Entry { at_ns: at.as_nanos(), what: Some(what) })));
        }
    }

    /// Notes that the journal cannot be written at present.
    pub(super) fn stall(&mut self, now: Instant) {
        if self.unwritten.is_some() {
            self.stalled.get_or_insert(now);
        }
    }

    /// Notes that the journal can be written again; returns the duration of the interruption.
    pub(super) fn go_on(&mut self, now: Instant) -> Option<Duration> {
        self.stalled.take().map(|since| now.since(since))
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Returns the highest event id for which there is a decision.
    pub(super) fn decided(&self) -> u64 {
        self.decided
    }

    /// Decides up to `count` events, as many as fit into the batch; returns their number.
    fn decide(&mut self, count: u64, verdict: Verdict, now: Instant) -> u64 {
        self.decided_at = now;
        let count = count.min(MAX_BATCH - self.batch);
        self.decisions.extend(count as u32, verdict);
        self.decided += count;
        self.batch += count;
        count
    }

    /// Closes the batch if it is full, so that another decision fits.
    pub(super) fn make_room(&mut self) {
        if self.batch >= MAX_BATCH {
            self.close_batches();
        }
    }

    /// Assigns the next event to a builder; returns the event's id.
    pub(super) fn assign(&mut self, builder: BuilderIndex, triggered_ns: u64, now: Instant) -> u64 {
        let batch = &mut self.assignments[builder];
        let verdict = Verdict::Assigned(batch.builder);
        let event = EventId::new(self.decided + 1);
        self.touched.insert(builder);
        batch.message.add(&mut batch.last, event, triggered_ns);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.triggered.push(triggered_ns);
        }
        self.decide(1, verdict, now);
        self.decided
    }

    /// Inhibits up to `count` triggers; returns the number of inhibited triggers.
    pub(super) fn inhibit(&mut self, count: u64, now: Instant) -> u64 {
        self.decide(count, Verdict::Inhibited, now)
    }

    /// Returns the causes of dead time for the next journal entry, so that the caller can add
    /// causes; `None` if no journal is kept.
    pub(super) fn blames(&mut self) -> Option<&mut Blames> {
        self.unwritten.as_mut().map(|unwritten| &mut unwritten.blames)
    }

    /// Closes the batches, unless the journal cannot be written. Decisions made during such an
    /// interruption are collected into as few entries as possible.
    pub(super) fn close_batches_if_written(&mut self) {
        if self.stalled.is_none() {
            self.close_batches();
        }
    }

    /// Closes the batches: queues the decisions for the sources that are up, and the assignments
    /// for their builders.
    pub(super) fn close_batches(&mut self) {
        if self.batch == 0 {
            return;
        }
        if let Some(unwritten) = &mut self.unwritten {
            let what = Decided {
                decisions: Some(self.decisions.clone()),
                roster_version: self.roster_version,
                triggered_ns: differences(unwritten.triggered.drain(..)),
                blames: core::mem::take(&mut unwritten.blames).messages(),
            };
            let entry = Entry { at_ns: self.decided_at.as_nanos(), what: Some(What::Decided(what)) };
            self.queue.push_back(Output::Journal(Box::new(entry)));
        }
        // An assignment must take a builder's slot before a fragment of the event arrives, so
        // assignments are sent before decisions.
        let mut touched = core::mem::take(&mut self.touched);
        for builder in touched.iter() {
            let batch = &mut self.assignments[builder];
            let capacity = batch.message.events.len();
            let fresh = Assignments {
                roster_version: self.roster_version,
                events: Vec::with_capacity(capacity),
                triggered_ns: Vec::with_capacity(capacity),
                ..Assignments::default()
            };
            let mut message = core::mem::replace(&mut batch.message, fresh);
            message.roster_version = self.roster_version;
            message.epoch = self.epoch.number();
            message.utc_zero_ns = self.utc_zero_ns;
            batch.last = (EventId::default(), 0);
            self.queue.push_back(send(Recipients::Builder(batch.builder), Message::Assignments(message)));
        }
        touched.clear();
        self.touched = touched;
        let fresh =
            Decisions { first: self.decided + 1, runs: Vec::with_capacity(self.decisions.runs.len()) };
        let decisions = core::mem::replace(&mut self.decisions, fresh);
        // Excluded sources learn only that these events are decided.
        if !self.excluded.is_empty() {
            let mut passed = Decisions { first: decisions.first, runs: Vec::new() };
            passed.extend(self.batch as u32, Verdict::Excluded);
            self.queue
                .push_back(send(Recipients::Sources(self.excluded.clone()), Message::Decisions(passed)));
        }
        self.batch = 0;
        if !self.up.is_empty() {
            self.queue.push_back(send(Recipients::Sources(self.up.clone()), Message::Decisions(decisions)));
        }
    }

    /// Queues a message that has to follow all decisions so far.
    pub(super) fn send(&mut self, to: Recipients, message: Message) {
        self.close_batches();
        self.push(send(to, message));
    }

    /// Queues a message that depends on no decision, so that it may be sent before them.
    pub(super) fn send_ahead(&mut self, to: Recipients, message: Message) {
        self.close_batches_if_written();
        self.push(send(to, message));
    }

    /// Queues an output after all others; ignores it after [`Output::Ended`].
    pub(super) fn push(&mut self, output: Output) {
        if !self.ended {
            self.ended = matches!(output, Output::Ended(_));
            self.queue.push_back(output);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        let full = |builder: &BuilderIndex| !self.assignments[*builder].message.events.is_empty();
        assert!(
            self.assignments.positions().filter(full).eq(self.touched.iter()),
            "the builders with assignments are known: {:?}",
            self.touched
        );
    }
}

fn send(to: Recipients, message: Message) -> Output {
    Output::Send { to, message: Control { message: Some(message) } }
}
