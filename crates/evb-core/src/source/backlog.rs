//! [`Backlog`]: fragments that wait for decisions, and decisions that wait for fragments.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::push_error::{MAX_AHEAD, PushError};
use crate::{
    fragment::Fragment,
    id::EventId,
    index::LaneIndex,
    time::Instant,
    units::Bytes,
    wire::control::{MAX_OUTSTANDING, Verdict},
};

/// Number of decisions without fragments that are remembered, so that the cause for which a late
/// fragment is dropped is known. A source that makes fragments on demand makes no unwanted
/// fragments, so it remembers no decisions.
const REMEMBERED: usize = 1 << 16;

/// Result of a new fragment or a new decision for its event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The fragment waits for its decision, or the decision for its fragment.
    Waiting,
    /// The decision is a repetition, or concerns an event that has ended.
    Known,
    /// The fragment is assigned, and goes to the lane with that index.
    Ready(LaneIndex, Fragment),
    /// The fragment is present, and its event has no builder yet.
    Parked(Fragment),
    /// The fragment is dropped, because its event needs none of this source.
    Unwanted(Unwanted),
    /// The fragment is dropped, because this source has already pushed a fragment of that event.
    Duplicate,
}

/// Reason why an event needs no fragment of this source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwanted {
    /// The event was inhibited.
    Inhibited,
    /// The event ended without the fragment.
    Closed,
    /// The source is excluded from the event.
    Excluded,
}

/// State of the fragment of an outstanding event.
#[derive(Debug)]
pub(super) enum Recalled {
    /// The fragment is present.
    Here(Fragment),
    /// The fragment has not arrived: readout has been asked for it, or will push it.
    Awaited,
    /// The fragment is missing and has not been requested, because its entry was removed before.
    Gone,
}

/// The state of each event from event id `first` on, by its fragment and its decision.
#[derive(Debug)]
pub(super) struct Backlog {
    entries: VecDeque<BacklogEntry>,
    first: u64,
    /// Lanes of assigned events below `first` whose fragments have not arrived.
    owed: BTreeMap<u64, LaneIndex>,
    undecided: u64,
    bytes: u64,
    held: usize,
    /// Events of fragments without a decision, in the order of their arrival.
    waiting: VecDeque<(Instant, EventId)>,
    patience: Duration,
    /// Number of decided events that need no fragment and are remembered.
    remembered: usize,
    /// True if the source was excluded from the last decided event.
    is_excluded: bool,
}

#[derive(Debug)]
enum BacklogEntry {
    /// Neither the fragment nor the decision has arrived.
    Nothing,
    /// The fragment waits for its decision.
    Held(Fragment),
    /// The decision waits for the fragment.
    Assigned(LaneIndex),
    /// The event needs no fragment.
    Unwanted(Unwanted),
    /// Fragment and decision have arrived, or the fragment was dropped.
    Over,
}

impl Backlog {
    /// Creates an empty backlog, for a source that begins behind the event `decided`. A fragment
    /// without a decision is overdue after `patience`. A readout on demand sends a forgotten
    /// fragment again, so then nothing is remembered.
    pub(super) fn new(decided: EventId, patience: Duration, on_demand: bool) -> Self {
        let first = decided.number() + 1;
        Self {
            entries: VecDeque::new(),
            first,
            owed: BTreeMap::new(),
            undecided: first,
            bytes: 0,
            held: 0,
            waiting: VecDeque::new(),
            patience,
            remembered: if on_demand { 0 } else { REMEMBERED },
            is_excluded: false,
        }
    }

