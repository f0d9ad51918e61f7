//! [`Widener`]: short trigger counters become event ids, and nothing is placed on a guess.

#[cfg(test)]
mod tests;

use super::counter::TriggerCounter;
use crate::id::EventId;

/// Largest gap that a counter alone can prove; a short counter proves a quarter of its wrap.
const FARTHEST_GAP: u64 = 1024;
/// Largest number of events by which fragments of a board may come out of order.
const LATEST: u64 = 64;

/// Meaning of a value of a trigger counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widened {
    /// The event that follows the last one.
    Next(EventId),
    /// An event after others for which this board has sent no fragment: the board missed them, or
    /// they come late, or its counter skipped values. The timestamps tell which.
    Gap {
        /// The event of this fragment.
        event: EventId,
        /// Number of events before it that are missing.
        missing: u64,
    },
    /// An event that was missing until now.
    Late(EventId),
    /// An event whose fragment came before: the same fragment again, or another under the same
    /// number.
    Repeat(EventId),
    /// The fragment has no place.
    Misfit(Misfit),
}

/// A reason why a fragment has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The counter fell, or leapt farther than a gap can be: the board was reset, or was not reset
    /// before the run.
    Reset {
        /// Number of triggers from the expected value to this one.
        distance: i64,
        /// True if the fragments before did not show this reset yet.
        is_new: bool,
    },
    /// The value fits, but the counter may have wrapped since the last one: the fragment belongs to
    /// one of several events.
    LostWrap,
    /// The source joined a run under way, and nothing says what the counter's values mean.
    NoStart,
    /// The value lies between two triggers, because it is no multiple of the step.
    OffStep,
    /// The value has more bits than the counter.
    TooLarge,
}

/// The widening of one board's trigger counter.
///
/// A board loses its place for the rest of the run when two fragments in a row show that its
/// counter fell, or one that it may have wrapped unseen. A single wild value costs one fragment.
///
/// ```
/// use evb_core::{
///     alignment::{CounterStart, Misfit, TriggerCounter, Widened, Widener},
///     id::EventId,
/// };
///
/// let counter = TriggerCounter { first: CounterStart::At(0), ..TriggerCounter::new(8) };
/// let mut widener = Widener::new(counter, EventId::new(0));
/// let is_same = |_| false;
/// for event in 1..=300 {
///     let (event, decided) = (EventId::new(event), EventId::new(event));
///     let value = (event.number() - 1) % 256;
///     assert_eq!(widener.widen(value, decided, is_same), Widened::Next(event));
/// }
/// let (decided, gap) = (EventId::new(303), Widened::Gap { event: EventId::new(303), missing: 2 });
/// assert_eq!(widener.widen(302 % 256, decided, is_same), gap);
/// // A value far behind is no guess for a wrap: the board was reset.
/// let reset = Widened::Misfit(Misfit::Reset { distance: -103, is_new: true });
/// assert_eq!(widener.widen(200, decided, is_same), reset);
/// ```
#[derive(Clone, Debug)]
pub struct Widener {
    counter: TriggerCounter,
    /// The event that comes next.
    next: u64,
    /// Value of the counter for `next`; `None` until the first fragment of a counter that starts
    /// anywhere.
    expected: Option<u64>,
    /// Bit i is set if the fragment of event `next` − 1 − i came.
    seen: u64,
    /// True until a fragment has a place.
    is_fresh: bool,
    /// True if an event of the last fragments came before with another content.
    has_contradiction: bool,
    astray: Option<Astray>,
    /// The reason for which no fragment has a place any more.
    lost: Option<Misfit>,
}

/// A series of values without a place.
#[derive(Clone, Copy, Debug)]
struct Astray {
    /// Value that continues the series.
    next: u64,
    /// True if the series lies behind the expected value.
    fell: bool,
}

impl Widener {
    /// Creates the widening of a counter that passed [`TriggerCounter::check`], in a run of which
    /// all events up to `joined` were decided before the source joined it.
    pub fn new(counter: TriggerCounter, joined: EventId) -> Self {
        let next = joined.number().saturating_add(1);
        let expected = counter.value_of(EventId::new(next));
        let lost = (expected.is_none() && next > 1).then_some(Misfit::NoStart);
        Self {
            counter,
            next,
            expected,
            seen: 0,
            is_fresh: true,
            has_contradiction: false,
            astray: None,
            lost,
        }
    }

    /// Returns the meaning of the next fragment's counter value. `decided` is the newest event that
    /// the supervisor decided. `is_same` says whether the same fragment came before as the one of
    /// an event.
    pub fn widen(&mut self, value: u64, decided: EventId, is_same: impl FnOnce(EventId) -> bool) -> Widened {
        if value > self.counter.most() {
            return Widened::Misfit(Misfit::TooLarge);
        }
        if let Some(lost) = self.lost {
            return Widened::Misfit(lost);
        }
        let expected = *self.expected.get_or_insert(value);
        let ahead = self.counter.ahead(value, expected);
        let step = self.counter.step.cast_signed();
        if ahead % step != 0 {
            return Widened::Misfit(Misfit::OffStep);
        }
        let distance = ahead / step;
        let event = self.next.checked_add_signed(distance).filter(|event| *event > 0);
        // A value before that of event 1 is left over from the time before, or the board was not
        // reset.
        let Some(event) = event.map(EventId::new) else { return self.stray(value, distance) };
        if distance < 0 {
            self.backward(event, value, distance, is_same)
        } else {
            self.forward(event, value, distance, decided)
        }
    }

