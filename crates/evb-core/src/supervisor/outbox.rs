//! [`Outbox`]: what waits to be sent. Decisions and assignments of one turn travel together.

use std::collections::VecDeque;

use super::{
    Output, Recipients,
    journal::{What, differences},
    outstanding::BuilderIndex,
};
use crate::{
    id::{BuilderId, Epoch, EventId},
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Assignments, Control, Decisions, MAX_BATCH, Verdict, control::Message},
        journal::{Blame, Decided, Entry},
    },
};

/// Finished outputs in order, and the batches that are being filled. A batch is closed before anything that must come after
/// it, and when it is as long as a message may be.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: VecDeque<Output>,
    decisions: Decisions,
    decided: u64,
    batch: u64,
    assignments: Vec<Batch>,
    /// Trigger times of the assigned events in `decisions`; only where a journal is kept.
    triggered: Option<Vec<u64>>,
    /// When the last of them was decided.
    decided_at: Instant,
    /// Nothing comes after the end.
    ended: bool,
}

#[derive(Clone, Debug, Default)]
struct Batch {
    builder: BuilderId,
    message: Assignments,
    last: (EventId, u64),
}

impl Outbox {
    pub(super) fn new(builders: &[BuilderId], journal: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            decisions: Decisions::starting(EventId::FIRST),
            decided: 0,
            batch: 0,
            assignments: builders.iter().map(|id| Batch { builder: *id, ..Batch::default() }).collect(),
            triggered: journal.then(Vec::new),
            decided_at: Instant::ZERO,
            ended: false,
        }
    }

    /// One builder more.
    pub(super) fn add_builder(&mut self, builder: BuilderId) {
        self.assignments.push(Batch { builder, ..Batch::default() });
    }

    pub(super) fn abandon_journal(&mut self) {
        self.triggered = None;
    }

    /// Goes on behind what another supervisor decided.
    pub(super) fn recall(&mut self, decided: u64) {
        self.decided = decided;
        self.decisions.first = decided + 1;
    }

    /// The highest event id with a decision.
    pub(super) fn decided(&self) -> u64 {
        self.decided
    }

    /// Decides the next events, at most as many as fit the batch; says how many.
    pub(super) fn decide(&mut self, count: u64, verdict: Verdict, now: Instant) -> u64 {
        self.decided_at = now;
        let count = count.min(MAX_BATCH - self.batch);
        self.decisions.extend(count as u32, verdict);
        self.decided += count;
        self.batch += count;
        count
    }

    /// Whether the batch must be closed before another decision.
    pub(super) fn is_full(&self) -> bool {
        self.batch >= MAX_BATCH
    }

    /// Assigns the next event.
    pub(super) fn assign(&mut self, index: BuilderIndex, triggered_ns: u64, now: Instant) {
        let batch = &mut self.assignments[usize::from(index)];
        let builder = batch.builder;
        let event = EventId::new(self.decided + 1);
        batch.message.add(&mut batch.last, event, triggered_ns);
        if let Some(triggered) = &mut self.triggered {
            triggered.push(triggered_ns);
        }
        self.decide(1, Verdict::Assigned(builder), now);
    }

    /// Closes the batches: decisions to the sources that are up, assignments to their builders.
    pub(super) fn close_batches(
        &mut self,
        up: SourceSet,
        roster_version: u32,
        epoch: Epoch,
        blames: impl FnOnce() -> Vec<Blame>,
    ) {
        if self.batch == 0 {
            return;
        }
        if let Some(triggered) = &mut self.triggered {
            let what = Decided {
                decisions: Some(self.decisions.clone()),
                roster_version,
                triggered_ns: differences(triggered.drain(..)),
                blames: blames(),
            };
            let entry = Entry { at_ns: self.decided_at.as_nanos(), what: Some(What::Decided(what)) };
            self.queue.push_back(Output::Journal(Box::new(entry)));
        }
        // A builder's slot is taken by an assignment before a fragment can come, so assignments leave first.
        for batch in self.assignments.iter_mut().filter(|batch| !batch.message.events.is_empty()) {
            let capacity = batch.message.events.len();
            let fresh = Assignments {
                roster_version,
                events: Vec::with_capacity(capacity),
                triggered_ns: Vec::with_capacity(capacity),
                ..Assignments::default()
            };
            let mut message = core::mem::replace(&mut batch.message, fresh);
            message.roster_version = roster_version;
            message.epoch = epoch.number();
            batch.last = (EventId::default(), 0);
            self.queue.push_back(send(Recipients::Builder(batch.builder), Message::Assignments(message)));
        }
        let fresh =
            Decisions { first: self.decided + 1, runs: Vec::with_capacity(self.decisions.runs.len()) };
        let decisions = core::mem::replace(&mut self.decisions, fresh);
        self.batch = 0;
        if !up.is_empty() {
            self.queue.push_back(send(Recipients::Sources(up), Message::Decisions(decisions)));
        }
    }

    /// Queues a message behind everything so far.
    pub(super) fn send(&mut self, to: Recipients, message: Message) {
        debug_assert_eq!(self.batch, 0, "batches are closed before other messages");
        self.push(send(to, message));
    }

    /// Queues a message behind all other messages, before the decisions of batches that are open.
    pub(super) fn send_ahead(&mut self, to: Recipients, message: Message) {
        self.push(send(to, message));
    }

    /// Queues an output behind everything so far; nothing comes after [`Output::Ended`].
    pub(super) fn push(&mut self, output: Output) {
        if !self.ended {
            self.ended = matches!(output, Output::Ended(_));
            self.queue.push_back(output);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }
}

fn send(to: Recipients, message: Message) -> Output {
    Output::Send { to, message: Control { message: Some(message) } }
}