    /// Takes a fragment of readout, and returns where it goes by the decision about its event.
    pub(super) fn push(&mut self, fragment: Fragment, now: Instant) -> Result<Placed, PushError> {
        let event = fragment.event;
        // Earlier events are forgotten, except those for which a builder is still owed a fragment.
        let Some(index) = event.number().checked_sub(self.first) else {
            let owed = self.owed.remove(&event.number());
            // An excluded source that joined late does not know from which events it is excluded.
            let reason = if self.is_excluded { Unwanted::Excluded } else { Unwanted::Closed };
            return Ok(owed.map_or(Placed::Unwanted(reason), |lane| Placed::Ready(lane, fragment)));
        };
        if index >= MAX_AHEAD {
            return Err(PushError::TooFarAhead { event, first: EventId::new(self.first) });
        }
        let entry = self.entry(index as usize);
        let placed = match entry {
            BacklogEntry::Held(_) | BacklogEntry::Over => return Ok(Placed::Duplicate),
            BacklogEntry::Nothing => {
                let size = fragment.size().count();
                *entry = BacklogEntry::Held(fragment);
                self.bytes += size;
                self.held += 1;
                self.waiting.push_back((now, event));
                return Ok(Placed::Waiting);
            }
            BacklogEntry::Assigned(lane) => Placed::Ready(*lane, fragment),
            BacklogEntry::Unwanted(reason) => Placed::Unwanted(*reason),
        };
        *entry = BacklogEntry::Over;
        self.forget();
        Ok(placed)
    }

    /// Skips `count` events from `first` on that need no fragment. Returns false if the backlog has
    /// entries, because then each event has to be handled by itself. At millions of inhibited
    /// events per second, one step per event would cost too much.
    pub(super) fn pass(&mut self, first: EventId, count: u64, verdict: Verdict) -> bool {
        self.is_excluded = verdict == Verdict::Excluded;
        let is_free = self.remembered == 0 && self.entries.is_empty() && first.number() == self.first;
        if is_free {
            self.first += count;
            self.undecided = self.undecided.max(self.first);
        }
        is_free
    }

    /// Handles a decision. `lane` is the builder's lane if the verdict is `Assigned`.
    pub(super) fn decide(&mut self, event: EventId, verdict: Verdict, lane: Option<LaneIndex>) -> Placed {
        let Some(index) = event.number().checked_sub(self.first) else {
            if lane.is_none() {
                self.owed.remove(&event.number());
            }
            return Placed::Known;
        };
        if index >= MAX_AHEAD {
            return Placed::Known;
        }
        self.undecided = self.undecided.max(event.number() + 1);
        self.is_excluded = verdict == Verdict::Excluded;
        let entry = self.entry(index as usize);
        // The lane to which the fragment goes, or the reason for which it is not wanted.
        let decision = match (verdict, lane) {
            (Verdict::Assigned(_), Some(lane)) => Ok(lane),
            (Verdict::Inhibited, _) => Err(Unwanted::Inhibited),
            (Verdict::Excluded, _) => Err(Unwanted::Excluded),
            (Verdict::Closed | Verdict::Assigned(_), _) => Err(Unwanted::Closed),
        };
        let next = decision.map_or_else(BacklogEntry::Unwanted, BacklogEntry::Assigned);
        let placed = match core::mem::replace(entry, next) {
            BacklogEntry::Over => {
                *entry = BacklogEntry::Over;
                Placed::Known
            }
            BacklogEntry::Held(fragment) => {
                *entry = BacklogEntry::Over;
                self.bytes -= fragment.size().count();
                self.held -= 1;
                decision.map_or_else(Placed::Unwanted, |lane| Placed::Ready(lane, fragment))
            }
            BacklogEntry::Assigned(_) => Placed::Known,
            BacklogEntry::Nothing | BacklogEntry::Unwanted(_) => Placed::Waiting,
        };
        self.forget();
        placed
    }

    /// Removes the fragment of an outstanding event, and returns it if it is present.
    pub(super) fn recall(&mut self, event: EventId) -> Recalled {
        if self.owed.remove(&event.number()).is_some() {
            return Recalled::Awaited;
        }
        let index = event.number().checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else { return Recalled::Gone };
        match core::mem::replace(entry, BacklogEntry::Over) {
            BacklogEntry::Held(fragment) => {
                self.bytes -= fragment.size().count();
                self.held -= 1;
                Recalled::Here(fragment)
            }
            BacklogEntry::Assigned(_) => Recalled::Awaited,
            BacklogEntry::Nothing | BacklogEntry::Unwanted(_) | BacklogEntry::Over => Recalled::Gone,
        }
    }

