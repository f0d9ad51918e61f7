//! [`ReadoutWatch`]: judges from fragments, assignments and connections whether readout still
//! delivers.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use crate::{
    id::EventId,
    time::{Instant, earlier},
    wire::control::{ReadoutState, ReadoutStatus},
};

/// Shortest time after which a readout that delivers nothing counts as silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// The patience is measured in this number of steps. A step that takes longer counts as two, so
/// that a process which stands still does not take its own standstill for the readout's silence.
const STEPS: u32 = 16;

/// A readout that is silent or gone this often in [`UNSTEADY`] is unsteady: it stays silent for at
/// least [`REST`], so that its source does not come and go with every event.
const SILENCES: usize = 3;
const UNSTEADY: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(30);

/// Time after which a readout without a connection is gone. A front end that connects again within
/// this time has never left.
const ABSENCE: Duration = Duration::from_millis(200);

/// Status that the supervisor assumes until it is told another.
const ASSUMED: ReadoutStatus =
    ReadoutStatus { state: ReadoutState::Present, expected: 0, connected: 0, holds_first: false };

/// Watches the readout of a source: its connections, and whether it delivers the fragments of
/// assigned events.
///
/// Readout is *silent* when an event lacks its fragment for longer than the deadline, at least a
/// second, and it has delivered nothing since the event was assigned. A fragment of an event that
/// is undecided or was assigned within that time ends the silence; older fragments, such as those
/// of a backlog that readout gets rid of, do not.
#[derive(Debug)]
pub(super) struct ReadoutWatch {
    patience: Duration,
    /// Number of front ends that should be connected, and number that are; 0 of 0 if the readout is
    /// not connected by sockets, or may come and go.
    expected: u32,
    connected: u32,
    /// Time at which the last front end closed its connection; `None` while one is connected.
    closed: Option<Instant>,
    /// True if readout had no connection for some time, and no fragment has come since.
    is_gone: bool,
    /// Time of the last fragment.
    delivered: Option<Instant>,
    /// Time for which an event lacks its fragment, as far as it counts, and the end of the time
    /// that is counted; `None` if readout has delivered since the last assignment.
    lacking: Option<(Duration, Instant)>,
    /// The first event that was assigned since the last [`Self::settle`], and whether any of these
    /// lacks its fragment.
    assigned: Option<(EventId, bool)>,
    /// Events that were assigned within the patience: the first after each of these times.
    recent: VecDeque<(Instant, EventId)>,
    is_silent: bool,
    /// True until the run begins, or an event is assigned.
    is_early: bool,
    /// Latest times at which readout fell silent, or was gone.
    silences: VecDeque<Instant>,
    /// End of the time for which an unsteady readout stays silent.
    rest: Option<Instant>,
    /// Status that the supervisor knows.
    told: ReadoutStatus,
}

