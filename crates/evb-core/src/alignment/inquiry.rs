//! [`Inquiry`]: the supervisor's search for what happened to a doubted source.

mod judge;
mod jury;

use self::{
    judge::{Begin, Judged, judge},
    jury::Jury,
};
use super::{
    case::Case,
    explanation::Explanation,
    gathered::Gathered,
    survey::{Doubt, Survey},
};
use crate::{id::EventId, index::ClockIndex};

/// Numbers of events after the first doubt at which the supervisor asks for rings. A slip is clear
/// as soon as it is unique; other faults need more events. The rings overlap. The last looks are
/// for runs in which most triggers are inhibited, so that few events can be compared at a shift.
const LOOKS: [u64; 14] = [8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 768, 1536];
/// Events after the first doubt without which timestamps that fit nowhere prove nothing at the end.
const ENOUGH: u64 = 40;

/// An open question about one clock. It begins with the first doubt of any builder, and ends with a
/// verdict.
///
/// Its driver asks the sources of the doubted clock, of [`Survey::ruler`] and of some others for
/// their rings when event [`Self::next_look`] is decided, adds them to a [`Gathered`], and calls
/// [`Self::look`].
#[derive(Clone, Debug)]
pub struct Inquiry {
    clock: ClockIndex,
    first: u64,
    /// Event at which the supervisor learnt of the doubt.
    opened: u64,
    suspect: bool,
    tie: bool,
    looks: usize,
}

/// A verdict, and the event since which it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The clock.
    pub clock: ClockIndex,
    /// Explanation of the disagreements.
    pub verdict: Explanation,
    /// First event that disagrees.
    pub since: EventId,
    /// Last event that disagrees; `None` if that is not known.
    pub until: Option<EventId>,
    /// True if it may as well be the contrary of the other side: the votes were equal.
    pub is_disputed: bool,
    /// True if an earlier finding about the clock said the same, and it lasts.
    pub is_repeated: bool,
    /// True if earlier events may disagree, too: the source was started again, and its timestamps
    /// of them are lost.
    pub is_begin_lost: bool,
}

impl Finding {
    /// Returns what happened, as a sentence without its subject, the source. `named` returns the
    /// name of another source.
    pub fn sentence(&self, named: impl Fn(ClockIndex) -> String) -> String {
        let perhaps_earlier = match self.is_begin_lost {
            true => " (perhaps since an earlier event, whose timestamp is not known)",
            false => "",
        };
        self.verdict.sentence(named) + perhaps_earlier
    }
}

impl Inquiry {
    /// Opens an inquiry with a doubt, when `decided` is the newest event.
    pub fn new(doubt: &Doubt, decided: EventId) -> Self {
        Self {
            clock: doubt.clock,
            first: doubt.first.number(),
            opened: decided.number(),
            suspect: doubt.suspect,
            tie: doubt.tie,
            looks: 0,
        }
    }

    /// Returns the clock in question.
    pub fn clock(&self) -> ClockIndex {
        self.clock
    }

    /// Returns the first event that is in doubt.
    pub fn first(&self) -> EventId {
        EventId::new(self.first)
    }

    /// Returns true if a builder takes the clock's vote away.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Adds a further doubt about the same clock, from the same builder or another one.
    pub fn add(&mut self, doubt: &Doubt) {
        self.first = self.first.min(doubt.first.number());
        self.suspect |= doubt.suspect;
        self.tie &= doubt.tie;
    }

    /// Returns the event after which the supervisor looks at the rings.
    pub fn next_look(&self) -> EventId {
        EventId::new(self.opened.saturating_add(LOOKS[self.looks.min(LOOKS.len() - 1)]))
    }

    /// Returns true if this was the last look, whose verdict may be that nothing is clear.
    fn is_last(&self) -> bool {
        // A clock that is not suspect may still become so.
        let last = if self.suspect { 256 } else { 384 };
        LOOKS.get(self.looks).is_none_or(|look| *look >= last)
    }

