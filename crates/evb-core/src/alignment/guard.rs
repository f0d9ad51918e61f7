//! [`Guard`]: compares the timestamps of each event in a builder.

mod vote;

use super::{
    clock::{DetectorClock, choose_lead},
    scale::{SECOND, Scale},
    survey::{Doubt, Known, Present, Survey, between},
    track::{Change, Sight, Standing, Track},
};
use crate::{event::Alignment, id::EventId, index::ClockIndex, time::Instant};

/// Largest error of a trigger's time on the host. A lead that leaps farther is itself in doubt.
const LEAP: u64 = SECOND as u64;
/// Events in a row without the lead after which another clock becomes the lead.
const ABSENT: u8 = 3;

/// Result of the comparison of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Number of fragments that disagree.
    pub disagree: u32,
    /// Number of clocks with a new doubt, which [`Guard::next_doubt`] returns.
    pub doubts: u32,
    /// Number of suspect clocks that are believed again.
    pub returned: u32,
    /// True if as many clocks were for the lead as against it.
    pub tie: bool,
    /// True if all fragments agree, and nothing was in doubt lately.
    pub calm: bool,
}

/// A clock and all that belongs to it.
#[derive(Clone, Debug)]
struct Watched {
    scale: Scale,
    track: Track,
    /// Residual and limit of the present event.
    residual: f64,
    limit: f64,
    /// State of the fragment in the last event that was not calm.
    alignment: Alignment,
    /// Change that the supervisor was not told yet.
    change: Change,
    /// True if the doubts of late were ties.
    tie: bool,
}

/// The guard of one builder. It sees the events of this builder only, nearly in order, before they
/// go to the sink.
///
/// ```
/// use core::time::Duration;
/// use evb_core::{
///     alignment::{ClockWrap, DetectorClock, Guard},
///     id::EventId,
///     time::Instant,
///     units::Frequency,
/// };
///
/// // Two boards with clocks of 100 MHz, and triggers about a millisecond apart.
/// let clock = DetectorClock::new(Frequency::from_hertz(1e8).unwrap(), ClockWrap::Bits(48));
/// let mut guard = Guard::new(&[clock; 2]);
/// let ticks = |event: u64| event * 100_000 + event % 7 * 9_000;
/// for event in 1..=1000 {
///     // From event 500 on, the second board is one trigger behind.
///     let late = ticks(if event < 500 { event } else { event - 1 });
///     let host = Instant::ZERO + Duration::from_millis(event);
///     let seen = guard.observe(EventId::new(event), host, &[Some(ticks(event)), Some(late)]);
///     assert_eq!(seen.disagree > 0, event >= 500);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    watched: Vec<Watched>,
    /// Position of the clock that counts time.
    lead: usize,
    /// The lead for which the clocks are declared.
    declared_lead: usize,
    now: Present,
    /// True once the lead has set the zero of time.
    has_begun: bool,
    /// Largest difference between a trigger's time on the host and the lead's time.
    leap: u64,
    /// Events in a row without the lead.
    absent: u8,
    /// True if all fragments of the last event agree.
    is_calm: bool,
}

impl Guard {
    /// Creates a guard for clocks that passed [`DetectorClock::check`].
    pub fn new(clocks: &[DetectorClock]) -> Self {
        let lead = choose_lead(clocks).unwrap_or_default();
        Self::with_lead(clocks, ClockIndex::new(lead))
    }

    /// Creates a guard in which the given clock counts time.
    pub fn with_lead(clocks: &[DetectorClock], lead: ClockIndex) -> Self {
        let accuracy = clocks.get(lead.get()).map_or(0.0, |clock| clock.accuracy);
        let watched = |clock| Watched {
            scale: Scale::new(clock, accuracy),
            track: Track::default(),
            residual: 0.0,
            limit: 0.0,
            alignment: Alignment::Unchecked,
            change: Change::None,
            tie: false,
        };
        Self {
            watched: clocks.iter().map(watched).collect(),
            lead: lead.get(),
            declared_lead: lead.get(),
            now: Present { lead: 0, host: Instant::ZERO },
            has_begun: false,
            leap: LEAP,
            absent: 0,
            is_calm: false,
        }
    }

    /// Lets the lead alone count time, because triggers and data are not of the same time, as with
    /// replayed data. The lead must not wrap within the run.
    #[must_use]
    pub fn without_host_times(self) -> Self {
        Self { leap: u64::MAX, ..self }
    }

