//! [`Exclusions`]: an operator excludes sources from events, and includes them again.

#[cfg(test)]
mod tests;

use super::{ChangeError, OwingRequest, Phase, SourceLoss, SupervisorCore};
use crate::{
    id::{EventId, Peer, SourceId},
    index::SourceIndex,
    ledger::OwingChange,
    time::Instant,
};

/// Changes that apply from an event on that is not decided yet, in the order of these events.
#[derive(Clone, Debug, Default)]
pub(super) struct PlannedChanges(Vec<OwingChange>);

impl PlannedChanges {
    /// Returns the last event that may be decided before the next change.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.0.first().map_or(u64::MAX, |change| change.from.number() - 1)
    }

    /// Drops the planned changes that a new one replaces: those of its source that apply from its
    /// first event on.
    fn replace(&mut self, new: &OwingChange) {
        self.0.retain(|planned| !new.replaces(planned));
    }

    pub(super) fn plan(&mut self, change: OwingChange) {
        let place = self.0.partition_point(|other| other.from <= change.from);
        self.0.insert(place, change);
    }

    /// Returns true if the source is excluded from that event by a planned change; `None` if no
    /// change of it applies to the event.
    fn excludes(&self, source: SourceId, event: EventId) -> Option<bool> {
        let mut before = self.0.iter().rev().filter(|change| change.from <= event);
        before.find(|change| change.source == source).map(|change| change.excluded)
    }

    /// Returns true if a change of the source is planned for an event behind that one.
    fn has_later(&self, source: SourceId, event: EventId) -> bool {
        self.0.iter().any(|change| change.source == source && change.from > event)
    }

    /// Returns the next change if it applies to event `next`.
    fn take_due(&mut self, next: EventId) -> Option<OwingChange> {
        let is_due = self.0.first().is_some_and(|change| change.from <= next);
        is_due.then(|| self.0.remove(0))
    }
}

/// The supervisor while sources are excluded or included.
#[derive(Debug)]
pub(super) struct Exclusions<'a> {
    pub(super) core: &'a mut SupervisorCore,
}

