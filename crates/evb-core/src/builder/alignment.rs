//! [`EventGuard`]: the alignment guard over the events of a builder, before they go to the sink.

use core::time::Duration;

use crate::{
    alignment::{Alignment, Guard, GuardedClocks, survey_of},
    event::Event,
    id::{EventId, SourceId},
    time::{Instant, earlier},
    wire::control::{AlignmentReport, ClockRelations},
};

/// Most reports per heartbeat interval. Doubts that come in between wait, and are reported
/// together.
const REPORTS: u32 = 5;
/// Longest time between two reports of what the guard has learnt, for builders that join.
const LEARNT: Duration = Duration::from_secs(10);

/// The guard of a builder, and what the supervisor was not told yet.
#[derive(Debug)]
pub(crate) struct EventGuard {
    clocks: GuardedClocks,
    guard: Guard,
    /// Readings of the present event, by clock.
    readings: Vec<Option<u64>>,
    /// Places of their fragments in the event.
    places: Vec<Option<usize>>,
    /// Last event that is not compared, by clock. Those behind it are learnt from: the supervisor
    /// ignores doubts about earlier ones.
    learnt_after: Vec<EventId>,
    /// True if there are doubts or returns to report.
    has_news: bool,
    /// Time from which reports are counted.
    counted_since: Instant,
    /// Number of reports since then.
    reports: u32,
    /// Heartbeat interval of the builder.
    interval: Duration,
    /// Time of the next look at what the guard has learnt.
    next_look: Instant,
    /// Time of the last report of what the guard has learnt.
    told_at: Instant,
    /// Number of clocks that were learnt by then.
    told_clocks: usize,
}

impl EventGuard {
    /// Returns the guard over these clocks, which goes on from what another builder has learnt;
    /// `None` if there are too few clocks to compare.
    pub(crate) fn new(
        clocks: GuardedClocks,
        learnt: Option<&ClockRelations>,
        interval: Duration,
    ) -> Option<Self> {
        if !clocks.can_compare() {
            return None;
        }
        let all = clocks.only_clocks();
        let guard = match clocks.lead {
            Some(lead) => Guard::with_lead(&all, lead),
            None => Guard::new(&all),
        };
        let mut guard = if clocks.host_times { guard } else { guard.without_host_times() };
        // Without relations that can be, the guard learns them itself.
        if let Some(survey) = learnt.and_then(|learnt| survey_of(learnt, &clocks).ok()) {
            guard.resume(&survey);
        }
        Some(Self {
            readings: vec![None; all.len()],
            places: vec![None; all.len()],
            learnt_after: vec![EventId::default(); all.len()],
            clocks,
            guard,
            has_news: false,
            counted_since: Instant::ZERO,
            reports: 0,
            interval,
            next_look: Instant::ZERO,
            told_at: Instant::ZERO,
            told_clocks: 0,
        })
    }

    /// Returns the clocks that are compared.
    pub(crate) fn clocks(&self) -> &GuardedClocks {
        &self.clocks
    }

    /// Compares the timestamps of an event, and notes the result at each fragment. Calls
    /// `disagrees` for each source whose fragment does not belong to the event.
    pub(crate) fn observe(&mut self, event: &mut Event, mut disagrees: impl FnMut(SourceId)) {
        self.read(event);
        let seen = self.guard.observe(event.id, Instant::from_nanos(event.utc.as_nanos()), &self.readings);
        self.has_news |= seen.doubts + seen.returned > 0;
        let compared = self.places.iter().zip(&self.readings);
        for ((clock, source), (place, reading)) in self.clocks.sources().zip(compared) {
            let Some(part) = place.and_then(|place| event.fragments.get_mut(place)) else { continue };
            part.alignment = reading.map_or(Alignment::Unknown, |_| self.guard.alignment(clock));
            if part.alignment == Alignment::Disagrees {
                disagrees(source);
            }
        }
    }

    /// Finds the timestamps of an event. Clocks and fragments are both in the order of sources.
    fn read(&mut self, event: &Event) {
        let mut parts = event.fragments.iter().enumerate();
        let mut next = parts.next();
        let present = self.readings.iter_mut().zip(&mut self.places).zip(&self.learnt_after);
        for ((_, source), ((reading, place), after)) in self.clocks.sources().zip(present) {
            while next.is_some_and(|(_, part)| part.source < source) {
                next = parts.next();
            }
            let found = next.filter(|(_, part)| part.source == source);
            // A clock that is learnt again counts from a later event on.
            *reading = found.filter(|_| event.id > *after).map(|(_, part)| part.timestamp.ticks());
            *place = found.map(|(index, _)| index);
        }
    }

    /// Returns the report that is due, if there is one.
    pub(crate) fn next_report(&mut self, now: Instant) -> Option<AlignmentReport> {
        if self.next_look <= now {
            self.next_look = now + self.interval;
            let survey = self.guard.survey();
            let learnt = survey.proven();
            // The supervisor is told when more clocks are learnt, and again now and then.
            if learnt > self.told_clocks || (learnt > 0 && now.since(self.told_at) >= LEARNT) {
                (self.told_at, self.told_clocks) = (now, learnt);
                let relations = Some(survey.message());
                return Some(AlignmentReport { relations, ..AlignmentReport::default() });
            }
        }
        if !self.has_news || self.next_doubts().is_some_and(|due| due > now) {
            return None;
        }
        // Reports about doubts are counted in each interval, because their number is limited.
        if now.since(self.counted_since) >= self.interval {
            (self.counted_since, self.reports) = (now, 0);
        }
        self.reports += 1;
        Some(self.take_report())
    }

    /// Returns what the supervisor was not told yet, however soon.
    pub(crate) fn last_report(&mut self) -> Option<AlignmentReport> {
        self.has_news.then(|| self.take_report())
    }

    /// Returns what the guard has found since the last call: new doubts, the clocks that are
    /// believed again, and with any doubt the relations of all clocks.
    fn take_report(&mut self) -> AlignmentReport {
        self.has_news = false;
        let mut report = AlignmentReport::default();
        while let Some(doubt) = self.guard.next_doubt() {
            report.doubts.extend(self.clocks.source(doubt.clock).map(|source| doubt.message(source)));
        }
        while let Some(clock) = self.guard.next_returned() {
            report.returned.extend(self.clocks.source(clock).map(|source| u32::from(source.number())));
        }
        if !report.doubts.is_empty() {
            report.relations = Some(self.guard.survey().message());
        }
        report
    }

    /// Returns the time at which the next report may be due.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        earlier(self.next_doubts(), Some(self.next_look))
    }

    /// Returns the time at which the next report of doubts may be sent; `None` if there is none.
    fn next_doubts(&self) -> Option<Instant> {
        let since = self.counted_since;
        self.has_news.then(|| if self.reports < REPORTS { since } else { since + self.interval })
    }

    /// Lets the next reports repeat all doubts that last and what the guard has learnt, because the
    /// supervisor may not know them.
    pub(crate) fn report_again(&mut self) {
        self.has_news |= self.guard.doubt_again();
        (self.told_at, self.told_clocks) = (Instant::ZERO, 0);
    }

    /// Takes the timestamps of a source behind the event `after` as the right ones.
    pub(crate) fn learn(&mut self, source: SourceId, after: EventId) {
        if let Some(clock) = self.clocks.index(source) {
            self.guard.learn(clock);
            self.learnt_after[clock.get()] = after;
            self.told_clocks = self.told_clocks.saturating_sub(1);
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(crate) fn invariants(&self) {
        self.guard.invariants();
        assert_eq!(self.readings.len(), self.clocks.clocks.len(), "one reading for each clock");
    }
}