    /// Takes over what another builder has learnt of the same clocks, before the first event.
    pub fn resume(&mut self, survey: &Survey) {
        for ((watched, scale), known) in self.watched.iter_mut().zip(&survey.scales).zip(&survey.relations) {
            watched.scale = *scale;
            if known.is_proven {
                // These rates may have been learnt beside a lead that was less accurate.
                watched.scale.rates = scale.rates.max(known.relation.fastest());
                watched.track.adopt(&watched.scale, known.relation);
            }
        }
        self.now = survey.now;
        self.set_lead(survey.lead);
        self.has_begun = self.watched.iter().any(|watched| watched.track.is_locked());
    }

    /// Compares the readings of an event, one for each clock (`None`: the fragment is missing). The
    /// time `host` of the trigger on the host only tells the wraps of the lead apart.
    #[inline]
    pub fn observe(&mut self, event: EventId, host: Instant, readings: &[Option<u64>]) -> Observation {
        let lead_reading = readings.get(self.lead).copied().flatten();
        let (Some(lead_ticks), true) = (lead_reading, self.lead_is_locked()) else {
            return self.without_lead(event, host, readings);
        };
        self.absent = 0;
        let near = self.near(host);
        let lead = &self.watched[self.lead];
        let (at, rounded) = lead.track.relation.time(&lead.scale, lead_ticks, near);
        // A calm event needs no vote: the lead did not leap, and all readings agree.
        let mut is_calm = at.wrapping_sub(near).unsigned_abs() <= self.leap && lead.track.is_calm();
        for (position, (watched, reading)) in self.watched.iter_mut().zip(readings).enumerate() {
            if let (Some(ticks), true) = (*reading, position != self.lead) {
                is_calm &= watched.compare(ticks, at, 0.0);
            }
        }
        let lead = &mut self.watched[self.lead];
        if !is_calm {
            lead.compare(lead_ticks, at, 0.0);
            return self.settle(event, host, readings, Ruled { at, by: self.lead, follow: true });
        }
        // The lead defines the time of the event, and the relations of the other clocks follow.
        lead.track.lead(lead_ticks, at, rounded);
        for (position, (watched, reading)) in self.watched.iter_mut().zip(readings).enumerate() {
            if let (Some(ticks), true) = (*reading, position != self.lead) {
                watched.track.follow(&watched.scale, ticks, at, watched.residual);
            }
        }
        self.now = Present { lead: at, host };
        self.is_calm = true;
        Observation { calm: true, ..Observation::default() }
    }

    fn lead_is_locked(&self) -> bool {
        self.has_begun && self.watched.get(self.lead).is_some_and(|lead| lead.track.is_locked())
    }

    /// Returns the time by the lead that the host's time suggests.
    #[inline]
    fn near(&self, host: Instant) -> i64 {
        let Present { lead, host: last } = self.now;
        if self.leap == u64::MAX { lead } else { lead.wrapping_add(between(last, host)) }
    }

    /// Begins, or lets another clock stand in for the lead. Time then has the uncertainty of that
    /// clock, and the relations follow only if that clock becomes the lead.
    #[cold]
    fn without_lead(&mut self, event: EventId, host: Instant, readings: &[Option<u64>]) -> Observation {
        if !self.has_begun {
            self.begin(host, readings);
            return self.unknown(readings);
        }
        let Some(other) = self.stand_in(readings) else {
            // No clock is left to compare with: the next event begins again.
            self.has_begun = self.watched.iter().any(|watched| watched.track.is_locked());
            return self.unknown(readings);
        };
        self.absent = self.absent.saturating_add(1);
        let (clock, ticks) = (&self.watched[other], readings[other].unwrap_or_default());
        let relation = clock.track.relation;
        let (at, _) = relation.time(&clock.scale, ticks, self.near(host));
        let extra = relation.limit(&clock.scale, at);
        let follow = self.absent >= ABSENT || self.watched[self.lead].track.standing == Standing::Suspect;
        if follow {
            self.hand_over(other);
        }
        // After that, the relations themselves have this uncertainty.
        let extra = if follow { 0.0 } else { extra };
        for (watched, reading) in self.watched.iter_mut().zip(readings) {
            let Some(ticks) = *reading else { continue };
            watched.compare(ticks, at, extra);
        }
        self.settle(event, host, readings, Ruled { at, by: other, follow })
    }

    /// Makes another clock the lead. What is known of all clocks is known beside the old lead.
    fn hand_over(&mut self, other: usize) {
        self.watched[self.lead].track.cease_to_lead();
        self.set_lead(other);
        let (lead, lead_scale) = (self.watched[other].track.relation, self.watched[other].scale);
        for (position, watched) in self.watched.iter_mut().enumerate() {
            if position != other {
                watched.track.change_lead(&mut watched.scale, &lead, &lead_scale);
            }
        }
    }

