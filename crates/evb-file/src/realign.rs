//! [`Realigner`]: moves the fragments of sources that slipped to the events to which they belong.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use evb_core::{
    alignment::Episode,
    event::{Alignment, Cause, Event, MissingSource, TakenFragment},
    id::{EventId, SourceId},
};

/// The largest shift that is repaired, in events. It limits the events that are held. evb itself
/// recognises shifts of up to 16 events.
const MAX_SHIFT: u64 = 1024;

/// The outcome of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealignReport {
    /// The slips that were repaired.
    pub slips: Vec<Episode>,
    /// Further episodes with fragments in wrong events, which cannot be repaired.
    pub others: Vec<Episode>,
    /// The number of fragments that were moved to their events.
    pub moved: u64,
    /// The number of fragments that were taken out, because their event is in no file or has a
    /// fragment of the source already.
    pub left_out: u64,
    /// The number of events that lack a fragment of a source that slipped.
    pub without: u64,
}

/// A machine that takes events in the order of their ids, and returns them in the same order with
/// the fragments that belong to them. It holds as many events as the largest slip to an earlier
/// event has, and as many fragments of a source as its slip.
#[derive(Debug, Default)]
pub(crate) struct Realigner {
    slips: Vec<Slip>,
    /// The number of ids by which a fragment may have come late.
    lag: u64,
    held: VecDeque<Event>,
    /// Fragments on the way to the event of that id.
    moving: BTreeMap<(EventId, SourceId), TakenFragment>,
    last: EventId,
    has_ended: bool,
    report: RealignReport,
}

/// A slip of a source, from its first event on.
#[derive(Clone, Copy, Debug)]
struct Slip {
    source: SourceId,
    since: EventId,
    until: Option<EventId>,
    shift: i64,
}

impl Slip {
    fn of(episode: &Episode) -> Option<Self> {
        let Episode { source, since, until, shift, misaligned, .. } = episode;
        let shift = shift.filter(|shift| *misaligned && (1..=MAX_SHIFT).contains(&shift.unsigned_abs()))?;
        Some(Self { source: *source, since: *since, until: *until, shift })
    }

    /// Returns true if the source's fragment in that event belongs to another one. How an episode
    /// ends is known only roughly, and the builder's word decides.
    fn takes(&self, event: EventId, state: Alignment) -> bool {
        let is_wrong = match self.until {
            None => state != Alignment::Moved,
            Some(until) => event <= until && state == Alignment::Disagrees,
        };
        event >= self.since && is_wrong
    }
}

impl Realigner {
    /// Creates a machine that repairs the slips among these episodes of a run.
    pub(crate) fn new(episodes: &[Episode]) -> Self {
        let misaligned = episodes.iter().filter(|episode| episode.misaligned).cloned();
        let (slips, others): (Vec<_>, Vec<_>) = misaligned.partition(|one| Slip::of(one).is_some());
        let known: Vec<Slip> = slips.iter().filter_map(Slip::of).collect();
        // A fragment that belongs to an earlier event comes that many events later.
        let lag = known.iter().map(|slip| slip.shift.min(0).unsigned_abs()).max().unwrap_or(0);
        let report = RealignReport { slips, others, ..RealignReport::default() };
        Self { slips: known, lag, report, ..Self::default() }
    }

    /// Takes the next event.
    pub(crate) fn push(&mut self, mut event: Event) {
        self.last = event.id;
        for place in 0..self.slips.len() {
            let Slip { source, shift, .. } = self.slips[place];
            let Some(state) = event.fragment(source).map(|part| part.alignment) else { continue };
            // Of two slips of one source, the later one counts.
            let counts =
                self.slips.iter().rposition(|slip| slip.source == source && slip.takes(event.id, state));
            if counts != Some(place) {
                continue;
            }
            let Some(fragment) = event.take_fragment(source) else { continue };
            let belongs_to = event.id.number().saturating_add_signed(shift);
            if self.moving.insert((EventId::new(belongs_to), source), fragment).is_some() {
                self.report.left_out += 1;
            }
        }
        self.held.push_back(event);
    }

    /// Notes that no event follows.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the next event that has all its fragments.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let first = self.held.front()?.id.number();
        if !self.has_ended && first.saturating_add(self.lag) > self.last.number() {
            return None;
        }
        let mut event = self.held.pop_front()?;
        // What belongs to an event that is in no file has no place.
        while let Some(entry) = self.moving.first_entry() {
            let (id, source) = *entry.key();
            if id > event.id {
                break;
            }
            let fragment = entry.remove();
            if id < event.id || event.fragment(source).is_some() {
                self.report.left_out += 1;
            } else {
                event.move_here(fragment);
                self.report.moved += 1;
            }
        }
        self.note_missing(&mut event);
        Some(event)
    }

    /// Names the sources that slipped and have no fragment for the event.
    fn note_missing(&mut self, event: &mut Event) {
        for Slip { source, since, .. } in &self.slips {
            let is_named = event.is_missing(*source) || event.absent.iter().any(|one| one.source == *source);
            if *since > event.id || is_named || event.fragment(*source).is_some() {
                continue;
            }
            let place = event.missing.partition_point(|one| one.source < *source);
            event.missing.insert(place, MissingSource::new(*source, Cause::Unknown));
            self.report.without += 1;
        }
    }

    pub(crate) fn into_report(mut self) -> RealignReport {
        self.report.left_out += self.moving.len() as u64;
        self.report
    }
}
