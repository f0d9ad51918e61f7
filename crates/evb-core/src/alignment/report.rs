//! Clocks, doubts and relations as messages between the roles, and back.

use core::time::Duration;

use super::{
    clock::{ClockWrap, DetectorClock, choose_lead},
    relation::Relation,
    scale::Scale,
    survey::{Doubt, Known, Present, Survey},
};
use crate::{
    id::{EventId, SourceId},
    index::ClockIndex,
    time::Instant,
    units::Frequency,
    wire::control::{Begin, Clock, ClockDoubt, ClockRelation, ClockRelations, MalformedMessage, Readings},
};

/// Most readings of one [`Readings`] that are used.
const MOST_READINGS: usize = 256;
/// Largest phase or blur of a relation that a message may have. It keeps all sums finite.
const LARGEST_PHASE: f64 = 1e18;

/// The clocks of a run whose timestamps are compared, by source, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardedClocks {
    /// Source and clock, by clock index.
    pub clocks: Vec<(SourceId, DetectorClock)>,
    /// The clock that is to count time; `None`: the best one.
    pub lead: Option<ClockIndex>,
    /// True if the triggers happen when the data are taken, so that their times tell the wraps of a
    /// clock apart.
    pub host_times: bool,
}

impl GuardedClocks {
    /// Returns the clocks that the supervisor declares at the beginning of a run. A clock that
    /// cannot be used is left out. With fewer than two, nothing is compared.
    pub fn of(begin: &Begin) -> Self {
        let mut clocks: Vec<_> = begin.clocks.iter().filter_map(clock_of).collect();
        clocks.sort_unstable_by_key(|(source, _)| *source);
        clocks.dedup_by_key(|(source, _)| *source);
        // The message has the id plus 1, and 0 for no lead.
        let lead = begin.lead.checked_sub(1).and_then(|id| u16::try_from(id).ok()).map(SourceId::new);
        let mut guarded = Self { clocks, lead: None, host_times: begin.host_times };
        guarded.lead = lead.and_then(|source| guarded.index(source));
        guarded
    }

    /// Adds the clocks of sources that have none yet.
    pub fn adopt(&mut self, others: impl IntoIterator<Item = (SourceId, DetectorClock)>) {
        let lead = self.lead_source();
        for (source, clock) in others {
            if let Err(place) = self.clocks.binary_search_by_key(&source, |(source, _)| *source) {
                self.clocks.insert(place, (source, clock));
            }
        }
        self.lead = lead.and_then(|lead| self.index(lead));
    }

    /// Returns true if there is something to compare.
    pub fn can_compare(&self) -> bool {
        self.clocks.len() > 1
    }

    /// Returns the source whose clock is to count time; `None` if that is left to the builders.
    pub fn lead_source(&self) -> Option<SourceId> {
        self.lead.and_then(|lead| self.source(lead))
    }

    /// Returns true if the timestamps of that source are compared with others.
    pub fn compares(&self, source: SourceId) -> bool {
        self.can_compare() && self.index(source).is_some()
    }

    /// Returns the position of the lead for which the clocks are declared.
    fn declared_lead(&self) -> Option<usize> {
        self.lead.map_or_else(|| choose_lead(&self.only_clocks()), |lead| Some(lead.get()))
    }

    /// Returns the clocks without their sources.
    pub fn only_clocks(&self) -> Vec<DetectorClock> {
        self.clocks.iter().map(|(_, clock)| *clock).collect()
    }

    /// Returns all clocks with their sources, ascending.
    pub fn sources(&self) -> impl Iterator<Item = (ClockIndex, SourceId)> {
        let sources = self.clocks.iter().map(|(source, _)| *source);
        ClockIndex::all(self.clocks.len()).zip(sources)
    }

    /// Returns the source of a clock.
    pub fn source(&self, clock: ClockIndex) -> Option<SourceId> {
        self.clocks.get(clock.get()).map(|(source, _)| *source)
    }

    /// Returns the clock of a source.
    pub fn index(&self, source: SourceId) -> Option<ClockIndex> {
        let found = self.clocks.binary_search_by_key(&source, |(source, _)| *source);
        found.ok().map(ClockIndex::new)
    }
}

/// Returns a declared clock as a message.
pub fn message_of(source: SourceId, clock: &DetectorClock) -> Clock {
    let (bits, wrap) = match clock.wrap {
        ClockWrap::Bits(bits) => (bits.into(), 0),
        ClockWrap::Ticks(ticks) => (0, ticks),
    };
    Clock {
        source: source.number().into(),
        rate_uhz: (clock.rate.hertz() * 1e6).round() as u64,
        bits,
        wrap,
        tolerance_ns: u64::try_from(clock.tolerance.as_nanos()).unwrap_or(u64::MAX),
        accuracy_ppb: (clock.accuracy * 1e3).round() as u64,
    }
}

/// Returns the clock that a message declares, and its source; `None` if it cannot be.
pub fn clock_of(message: &Clock) -> Option<(SourceId, DetectorClock)> {
    let wrap = match message.bits {
        0 => ClockWrap::Ticks(message.wrap),
        bits => ClockWrap::Bits(u8::try_from(bits).ok()?),
    };
    let clock = DetectorClock {
        rate: Frequency::from_hertz(message.rate_uhz as f64 / 1e6)?,
        wrap,
        tolerance: Duration::from_nanos(message.tolerance_ns),
        accuracy: message.accuracy_ppb as f64 / 1e3,
    };
    let source = SourceId::new(u16::try_from(message.source).ok()?);
    clock.check().is_ok().then_some((source, clock))
}