    /// Makes a clock the lead. All relations become less certain by what the change of the lead
    /// costs.
    fn set_lead(&mut self, lead: usize) {
        (self.lead, self.absent) = (lead, 0);
        let is_declared = lead == self.declared_lead;
        let Some(scale) = self.watched.get(lead).map(|watched| watched.scale) else { return };
        for Watched { scale: own, track, .. } in &mut self.watched {
            track.blur(own.change_lead(&scale, is_declared));
        }
    }

    /// Returns the clock that stands in for the lead: the first one that is locked and whose wraps
    /// the host can tell apart, or else the first one that is locked.
    fn stand_in(&self, readings: &[Option<u64>]) -> Option<usize> {
        let all = self.watched.iter().zip(readings).enumerate();
        let mut locked = all.filter(|(_, (watched, reading))| watched.track.is_locked() && reading.is_some());
        let first = locked.next()?;
        let wide = core::iter::once(first).chain(locked).find(|(_, (watched, _))| watched.scale.is_wide());
        Some(wide.unwrap_or(first).0)
    }

    /// Sets the zero of time at this event, and anchors all clocks there. An event without the lead
    /// is skipped, until the lead was absent often enough that the clock with the longest wrap
    /// takes its place.
    fn begin(&mut self, host: Instant, readings: &[Option<u64>]) {
        if readings.get(self.lead).copied().flatten().is_none() {
            self.absent = self.absent.saturating_add(1);
            let present =
                (0..self.watched.len()).filter(|clock| matches!(readings.get(*clock), Some(Some(_))));
            let widest = present.max_by(|one, other| {
                let quarter = |clock: &usize| self.watched[*clock].scale.quarter;
                quarter(one).total_cmp(&quarter(other))
            });
            // The lead may only be late, so another clock takes its place after some events without
            // it.
            let Some(other) = widest.filter(|_| self.absent >= ABSENT) else { return };
            self.set_lead(other);
        }
        for (watched, reading) in self.watched.iter_mut().zip(readings) {
            if let Some(ticks) = *reading {
                watched.track.anchor(&watched.scale, ticks, 0);
            }
        }
        self.watched[self.lead].track.lock();
        (self.has_begun, self.absent, self.now) = (true, 0, Present { lead: 0, host });
    }

    /// Marks all fragments of an event that could not be compared.
    fn unknown(&mut self, readings: &[Option<u64>]) -> Observation {
        self.is_calm = false;
        for (position, watched) in self.watched.iter_mut().enumerate() {
            let is_there = matches!(readings.get(position), Some(Some(_)));
            watched.alignment = if is_there { Alignment::Unknown } else { Alignment::Unchecked };
        }
        Observation::default()
    }

    /// Lets the clocks vote about an event that is not calm, and judges each reading.
    #[cold]
    fn settle(
        &mut self,
        event: EventId,
        host: Instant,
        readings: &[Option<u64>],
        ruled: Ruled,
    ) -> Observation {
        let vote = self.vote(host, readings, &ruled);
        let at = vote.at.unwrap_or(ruled.at);
        // If the ruling clock is outvoted, no relation follows this event.
        let follow = ruled.follow && vote.at.is_none();
        let mut seen = Observation { tie: vote.is_tie, ..Observation::default() };
        // With more clocks, the next events will tell which of both sides is wrong.
        let undecided = vote.is_tie && self.watched.len() > 2;
        for (position, watched) in self.watched.iter_mut().enumerate() {
            let Some(Some(ticks)) = readings.get(position).copied() else {
                watched.alignment = Alignment::Unchecked;
                continue;
            };
            if vote.at.is_some() {
                // Now another clock rules, and all are compared with it and its own limit.
                watched.compare(ticks, at, vote.room);
            }
            let Watched { scale, track, residual, limit, .. } = watched;
            let (leads, event) = (position == ruled.by, event.number());
            let sight =
                Sight { event, ticks, at, residual: *residual, limit: *limit, follow, leads, undecided };
            let (alignment, change) = track.step(scale, &sight);
            watched.alignment = alignment;
            if change == Change::Doubted {
                watched.tie = vote.is_tie;
            }
            watched.tie &= vote.is_tie || alignment != Alignment::Disagrees;
            if change != Change::None {
                watched.change = change;
            }
            seen.disagree += u32::from(alignment == Alignment::Disagrees);
            seen.doubts += u32::from(matches!(change, Change::Doubted | Change::Suspected));
            seen.returned += u32::from(change == Change::Returned);
        }
        if vote.is_tie
            && let Some(lead) = self.watched.get_mut(ruled.by)
        {
            seen.disagree += u32::from(lead.alignment != Alignment::Disagrees);
            lead.alignment = Alignment::Disagrees;
        }
        self.now = Present { lead: at, host };
        self.is_calm = false;
        seen
    }