    /// Places a value at the expected one or ahead of it: the fragment is the next one, or follows
    /// a gap, unless the leap is too large to be a gap or the counter may have wrapped meanwhile.
    fn forward(&mut self, event: EventId, value: u64, distance: i64, decided: EventId) -> Widened {
        let (missing, farthest) = (distance.unsigned_abs(), self.farthest());
        let is_near = event.number().abs_diff(decided.number()) <= farthest;
        let is_far = missing > farthest;
        if is_far && (!is_near || self.astray.is_some_and(|astray| astray.fell)) {
            return self.stray(value, distance);
        }
        let behind = decided.number().saturating_sub(event.number());
        // A source that joins a run knows no fragment of its board yet, so only a board that keeps
        // up is believed.
        let has_joined = self.is_fresh && self.next > 1;
        if behind > self.counter.period() / 2 || (has_joined && behind > farthest) {
            return self.lose(Misfit::LostWrap);
        }
        // The series of a counter that was reset comes past the expected value some day, and then
        // still means other events.
        if !is_far && self.continues_astray(value) {
            self.lose(Misfit::Reset { distance, is_new: false });
            return Widened::Misfit(Misfit::Reset { distance, is_new: self.is_fresh });
        }
        self.seen = if missing >= 63 { 1 } else { self.seen << (missing + 1) | 1 };
        self.next = event.number().saturating_add(1);
        self.expected = Some(self.counter.after(value));
        (self.is_fresh, self.has_contradiction, self.astray) = (false, false, None);
        match missing {
            0 => Widened::Next(event),
            missing => Widened::Gap { event, missing },
        }
    }

    /// Places a value behind the expected one: the fragment is a repeated one, or a late one that
    /// was missing. A second contradiction in a row means that the counter fell.
    fn backward(
        &mut self,
        event: EventId,
        value: u64,
        distance: i64,
        is_same: impl FnOnce(EventId) -> bool,
    ) -> Widened {
        let back = distance.unsigned_abs();
        let latest = if self.is_fresh { self.farthest() } else { LATEST };
        if is_same(event) {
            return Widened::Repeat(event);
        }
        if back > latest || self.continues_astray(value) {
            return self.stray(value, distance);
        }
        // What came before a source joined is no concern of this source, which drops it.
        if self.is_fresh {
            return Widened::Late(event);
        }
        // The bit of this event in `seen`, whose bit 0 is the newest event.
        let bit = 1u64 << (back - 1);
        if self.seen & bit == 0 {
            self.seen |= bit;
            return Widened::Late(event);
        }
        // One number twice is a fault of the board, but numbers that come again in a row are those
        // of a counter that fell.
        if core::mem::replace(&mut self.has_contradiction, true) {
            self.lose(Misfit::Reset { distance, is_new: false });
            return Widened::Misfit(Misfit::Reset { distance, is_new: true });
        }
        Widened::Repeat(event)
    }

    /// Handles a value that is too far from the expected one. Two such values in a row that fell
    /// show a reset, after which no fragment has a place.
    fn stray(&mut self, value: u64, distance: i64) -> Widened {
        let (continues, fell) = (self.continues_astray(value), distance < 0 && !self.is_fresh);
        if continues && fell {
            self.lost = Some(Misfit::Reset { distance, is_new: false });
        }
        self.astray = Some(Astray { next: self.counter.after(value), fell });
        Widened::Misfit(Misfit::Reset { distance, is_new: !continues })
    }

    fn lose(&mut self, why: Misfit) -> Widened {
        self.lost = Some(why);
        Widened::Misfit(why)
    }

    /// Returns true if a value continues a series without a place. A board that is reset after all
    /// falls back from such a series at the beginning of a run.
    fn continues_astray(&self, value: u64) -> bool {
        let Some(astray) = self.astray else { return false };
        let off = self.counter.ahead(value, astray.next);
        off.unsigned_abs() / self.counter.step <= LATEST && (off >= 0 || !self.is_fresh)
    }

    /// Returns the largest gap that the counter can prove.
    fn farthest(&self) -> u64 {
        (self.counter.period() / 4).min(FARTHEST_GAP)
    }

    /// Returns the event that is expected next, and the value of the counter for it; `None` if any
    /// value is expected.
    pub fn expected(&self) -> (EventId, Option<u64>) {
        (EventId::new(self.next), self.expected)
    }

    /// Returns true if no fragment has had a place yet.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        let most = self.counter.most();
        assert!(self.expected.is_none_or(|value| value <= most), "{self:?}");
        assert!(self.astray.is_none_or(|astray| astray.next <= most), "{self:?}");
        assert!(self.next > 0, "{self:?}");
        assert!(self.is_fresh || self.seen & 1 == 1, "the newest event was seen: {self:?}");
    }
}