    /// Closes all events up to `decided`. Returns the number of dropped fragments.
    pub(super) fn close(&mut self, decided: EventId) -> u64 {
        let end = decided.number() + 1;
        self.owed = self.owed.split_off(&end);
        let count = end.saturating_sub(self.first).min(self.entries.len() as u64);
        let mut closed = 0;
        for entry in self.entries.drain(..count as usize) {
            if let BacklogEntry::Held(fragment) = entry {
                self.bytes -= fragment.size().count();
                self.held -= 1;
                closed += 1;
            }
        }
        self.first = self.first.max(end);
        self.undecided = self.undecided.max(end);
        self.forget();
        closed
    }

    /// Forgets all fragments, as if none had come; before the first decision. Returns the number of
    /// dropped fragments.
    pub(super) fn clear(&mut self) -> u64 {
        self.waiting.clear();
        self.entries.clear();
        (self.first, self.bytes) = (self.undecided, 0);
        core::mem::take(&mut self.held) as u64
    }

    /// Restarts the time for which fragments wait for decisions, because the supervisor was away
    /// and could not decide.
    pub(super) fn wait_anew(&mut self, now: Instant) {
        self.waiting.iter_mut().for_each(|(since, _)| *since = now);
    }

    /// Drops fragments that have waited too long for a decision. Returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some((since, event)) = self.waiting.front().copied() {
            let index = event.number().checked_sub(self.first).map(|index| index as usize);
            let entry = index.and_then(|index| self.entries.get_mut(index));
            let is_held = matches!(entry, Some(BacklogEntry::Held(_)));
            if is_held && now < since + self.patience {
                break;
            }
            self.waiting.pop_front();
            if let Some(entry) = entry
                && let BacklogEntry::Held(fragment) = entry
            {
                self.bytes -= fragment.size().count();
                self.held -= 1;
                expired += 1;
                *entry = BacklogEntry::Over;
            }
        }
        self.forget();
        expired
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.waiting.front().map(|(since, _)| *since + self.patience)
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn undecided(&self) -> EventId {
        EventId::new(self.undecided)
    }

    /// Returns the number of entries, for tests.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    fn entry(&mut self, index: usize) -> &mut BacklogEntry {
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || BacklogEntry::Nothing);
        }
        &mut self.entries[index]
    }

    /// Removes entries at the front whose events have ended, or whose fragments are missing while
    /// many later events were decided.
    fn forget(&mut self) {
        loop {
            let decided = self.first < self.undecided;
            let is_removable = match self.entries.front() {
                Some(BacklogEntry::Over) => true,
                Some(BacklogEntry::Assigned(_)) => self.entries.len() > REMEMBERED,
                Some(BacklogEntry::Unwanted(_)) => self.entries.len() > self.remembered,
                Some(BacklogEntry::Nothing) => decided && self.entries.len() > REMEMBERED,
                Some(BacklogEntry::Held(_)) | None => false,
            };
            if !is_removable {
                break;
            }
            // A fragment that is still owed is remembered apart.
            if let Some(BacklogEntry::Assigned(lane)) = self.entries.pop_front() {
                self.owed.insert(self.first, lane);
                if self.owed.len() > MAX_OUTSTANDING {
                    self.owed.pop_first();
                }
            }
            self.first += 1;
        }
        // Fragments in `waiting` that have been decided in the meantime are removed only when they
        // reach the front.
        while let Some((_, event)) = self.waiting.front() {
            let index = event.number().checked_sub(self.first).map(|index| index as usize);
            if index
                .and_then(|index| self.entries.get(index))
                .is_some_and(|entry| matches!(entry, BacklogEntry::Held(_)))
            {
                break;
            }
            self.waiting.pop_front();
        }
    }
}
