//! [`StreamGuard`]: guard, rings and inquiries over one stream of events, as a run's files are.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{
    DetectorClock, Doubt, Gathered, Guard, Inquiry, ReadingRing, Survey, inquiry::Finding,
    ring::RING_READINGS,
};
use crate::{event::Alignment, fragment::Timestamp, id::EventId, index::ClockIndex, time::Instant};

/// Largest number of findings that are kept; further ones are only counted.
const KEPT: usize = 1000;

/// The alignment guard over one stream of events, nearly in the order of their ids. It does what
/// builders, sources and supervisor do in a run.
#[derive(Debug)]
pub struct StreamGuard {
    clocks: Vec<DetectorClock>,
    /// The guard of each builder whose events have a scale of time of their own.
    guards: Vec<Guard>,
    rings: Vec<ReadingRing>,
    /// Scale, event and time of the last triggers.
    hosts: VecDeque<(usize, EventId, Instant)>,
    inquiries: Vec<Option<Open>>,
    /// Last event in which each clock disagreed.
    lasts: Vec<EventId>,
    watched: StreamFindings,
}

/// An inquiry that is open.
#[derive(Clone, Debug)]
struct Open {
    inquiry: Inquiry,
    survey: Survey,
    gathered: Gathered,
    /// The guard that doubts.
    scale: usize,
}

/// Result of a [`StreamGuard`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamFindings {
    /// Number of events that were observed.
    pub events: u64,
    /// Number of events with a fragment that disagrees.
    pub disagreeing: u64,
    /// Fragments of each clock.
    pub clocks: Vec<Agreement>,
    /// Findings in the order of their verdicts, at most 1000.
    pub findings: Vec<Finding>,
    /// Number of further findings.
    pub further: u64,
}

/// Numbers of fragments of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Fragments that belong to their events.
    pub agree: u64,
    /// Fragments whose time is not that of their events.
    pub disagree: u64,
    /// Fragments that came while the clock was being learnt, or with no other to compare.
    pub unknown: u64,
}

impl StreamGuard {
    /// Creates a guard over clocks that passed [`DetectorClock::check`].
    pub fn new(clocks: &[DetectorClock]) -> Self {
        Self {
            clocks: clocks.to_vec(),
            guards: Vec::new(),
            rings: vec![ReadingRing::default(); clocks.len()],
            hosts: VecDeque::with_capacity(RING_READINGS),
            inquiries: vec![None; clocks.len()],
            lasts: vec![EventId::default(); clocks.len()],
            watched: StreamFindings {
                clocks: vec![Agreement::default(); clocks.len()],
                ..StreamFindings::default()
            },
        }
    }

    /// Observes the next event: the time `host` of its trigger, and the timestamp of each clock
    /// (`None`: the fragment is missing). Events whose times are on different scales have different
    /// numbers `scale`, counted from 0.
    pub fn observe(&mut self, scale: usize, event: EventId, host: Instant, readings: &[Option<u64>]) {
        for (ring, reading) in self.rings.iter_mut().zip(readings) {
            if let Some(ticks) = *reading {
                ring.push(event, Timestamp::new(ticks));
            }
        }
        if self.hosts.len() == RING_READINGS {
            self.hosts.pop_front();
        }
        self.hosts.push_back((scale, event, host));
        while self.guards.len() <= scale {
            self.guards.push(Guard::new(&self.clocks));
        }
        let seen = self.guards[scale].observe(event, host, readings);
        self.count(scale, event, readings, seen.disagree > 0);
        if seen.doubts > 0 {
            while let Some(doubt) = self.guards[scale].next_doubt() {
                self.inquire(&doubt, scale, event);
            }
        }
        self.look(event);
        if seen.returned > 0 {
            self.end_findings(scale);
        }
    }

    /// Ends the open inquiries with what is known, and returns the result.
    pub fn finish(mut self) -> StreamFindings {
        let last = self.hosts.back().map_or_else(EventId::default, |(_, event, _)| *event);
        for clock in ClockIndex::all(self.inquiries.len()) {
            let Some(mut open) = self.inquiries[clock].take() else { continue };
            self.gather(&mut open);
            if let Some(found) = open.inquiry.conclude(&open.survey, &open.gathered, last) {
                self.note(found, clock, &open.survey);
            }
        }
        self.watched
    }