    /// Returns the agreement of a clock's fragment in the event that was observed last. The
    /// fragment must not be missing.
    pub fn alignment(&self, clock: ClockIndex) -> Alignment {
        match self.watched.get(clock.get()) {
            Some(_) if self.is_calm => Alignment::Agrees,
            Some(watched) => watched.alignment,
            None => Alignment::Unchecked,
        }
    }

    /// Returns true if a clock is suspect: its last fragments belong to other events, as far as the
    /// guard can see.
    pub fn is_suspect(&self, clock: ClockIndex) -> bool {
        self.watched.get(clock.get()).is_some_and(|watched| watched.track.standing == Standing::Suspect)
    }

    /// Returns a doubt that the supervisor was not told yet.
    pub fn next_doubt(&mut self) -> Option<Doubt> {
        let is_doubt = |watched: &&mut Watched| matches!(watched.change, Change::Doubted | Change::Suspected);
        let (position, watched) =
            self.watched.iter_mut().enumerate().find(|(_, watched)| is_doubt(watched))?;
        let suspect = watched.change == Change::Suspected;
        watched.change = Change::None;
        let (first, tie) = (EventId::new(watched.track.first_bad), watched.tie);
        // Of two clocks, nothing says which one is right, also after one has lost its vote.
        let tie = tie || self.watched.len() == 2;
        Some(Doubt { clock: ClockIndex::new(position), first, suspect, tie })
    }

    /// Lets all doubts that last be returned again, because the supervisor may not know them.
    pub fn doubt_again(&mut self) -> bool {
        let mut any = false;
        for watched in &mut self.watched {
            if let Some(change) = watched.track.doubt() {
                watched.change = change;
                any = true;
            }
        }
        any
    }

    /// Returns a clock that was suspect and agrees again, of which the supervisor was not told yet.
    pub fn next_returned(&mut self) -> Option<ClockIndex> {
        let position = self.watched.iter().position(|watched| watched.change == Change::Returned)?;
        self.watched[position].change = Change::None;
        Some(ClockIndex::new(position))
    }

    /// Returns the relations of all clocks; for a suspect clock, the one on which it was right.
    pub fn survey(&self) -> Survey {
        let known = |watched: &Watched| Known {
            relation: watched.track.proven(self.now.lead),
            is_proven: watched.track.was_locked,
            is_suspect: watched.track.standing == Standing::Suspect,
        };
        Survey {
            scales: self.watched.iter().map(|watched| watched.scale).collect(),
            relations: self.watched.iter().map(known).collect(),
            lead: self.lead,
            now: self.now,
        }
    }

    /// Takes the present time of a clock as the right one: after a verdict that the clock was
    /// reset, or by an operator's command.
    pub fn learn(&mut self, clock: ClockIndex) {
        if let Some(watched) = self.watched.get_mut(clock.get()) {
            (watched.track, watched.change) = (Track::default(), Change::None);
        }
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        for watched in &self.watched {
            watched.track.invariants();
            assert!(watched.residual.is_finite() && watched.limit >= 0.0 && watched.limit.is_finite());
        }
    }

    /// Returns the memory that a guard needs for each clock once it has begun.
    pub const fn bytes_per_clock() -> usize {
        size_of::<Watched>()
    }

    /// Returns the largest residual of the last event as a part of its limit, for studies.
    pub fn largest_deviation(&self) -> f64 {
        let part = |watched: &Watched| watched.residual.abs() / watched.limit;
        self.watched.iter().map(part).filter(|part| part.is_finite()).fold(0.0, f64::max)
    }
}

/// The time of an event, and the clock that gave it.
struct Ruled {
    at: i64,
    by: usize,
    /// True if the relations may follow this event.
    follow: bool,
}

impl Watched {
    /// Compares a reading with its expectation. Returns true if it agrees and the clock is calm.
    #[inline]
    fn compare(&mut self, ticks: u64, at: i64, extra: f64) -> bool {
        let relation = &self.track.relation;
        self.residual = relation.residual(&self.scale, ticks, at);
        self.limit = relation.limit(&self.scale, at) + extra;
        self.track.is_calm() & (self.residual.abs() <= self.limit) & (self.limit <= self.scale.quarter)
    }
}

#[cfg(test)]
mod tests;
