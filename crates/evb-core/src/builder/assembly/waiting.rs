//! The waiting of an event for fragments: when it ends for a source, and for which cause.

use super::{Assembly, AssemblyState, Assigned};
use crate::{event::Cause, set::SourceSet, time::Instant};

impl Assembly {
    /// Sets which sources the event does not want, and without which it is complete; before its
    /// assignment.
    pub(in crate::builder) fn set_owing(
        &mut self,
        excluded: &SourceSet,
        expendable: &SourceSet,
        sporadic: &SourceSet,
    ) {
        if !excluded.is_empty() {
            self.wanted = self.wanted.without(excluded);
            self.lacking = self.wanted.without(&self.arrived).len();
            self.spares_some = true;
        }
        if !expendable.is_empty() || !sporadic.is_empty() {
            self.sporadic = self.wanted.intersection(sporadic);
            self.expendable = self.wanted.intersection(expendable).union(&self.sporadic);
            self.spares_some = true;
        }
    }

    /// Records the assignment. The event does not wait for sources that are not in `expected`, the
    /// sources that were up or awaited when the event was assigned, or not in `reachable`.
    /// Returns false if the event was assigned before.
    pub(in crate::builder) fn assign(
        &mut self,
        assigned: Assigned,
        expected: &SourceSet,
        reachable: &SourceSet,
    ) -> bool {
        if let Some(known) = &mut self.assigned {
            // A supervisor that continued from its journal may have repeated the assignment.
            known.epoch = known.epoch.max(assigned.epoch);
            return false;
        }
        for expected in [expected, reachable] {
            if !expected.is_superset(&self.wanted) {
                self.give_up(&self.wanted.without(expected), Cause::Down);
            }
        }
        self.assigned = Some(assigned);
        true
    }

    /// Returns true if the event waits for sporadic sources alone, and did not before.
    #[inline]
    pub(in crate::builder) fn begins_to_linger(&mut self) -> bool {
        self.spares_some && self.waits_for_sporadic_sources()
    }

    /// Returns true once for an event that waits for sporadic sources only, and marks the event as
    /// lingering. The event closes soon after, because such sources may have nothing to send.
    #[cold]
    fn waits_for_sporadic_sources(&mut self) -> bool {
        let waits = !self.sporadic.is_empty()
            && !self.is_lingering
            && self.is_waiting()
            && self.sporadic.is_superset(&self.awaits());
        self.is_lingering |= waits;
        waits
    }

    /// Stops waiting for sporadic sources.
    pub(in crate::builder) fn end_lingering(&mut self) {
        self.give_up(&self.sporadic.clone(), Cause::Expendable);
    }

    /// Sets a new deadline.
    pub(in crate::builder) fn put_off(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.overdue = false;
    }

    /// Returns true if the event waits for fragments and its deadline is `deadline`.
    pub(in crate::builder) fn is_due_at(&self, deadline: Instant) -> bool {
        self.is_waiting() && self.deadline == deadline
    }

    /// Returns true if the event is assigned and fragments still arrive.
    pub(in crate::builder) fn is_waiting(&self) -> bool {
        self.state == AssemblyState::Open && self.assigned.is_some()
    }

    /// Handles the end of the deadline. Gives up sources that announced nothing, or returns false
    /// if the event has to wait because one of the `awaited` sources is missing. `refused` are the
    /// sources whose announcement the builder could not take.
    pub(in crate::builder) fn expire(&mut self, awaited: &SourceSet, refused: &SourceSet) -> bool {
        if !self.expendable.is_empty() {
            self.give_up(&self.expendable.clone(), Cause::Expendable);
        }
        self.overdue = self.awaits_any(awaited);
        if !self.overdue {
            let silent = self.wanted.without(&self.announced);
            self.give_up(&silent.intersection(refused), Cause::Refused);
            self.give_up(&silent, Cause::Silent);
        }
        !self.overdue
    }

    /// Returns true if the deadline passed while the event waits for an awaited source.
    pub(in crate::builder) fn is_overdue(&self) -> bool {
        self.state == AssemblyState::Open && self.overdue
    }

    /// Returns true if the event waits for a fragment of any of `sources`.
    pub(in crate::builder) fn awaits_any(&self, sources: &SourceSet) -> bool {
        !self.awaits().is_disjoint(sources)
    }

    /// Stops waiting for the fragments of `sources`. Fragments that have arrived stay. A source
    /// that was given up before keeps its cause.
    pub(in crate::builder) fn give_up(&mut self, sources: &SourceSet, cause: Cause) {
        for source in sources.iter_without(&self.arrived) {
            let (is_new, known) = (self.given_up.insert(source), &mut self.parts[source].cause);
            // The announcement of an earlier incarnation says more than the silence of a later one.
            if is_new && !(cause == Cause::Silent && *known != Cause::Unknown) {
                *known = cause;
            }
        }
    }

    /// Gives up a fragment that the source announced and did not deliver. Returns false if there is
    /// no such fragment.
    pub(in crate::builder) fn give_up_unfinished(&mut self, source: usize, cause: Cause) -> bool {
        let is_unfinished = self.state == AssemblyState::Open
            && self.announced.contains(source)
            && !self.arrived.contains(source);
        if is_unfinished {
            self.given_up.insert(source);
            self.parts[source].cause = cause;
        }
        is_unfinished
    }

    /// Returns true if the event waits for no further fragment.
    #[inline]
    pub(in crate::builder) fn is_over(&self) -> bool {
        self.is_waiting() && (self.lacking == 0 || self.wanted.is_covered_by(&self.arrived, &self.given_up))
    }

    /// Returns the sources that owe the event a fragment that has not arrived.
    pub(in crate::builder) fn missing(&self) -> SourceSet {
        self.wanted.without(&self.expendable).without(&self.arrived)
    }

    /// Returns the sources whose fragments an assigned event still waits for.
    pub(in crate::builder) fn awaits(&self) -> SourceSet {
        match self.assigned {
            Some(_) => self.wanted.without(&self.arrived).without(&self.given_up),
            None => SourceSet::default(),
        }
    }
}