    /// Looks at the readings that were gathered, and returns what happened, if it is clear by now.
    /// The relations are those of a builder that doubts the clock.
    pub fn look(&mut self, survey: &Survey, gathered: &Gathered) -> Option<Finding> {
        let is_last = self.is_last();
        self.looks += 1;
        self.judge(survey, gathered, is_last).map(|(finding, _)| finding)
    }

    /// Looks before it is time, at what is there already. Until then, other builders may report
    /// earlier doubts, so only a slip whose begin is seen counts.
    pub fn glance(&self, survey: &Survey, gathered: &Gathered) -> Option<Finding> {
        let judged = self.judge(survey, gathered, false);
        judged.filter(|(_, begin)| *begin == Begin::Seen).map(|(finding, _)| finding)
    }

    /// Returns what happened, and what is known of its begin; `None` if more events are needed.
    /// With `is_last`, no more events follow.
    fn judge(&self, survey: &Survey, gathered: &Gathered, is_last: bool) -> Option<(Finding, Begin)> {
        let no_look_follows = self.looks >= LOOKS.len();
        let unclear = |since| no_look_follows.then(|| Judged::new(Explanation::Unclear, since));
        // Judges a clock by the times of a ruler. What fits nothing may fit later, with more
        // readings.
        let judge_beside = |clock, ruler| {
            let case = Case::new(survey, gathered, clock, ruler, self.first);
            let found = case.as_ref().and_then(|case| judge(case, self.suspect, is_last));
            let foreign = || is_last.then(|| Judged::new(Explanation::Foreign, self.first));
            let found = found.or_else(foreign)?;
            let is_open = found.verdict == Explanation::Foreign && case.is_none_or(|case| case.may_fit());
            if is_open { unclear(found.since) } else { Some(found) }
        };
        let (mut clock, mut is_disputed) = (self.clock, self.tie);
        let ruler = survey.ruler(clock)?;
        let mut found = judge_beside(clock, ruler)?;
        if let Explanation::Slip { shift, .. } = found.verdict {
            let jury = Jury::new(survey, gathered, [clock, ruler], (shift, found.since));
            is_disputed = jury.is_tie.unwrap_or(is_disputed);
            // The vote is against the ruler, so the accused clock is judged beside one of the
            // largest group.
            if jury.ruler != ruler {
                clock = jury.accused;
                let is_slip = |found: &Judged| matches!(found.verdict, Explanation::Slip { .. });
                let found_anew = judge_beside(clock, jury.ruler).filter(is_slip);
                found = found_anew.or_else(|| unclear(found.since))?;
            }
        }
        let Judged { verdict, since, begin } = found;
        let finding = Finding {
            clock,
            verdict,
            since: EventId::new(since),
            until: None,
            is_disputed,
            is_repeated: false,
            is_begin_lost: begin == Begin::Lost,
        };
        Some((finding, begin))
    }

    /// Looks a last time, because no event follows `last`. Returns `None` if nothing is clear.
    pub fn conclude(&mut self, survey: &Survey, gathered: &Gathered, last: EventId) -> Option<Finding> {
        self.looks = LOOKS.len();
        let is_short = last.number().saturating_sub(self.first) < ENOUGH;
        self.look(survey, gathered).filter(|found| !found.verdict.is_vague() || self.suspect && !is_short)
    }
}

/// Knowledge about the alignment of a source at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The intervals between the first events fit at no other shift.
    Proven,
    /// The triggers are so regular that a slip before event 1 would look the same.
    NotProven,
}

/// Returns what the first events say about a source: whether a slip before event 1 would have
/// shown. `None` if there are too few readings.
pub fn start(survey: &Survey, gathered: &Gathered, clock: ClockIndex) -> Option<Start> {
    let case = Case::new(survey, gathered, clock, survey.ruler(clock)?, 0)?;
    let best = case.best(40, |shift| case.fit_of_intervals(case.sent, shift))?;
    let is_proven = best.shift == 0 && best.fits && best.margin >= judge::MARGIN;
    Some(if is_proven { Start::Proven } else { Start::NotProven })
}