impl ReadoutWatch {
    /// Returns the watch of a readout that has delivered nothing. `deadline` is the time after
    /// which events are closed without a fragment.
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            patience: deadline.max(PATIENCE),
            expected: 0,
            connected: 0,
            closed: None,
            is_gone: false,
            delivered: None,
            lacking: None,
            assigned: None,
            recent: VecDeque::new(),
            is_silent: false,
            is_early: true,
            silences: VecDeque::new(),
            rest: None,
            told: ASSUMED,
        }
    }

    /// Notes the number of front ends that should be connected, and the number that are.
    pub(super) fn handle_front_ends(&mut self, expected: u32, connected: u32, now: Instant) {
        if connected > 0 || expected == 0 {
            self.closed = None;
        } else if self.connected > 0 {
            self.closed = Some(now);
        }
        (self.expected, self.connected) = (expected, connected);
    }

    /// Notes that the run begins: what was before does not count.
    pub(super) fn begin(&mut self) {
        (self.is_gone, self.is_silent, self.assigned, self.delivered) = (false, false, None, None);
        self.closed = None;
        (self.lacking, self.rest, self.is_early) = (None, None, false);
        self.recent.clear();
        self.silences.clear();
    }

    /// Notes that an event was assigned, and whether it lacks its fragment.
    pub(super) fn handle_assigned(&mut self, event: EventId, lacks: bool) {
        self.is_early = false;
        let (_, any_lacks) = self.assigned.get_or_insert((event, false));
        *any_lacks |= lacks;
    }

    /// Handles the assignments of a turn: notes from time to time which event was assigned when,
    /// and since when events lack their fragments.
    pub(super) fn settle(&mut self, now: Instant) {
        let Some((event, lacks)) = self.assigned.take() else { return };
        let step = self.patience / STEPS;
        if self.recent.back().is_none_or(|(at, _)| now.since(*at) >= step) {
            self.recent.push_back((now, event));
            let is_over = |at: Instant| now.since(at) >= self.patience;
            // Of the entries that are too old, only the newest one is kept.
            while self.recent.get(1).is_some_and(|(at, _)| is_over(*at)) {
                self.recent.pop_front();
            }
        }
        if lacks && self.lacking.is_none() {
            self.lacking = Some((Duration::ZERO, now));
        }
    }

    /// Notes that readout has delivered a fragment.
    pub(super) fn handle_delivered(&mut self, event: EventId, now: Instant) {
        (self.lacking, self.delivered) = (None, Some(now));
        // Its connection may have come and gone since the last look at the connections.
        self.closed = self.closed.map(|_| now);
        if let Some((_, lacks)) = &mut self.assigned {
            *lacks = false;
        }
        if !self.is_silent && !self.is_gone {
            return;
        }
        // True for a time within the patience.
        let is_within = |at: &Instant| now.since(*at) < self.patience;
        // Only the fragment of a recent event shows that readout is back.
        let is_recent = match self.recent.iter().find(|(at, _)| is_within(at)) {
            Some((_, first)) => event >= *first,
            // Nothing was assigned for a while: only later events may still be assigned.
            None => self.recent.back().is_none_or(|(_, last)| event > *last),
        };
        if is_recent && self.rest.is_none_or(|end| now >= end) {
            (self.is_silent, self.is_gone, self.rest) = (false, false, None);
        }
    }

    /// Counts the time for which events lack their fragments. `is_held_up` is true if readout
    /// cannot deliver, because evb takes nothing.
    pub(super) fn handle_timeout(&mut self, is_held_up: bool, now: Instant) {
        if self.closed.is_some_and(|closed| now >= closed + ABSENCE) {
            self.closed = None;
            self.handle_loss(now);
            self.is_gone = true;
        }
        let step = self.patience / STEPS;
        let Some((lacking, counted)) = &mut self.lacking else { return };
        if self.is_silent || now < *counted + step {
            return;
        }
        if !is_held_up {
            *lacking += now.since(*counted).min(step * 2);
        }
        *counted = now;
        if *lacking >= self.patience {
            self.handle_loss(now);
            self.is_silent = true;
        }
    }

    /// Counts that readout is silent or gone from now on, if it was neither before.
    fn handle_loss(&mut self, now: Instant) {
        if self.is_silent || self.is_gone {
            return;
        }
        self.silences.push_back(now);
        while self.silences.front().is_some_and(|at| now.since(*at) >= UNSTEADY) {
            self.silences.pop_front();
        }
        // A readout that comes and goes counts as present only after a rest.
        if self.silences.len() >= SILENCES {
            self.rest = Some(now + REST);
            self.silences.pop_front();
        }
    }

    /// Returns the time at which to call [`Self::handle_timeout`] without further input.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let lacking = self.lacking.filter(|_| !self.is_silent);
        let step = lacking.map(|(_, counted)| counted + self.patience / STEPS);
        earlier(step, self.closed.map(|closed| closed + ABSENCE))
    }

    /// Returns the time of the last fragment of the run.
    pub(super) fn delivered(&self) -> Option<Instant> {
        self.delivered
    }

    /// Notes that the supervisor knows nothing, because the source has registered.
    pub(super) fn forget_told(&mut self) {
        self.told = ASSUMED;
    }

    /// Returns the status if the supervisor has to be told. `holds` is true if the source still
    /// holds fragments whose events are undecided.
    pub(super) fn take_news(&mut self, holds: bool) -> Option<ReadoutStatus> {
        let status = self.status(holds);
        (self.told != status).then(|| {
            self.told = status;
            status
        })
    }

    /// Returns what the supervisor is told about readout; `holds` is true if this source has
    /// fragments that are not sent.
    fn status(&self, holds: bool) -> ReadoutStatus {
        let state = match () {
            () if self.is_gone && self.connected == 0 && !holds => ReadoutState::Gone,
            () if self.is_silent || (self.is_gone && !holds) => ReadoutState::Silent,
            () => ReadoutState::Present,
        };
        let holds_first = self.is_early && self.expected > 0 && holds;
        ReadoutStatus { state, expected: self.expected, connected: self.connected, holds_first }
    }
}