impl Exclusions<'_> {
    /// Excludes or includes sources, from the next event on or from a later one. An exclusion from
    /// the next event on also ends the waiting of earlier events for the sources.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the run lacks one of the sources, if nothing would change or
    /// nothing would be owed any more, or if the event is decided already.
    pub(super) fn change(&mut self, request: &OwingRequest, now: Instant) -> Result<(), ChangeError> {
        if matches!(self.core.phase, Phase::Reporting { .. } | Phase::Ended) {
            return Err(ChangeError::NotRunning);
        }
        let next = EventId::new(self.core.outbox.decided() + 1);
        let from = request.from.unwrap_or(next);
        if from < next {
            return Err(ChangeError::PastEvent { from, next });
        }
        let changes = self.plan_changes(request, from, now)?;
        for (index, change) in changes {
            let core = &mut *self.core;
            core.planned_changes.replace(&change);
            core.books.note_exclusion(change.clone(), &mut core.outbox, now);
            let (id, named) = (change.source, core.plan.named(Peer::Source(change.source)));
            let why = if change.why.is_empty() { "without a reason" } else { &change.why };
            let then = match request.excludes {
                true => "until an operator includes it again, events are complete without it",
                false => "events wait for its fragments again",
            };
            tracing::info!(source = %id, %from, why, "{named} is {} from event {from} on, as an operator asked ({why}): {then}", change.what());
            if from > next {
                core.planned_changes.plan(change);
            } else {
                self.apply(&change, index, request.from.is_none());
            }
        }
        if self.core.begun.is_some() {
            self.core.verdicts().tell_changes();
        }
        self.core.begin_if_ready(now);
        Ok(())
    }

    /// Returns the changes that carry out a request, if it is possible.
    fn plan_changes(
        &self,
        request: &OwingRequest,
        from: EventId,
        now: Instant,
    ) -> Result<Vec<(SourceIndex, OwingChange)>, ChangeError> {
        let core = &*self.core;
        let make = if request.excludes { OwingChange::exclude } else { OwingChange::include };
        let known = if request.excludes { ChangeError::Excluded } else { ChangeError::NotExcluded };
        let (mut planned, mut changes) = (core.planned_changes.clone(), Vec::new());
        for id in &request.sources {
            let index = core.roster.source_index(*id).ok_or(ChangeError::UnknownSource(*id))?;
            if !self.alters(*id, index, request, from) {
                continue;
            }
            let mut change = make(*id, from, &request.why);
            if core.books.is_started() {
                change.utc = core.begun().utc(now);
            }
            planned.replace(&change);
            planned.plan(change.clone());
            changes.push((index, change));
        }
        match request.sources.first() {
            Some(id) if changes.is_empty() => Err(known(*id)),
            Some(id) if !self.leaves_something_owed(&planned) => Err(ChangeError::LastSource(*id)),
            _ => Ok(changes),
        }
    }

    /// Returns true if the request changes what a source owes from an event on, or which earlier
    /// events wait for it.
    fn alters(&self, id: SourceId, index: SourceIndex, request: &OwingRequest, from: EventId) -> bool {
        let (owing, planned) = (self.core.roster.owing(), &self.core.planned_changes);
        let is_excluded = planned.excludes(id, from).unwrap_or_else(|| owing.is_excluded(index));
        // An exclusion that was planned has released no event.
        let releases = request.excludes && request.from.is_none() && !owing.released().contains(index.get());
        request.excludes != is_excluded || releases || planned.has_later(id, from)
    }

    /// Records the sources that are excluded from the first event on.
    pub(super) fn note_those_of_the_plan(&mut self, now: Instant) {
        for (source, why) in self.core.plan.excluded.clone() {
            let change = OwingChange::exclude(source, EventId::FIRST, &why);
            self.core.books.note_exclusion(change, &mut self.core.outbox, now);
        }
    }

    /// Returns true if each event is owed a fragment when these changes are made.
    fn leaves_something_owed(&self, planned: &PlannedChanges) -> bool {
        let roster = &self.core.roster;
        let owes = |index: SourceIndex, event: EventId| {
            let is_excluded = planned.excludes(roster.source(index).id, event);
            !roster.owing().is_expendable(index)
                && !is_excluded.unwrap_or_else(|| roster.owing().is_excluded(index))
        };
        let firsts = planned.0.iter().map(|change| change.from);
        firsts.into_iter().all(|event| roster.sources().positions().any(|index| owes(index, event)))
    }

    /// Makes the planned changes that apply to the next event.
    pub(super) fn apply_due(&mut self) {
        let next = EventId::new(self.core.outbox.decided() + 1);
        while let Some(change) = self.core.planned_changes.take_due(next) {
            if let Some(index) = self.core.roster.source_index(change.source) {
                self.apply(&change, index, false);
            }
        }
    }

    /// Plans again the recorded changes that apply to events that are not decided, in a supervisor
    /// that continues from its journal, unless they are made already.
    pub(super) fn plan_again(&mut self) {
        let decided = EventId::new(self.core.outbox.decided());
        let changes = self.core.books.findings().exclusions().iter();
        let is_made = |change: &OwingChange| {
            let index = self.core.roster.source_index(change.source);
            let is_excluded = index.is_some_and(|index| self.core.roster.owing().is_excluded(index));
            change.from.number() == decided.number() + 1 && is_excluded == change.excluded
        };
        let later = changes.filter(|change| change.from > decided && !is_made(change));
        let later: Vec<OwingChange> = later.cloned().collect();
        later.into_iter().for_each(|change| self.core.planned_changes.plan(change));
    }

    /// Applies an exclusion or inclusion to the roster. `releases` is true if earlier events shall
    /// not wait for the source either.
    fn apply(&mut self, change: &OwingChange, index: SourceIndex, releases: bool) {
        let core = &mut *self.core;
        if change.excluded {
            // Earlier events would wait for a source that is lost until it is back.
            let is_awaited = core.roster.awaited().contains(index.get());
            core.roster.exclude(index, releases || is_awaited);
        } else {
            let is_away = !core.roster.is_up(index) || core.roster.readouts().is_quiet(index);
            let is_wanted = core.phase.is_under_way() && !core.phase.is_draining();
            let waits = core.plan.on_source_loss == SourceLoss::Wait && is_wanted;
            // A source that is included while it is away holds the run up only if the plan waits
            // for such sources.
            core.roster.include(index, is_away && waits && !core.roster.owing().is_expendable(index));
        }
        // Before all peers have come, there is no roster that could change.
        core.due.roster |= core.roster.version() > 0 || core.roster.is_complete();
    }
}