    /// Counts an event, and for each clock with a reading whether the reading agrees by the guard
    /// of this time scale.
    fn count(&mut self, scale: usize, event: EventId, readings: &[Option<u64>], disagrees: bool) {
        self.watched.events += 1;
        self.watched.disagreeing += u64::from(disagrees);
        let clocks = ClockIndex::all(self.rings.len()).zip(&mut self.watched.clocks).zip(readings);
        for ((clock, agreement), _) in clocks.filter(|(_, reading)| reading.is_some()) {
            match self.guards[scale].alignment(clock) {
                Alignment::Agrees => agreement.agree += 1,
                Alignment::Disagrees => {
                    agreement.disagree += 1;
                    self.lasts[clock.get()] = event;
                }
                Alignment::Unknown => agreement.unknown += 1,
                Alignment::Unchecked | Alignment::Moved => {}
            }
        }
    }

    /// Adds a doubt to the open inquiry about its clock, or opens an inquiry.
    fn inquire(&mut self, doubt: &Doubt, scale: usize, event: EventId) {
        if let Some(open) = &mut self.inquiries[doubt.clock] {
            return open.inquiry.add(doubt);
        }
        let (inquiry, survey) = (Inquiry::new(doubt, event), self.guards[scale].survey());
        let mut open = Open { inquiry, survey, gathered: Gathered::new(self.rings.len()), scale };
        self.gather(&mut open);
        self.inquiries[doubt.clock] = Some(open);
    }

    fn gather(&self, open: &mut Open) {
        for (clock, ring) in ClockIndex::all(self.rings.len()).zip(&self.rings) {
            open.gathered.add(clock, ring.iter());
        }
        let hosts = self.hosts.iter().filter(|(scale, ..)| *scale == open.scale);
        open.gathered.add_hosts(hosts.map(|(_, event, host)| (*event, *host)));
    }

    /// Makes the looks that wait for this event.
    fn look(&mut self, event: EventId) {
        for clock in ClockIndex::all(self.inquiries.len()) {
            let waits = |open: &mut Open| open.inquiry.next_look() <= event;
            let Some(mut open) = self.inquiries[clock].take_if(waits) else { continue };
            self.gather(&mut open);
            match open.inquiry.look(&open.survey, &open.gathered) {
                None => self.inquiries[clock] = Some(open),
                Some(found) => {
                    // The events are right, and the clock goes on from its new reading.
                    if !found.verdict.is_misaligned() {
                        let suspects = self.guards.iter_mut().filter(|guard| guard.is_suspect(clock));
                        suspects.for_each(|guard| guard.learn(clock));
                    }
                    self.note(found, clock, &open.survey);
                }
            }
        }
    }

    /// Ends the findings about clocks that are believed again.
    fn end_findings(&mut self, scale: usize) {
        while let Some(clock) = self.guards[scale].next_returned() {
            let until = self.end_of(clock);
            let own = self.watched.findings.iter_mut().rev().find(|found| found.clock == clock);
            if let Some(found) = own.filter(|found| found.verdict.is_misaligned()) {
                found.until = found.until.or(until);
            }
        }
    }

    /// Returns the last event in which a clock disagreed; `None` while it is suspect.
    fn end_of(&self, clock: ClockIndex) -> Option<EventId> {
        let is_suspect = self.guards.iter().any(|guard| guard.is_suspect(clock));
        (!is_suspect).then(|| self.lasts[clock.get()])
    }

    /// Notes a finding of the inquiry about a clock. It may accuse the one beside it.
    fn note(&mut self, mut found: Finding, asked: ClockIndex, survey: &Survey) {
        let mut of_clock = self.watched.findings.iter().filter(|of_clock| of_clock.clock == found.clock);
        let goes_on = |last: &Finding| found.verdict.goes_on(last.verdict, survey.is_proven(found.clock));
        let is_repeated = of_clock.clone().next_back().is_some_and(goes_on);
        // Another clock that is accused has a finding already, if one of its findings has no end.
        if is_repeated || found.clock != asked && of_clock.any(|of_clock| of_clock.until.is_none()) {
            return;
        }
        if found.verdict.is_misaligned() && found.clock == asked {
            found.until = self.end_of(found.clock);
        }
        if self.watched.findings.len() < KEPT {
            self.watched.findings.push(found);
        } else {
            self.watched.further += 1;
        }
    }
}