impl Doubt {
    /// Returns this doubt as a message.
    pub fn message(&self, source: SourceId) -> ClockDoubt {
        ClockDoubt {
            source: source.number().into(),
            first: self.first.number(),
            is_suspect: self.suspect,
            is_tie: self.tie,
        }
    }

    /// Returns the doubt that a builder sent.
    ///
    /// # Errors
    /// Returns an error if the source has no clock.
    pub fn of(message: &ClockDoubt, clocks: &GuardedClocks) -> Result<Self, MalformedMessage> {
        let source = u16::try_from(message.source).ok().map(SourceId::new);
        let clock = source.and_then(|source| clocks.index(source));
        Ok(Self {
            clock: clock.ok_or_else(|| fault("it doubts a source without a clock"))?,
            first: EventId::new(message.first),
            suspect: message.is_suspect,
            tie: message.is_tie,
        })
    }
}

impl Survey {
    /// Returns the relations as a message.
    pub fn message(&self) -> ClockRelations {
        let of_clock = |known: &Known| ClockRelation {
            ticks: known.relation.ticks,
            at: known.relation.at.cast_unsigned(),
            is_proven: known.is_proven,
            is_suspect: known.is_suspect,
            phase: known.relation.phase.to_bits(),
            rate: known.relation.rate.to_bits(),
            bound: known.relation.bound.to_bits(),
            blur: known.relation.blur.to_bits(),
        };
        ClockRelations {
            lead: self.lead as u32,
            at: self.now.lead.cast_unsigned(),
            host_ns: self.now.host.as_nanos(),
            clocks: self.relations.iter().map(of_clock).collect(),
        }
    }
}

/// Returns the relations that a builder sent.
///
/// # Errors
/// Returns an error if they are not those of these clocks, or if a number cannot be.
pub fn survey_of(message: &ClockRelations, clocks: &GuardedClocks) -> Result<Survey, MalformedMessage> {
    let lead = message.lead as usize;
    let Some((_, leading)) = clocks.clocks.get(lead) else {
        return Err(fault("its lead is no clock of the run"));
    };
    if message.clocks.len() != clocks.clocks.len() {
        return Err(fault("it has relations of other clocks"));
    }
    let mut scales: Vec<Scale> =
        clocks.clocks.iter().map(|(_, clock)| Scale::new(clock, leading.accuracy)).collect();
    let (scale, is_declared) = (scales[lead], clocks.declared_lead() == Some(lead));
    for own in &mut scales {
        own.change_lead(&scale, is_declared);
    }
    let relations: Option<Vec<Known>> = message.clocks.iter().map(known_of).collect();
    Ok(Survey {
        relations: relations.ok_or_else(|| fault("a relation has a number that cannot be"))?,
        scales,
        lead,
        now: Present { lead: message.at.cast_signed(), host: Instant::from_nanos(message.host_ns) },
    })
}

/// Returns the relation that a builder sent; `None` if one of its numbers cannot be.
fn known_of(message: &ClockRelation) -> Option<Known> {
    let (phase, rate, bound) =
        (f64::from_bits(message.phase), f64::from_bits(message.rate), f64::from_bits(message.bound));
    let blur = f64::from_bits(message.blur);
    let is_possible = phase.abs() < LARGEST_PHASE
        && rate.is_finite()
        && (0.0..=1.0).contains(&bound)
        && (0.0..LARGEST_PHASE).contains(&blur);
    let mut relation =
        Relation { ticks: message.ticks, at: message.at.cast_signed(), phase, rate: 0.0, bound, blur };
    relation.set_rate(rate, bound);
    is_possible.then_some(Known { relation, is_proven: message.is_proven, is_suspect: message.is_suspect })
}

/// Returns readings, the newest first, as a message.
pub fn readings_message(question: u32, readings: impl Iterator<Item = (u64, u64)>) -> Readings {
    let mut message = Readings { question, ..Readings::default() };
    let (mut last_event, mut last_ticks) = (0u64, 0u64);
    for (event, ticks) in readings {
        // Differences to the reading before are small numbers, which take few bytes.
        message.events.push(last_event.wrapping_sub(event));
        message.ticks.push(last_ticks.wrapping_sub(ticks));
        (last_event, last_ticks) = (event, ticks);
    }
    message
}

/// Returns the readings that a source sent: events and ticks.
///
/// # Errors
/// Returns an error if events and ticks differ in number.
pub fn readings_of(message: &Readings) -> Result<impl Iterator<Item = (u64, u64)>, MalformedMessage> {
    if message.events.len() != message.ticks.len() {
        return Err(MalformedMessage { message: "Readings", problem: "events and ticks differ in number" });
    }
    let pairs = message.events.iter().zip(&message.ticks).take(MOST_READINGS);
    // Each entry is the difference to the one before.
    Ok(pairs.scan((0u64, 0u64), |last, (event, ticks)| {
        let (last_event, last_ticks) = *last;
        *last = (last_event.wrapping_sub(*event), last_ticks.wrapping_sub(*ticks));
        Some(*last)
    }))
}

const fn fault(problem: &'static str) -> MalformedMessage {
    MalformedMessage { message: "AlignmentReport", problem }
}

#[cfg(test)]
mod tests;
