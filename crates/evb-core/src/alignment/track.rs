//! [`Track`]: what a guard knows about one clock, and the states that the clock passes through.

use super::{
    relation::{DRIFT, Relation},
    scale::{SECOND, Scale},
};
use crate::event::Alignment;

/// Agreements after which a clock is learnt.
const LEARNT: u8 = 8;
/// Failures to learn a clock after which it is suspect.
const FAILURES: u8 = 3;
/// Disagreements after which a learnt clock is suspect, in `score`.
const SUSPECT: f32 = 3.0;
/// Part of a disagreement that an agreement takes back.
const FORGIVEN: f32 = 1.0 / 256.0;
/// Agreements in a row after which a suspect clock is believed again.
const BACK: u8 = 16;
/// Disagreements of the same size after which a suspect clock is followed through its jump.
const FOLLOWED: u8 = 3;
/// Part of a residual by which a relation moves, once it is well known.
const GAIN: f64 = 1.0 / 16.0;
/// Change of a constant jump, as a part of it: a slip by one period changes with the rates.
const STRETCH: f64 = 2e-5;
/// Time for which the relation from before a suspicion stays of use after it.
const REMEMBERED: i64 = 10 * SECOND;

/// The state of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// No reading was seen.
    #[default]
    Unseen,
    /// The relation follows from the readings that were seen so far.
    Learning,
    /// The relation is known.
    Locked,
    /// The clock disagrees with the others, and has no vote.
    Suspect,
}

/// A change of a clock's standing that the supervisor must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Change {
    #[default]
    None,
    /// The first disagreement after a time of agreement.
    Doubted,
    Suspected,
    /// The clock agrees again.
    Returned,
}

/// A reading beside its expectation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) event: u64,
    pub(super) ticks: u64,
    pub(super) at: i64,
    pub(super) residual: f64,
    pub(super) limit: f64,
    /// True if the relation may follow this event.
    pub(super) follow: bool,
    /// True for the clock that counts time.
    pub(super) leads: bool,
    /// True if as many clocks were for this one as against it, so that it may be right.
    pub(super) undecided: bool,
}

/// The relation of one clock, its standing, and the disagreements that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    pub(super) relation: Relation,
    /// Begin of the block of time after which the rate is corrected, and its end.
    block_at: i64,
    block_until: i64,
    /// Sum of the phase corrections in the block.
    corrected: f64,
    pub(super) score: f32,
    pub(super) standing: Standing,
    /// True if the relation was locked at some time.
    pub(super) was_locked: bool,
    /// True if the rate is farther from its nominal value than the accuracy allows.
    rate_is_wrong: bool,
    agreed: u8,
    failed: u8,
    returned: u8,
    /// Disagreements in a row of the same size.
    equal: u8,
    /// True if `before` is in use.
    has_before: bool,
    /// Residual of the last disagreement.
    away: f64,
    /// First event of the disagreements that are under way, or of the last ones.
    pub(super) first_bad: u64,
    /// The relation from before the last suspicion.
    before: Relation,
}

impl Track {
    /// Returns true if the clock is locked and did not disagree lately.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.standing == Standing::Locked && self.score == 0.0 && !self.rate_is_wrong
    }

    pub(super) fn is_locked(&self) -> bool {
        self.standing == Standing::Locked
    }

    /// Returns the doubt that lasts, if there is one.
    pub(super) fn doubt(&self) -> Option<Change> {
        match self.standing {
            Standing::Suspect => Some(Change::Suspected),
            Standing::Locked if self.score > 0.0 => Some(Change::Doubted),
            _ => None,
        }
    }

    /// Begins to learn from this reading.
    pub(super) fn anchor(&mut self, scale: &Scale, ticks: u64, at: i64) {
        self.take(scale, Relation::anchored(scale, ticks, at));
        (self.standing, self.agreed) = (Standing::Learning, 1);
    }

    /// Takes over a relation that was known before.
    pub(super) fn adopt(&mut self, scale: &Scale, relation: Relation) {
        self.take(scale, relation);
        self.lock();
    }

    /// Believes this clock: it is the lead, and defines time.
    pub(super) fn lock(&mut self) {
        (self.standing, self.was_locked) = (Standing::Locked, true);
    }

    fn take(&mut self, scale: &Scale, relation: Relation) {
        self.relation = relation;
        self.begin_block(scale);
    }

    /// Ends the role of the lead, which was exact by definition.
    pub(super) fn cease_to_lead(&mut self) {
        (self.relation.bound, self.relation.blur) = (0.0, 0.0);
    }

    /// Adds to the uncertainty of the relations.
    pub(super) fn blur(&mut self, more: f64) {
        self.relation.blur += more;
        self.before.blur += more;
    }

    /// Goes on beside another lead.
    pub(super) fn change_lead(&mut self, scale: &mut Scale, lead: &Relation, lead_scale: &Scale) {
        self.relation.change_lead(scale, lead, lead_scale);
        self.before.change_lead(scale, lead, lead_scale);
        scale.rates = scale.rates.max(self.relation.bound);
    }

    /// Begins a block. It ends when it is long enough to give the rate more precisely than the
    /// block before, or when the rate itself may have moved.
    fn begin_block(&mut self, scale: &Scale) {
        let of_bound = 4.0 * scale.tolerance / self.relation.bound;
        let of_drift = (2.0 * scale.tolerance / DRIFT).sqrt();
        // Without any difference of rates there is nothing to correct.
        let length = if scale.rates > 0.0 { of_bound.min(of_drift) } else { f64::INFINITY };
        (self.block_at, self.corrected) = (self.relation.at, 0.0);
        self.block_until = self.block_at.saturating_add(length as i64);
    }

    /// Returns the relation on which the source was right, as far as it is known: the one from
    /// before a suspicion that lasts or ended a short time before `now`.
    pub(super) fn proven(&self, now: i64) -> Relation {
        let is_recent = now.wrapping_sub(self.before.at) < REMEMBERED;
        let counts = self.has_before && (self.standing == Standing::Suspect || is_recent);
        if counts { self.before } else { self.relation }
    }

    /// Follows the clock after an agreement at time `at`. An event before the anchor moves nothing.
    #[inline]
    pub(super) fn follow(&mut self, scale: &Scale, ticks: u64, at: i64, residual: f64) {
        let elapsed = self.relation.elapsed(at);
        if elapsed <= 0.0 {
            return;
        }
        let moved = self.relation.moved(elapsed);
        let is_blurred = self.relation.blur > 0.0;
        // The more the clock may have moved since the anchor, the more a single reading tells.
        // While it has hardly moved, readings count little, so that their noise averages out.
        let gain = if moved * 32.0 < scale.tolerance {
            GAIN
        } else {
            (moved / (moved + 0.5 * scale.tolerance)).max(GAIN)
        };
        self.relation.advance(ticks, at, (gain - 1.0) * residual);
        if is_blurred {
            // How far the new lead's time was off says nothing about the rate.
            return self.begin_block(scale);
        }
        self.corrected += gain * residual;
        if at >= self.block_until {
            self.correct_rate(scale);
        }
    }

    /// Follows the clock that counts time. Its residual is what rounding left.
    #[inline]
    pub(super) fn lead(&mut self, ticks: u64, at: i64, residual: f64) {
        if self.relation.elapsed(at) > 0.0 {
            self.relation.advance(ticks, at, -residual);
        }
    }

    fn follow_sight(&mut self, scale: &Scale, sight: &Sight) {
        if sight.leads {
            self.lead(sight.ticks, sight.at, sight.residual);
        } else {
            self.follow(scale, sight.ticks, sight.at, sight.residual);
        }
    }

    /// Corrects the rate by the phase corrections of a block.
    #[cold]
    fn correct_rate(&mut self, scale: &Scale) {
        let length = self.relation.elapsed(self.block_at).abs();
        if length > 0.0 && scale.rates > 0.0 {
            // The tolerances of the first and the last reading, and the drift of the rate
            // meanwhile.
            let error = 2.0 * scale.tolerance / length + DRIFT * length;
            let rate = self.relation.rate + self.corrected / length;
            self.relation.set_rate(rate, error.min(scale.rates));
            self.rate_is_wrong |= rate.abs() > 1.25 * scale.rates + error;
        }
        self.begin_block(scale);
    }

    /// Judges a reading of an event that is not wholly calm.
    pub(super) fn step(&mut self, scale: &Scale, sight: &Sight) -> (Alignment, Change) {
        let is_lost = sight.limit > scale.quarter && sight.follow && !sight.leads;
        match self.standing {
            Standing::Unseen => {
                if sight.follow {
                    self.anchor(scale, sight.ticks, sight.at);
                }
                (Alignment::Unknown, Change::None)
            }
            Standing::Locked if is_lost => {
                // The clock was not seen for so long that its wrap is a guess.
                self.anchor(scale, sight.ticks, sight.at);
                (Alignment::Unknown, Change::None)
            }
            Standing::Learning => self.learn(scale, sight),
            Standing::Locked => self.keep(scale, sight),
            Standing::Suspect => self.watch(scale, sight),
        }
    }

    /// Judges a reading while the clock is learnt: after [`LEARNT`] agreements the clock is locked,
    /// and after [`FAILURES`] disagreements it is suspect. Each disagreement begins the learning
    /// again.
    fn learn(&mut self, scale: &Scale, sight: &Sight) -> (Alignment, Change) {
        if sight.residual.abs() <= sight.limit {
            if sight.follow {
                let is_later = self.relation.elapsed(sight.at) > 0.0;
                self.follow_sight(scale, sight);
                self.agreed = self.agreed.saturating_add(u8::from(is_later));
            }
            if self.agreed >= LEARNT {
                self.lock();
                self.failed = 0;
            }
            return (Alignment::Unknown, self.suspect_rate(sight.event));
        }
        // An event whose time is in doubt teaches nothing.
        if !sight.follow {
            return (Alignment::Unknown, Change::None);
        }
        self.failed += 1;
        self.anchor(scale, sight.ticks, sight.at);
        if self.failed == 1 {
            self.first_bad = sight.event;
            return (Alignment::Disagrees, Change::Doubted);
        }
        if self.failed < FAILURES {
            return (Alignment::Disagrees, Change::None);
        }
        (self.standing, self.failed, self.returned) = (Standing::Suspect, 0, 0);
        self.has_before = false;
        (Alignment::Disagrees, Change::Suspected)
    }

    /// Judges a reading of a locked clock. Each disagreement adds to the score, each agreement
    /// takes a small part back, and from [`SUSPECT`] on the clock is suspect.
    fn keep(&mut self, scale: &Scale, sight: &Sight) -> (Alignment, Change) {
        if sight.residual.abs() <= sight.limit {
            self.score = (self.score - FORGIVEN).max(0.0);
            if sight.follow {
                self.follow_sight(scale, sight);
            }
            return (Alignment::Agrees, self.suspect_rate(sight.event));
        }
        let is_first = self.score == 0.0;
        if is_first {
            (self.first_bad, self.equal) = (sight.event, 0);
        }
        // The fragments of an earlier event may come later.
        let is_earlier = sight.event < self.first_bad;
        self.first_bad = self.first_bad.min(sight.event);
        // A disagreement of which nobody knows who is wrong counts little.
        self.score += if sight.undecided { FORGIVEN } else { 1.0 };
        // Disagreements of equal size tell a jump of the clock from noise.
        let is_equal = self.equal > 0 && (sight.residual - self.away).abs() <= 2.0 * sight.limit;
        self.equal = if is_equal { self.equal.saturating_add(1) } else { 1 };
        self.away = sight.residual;
        if self.score >= SUSPECT {
            (self.standing, self.returned) = (Standing::Suspect, 0);
            // If the clock returns, it returns to what held before.
            (self.before, self.has_before) = (self.relation, true);
            return (Alignment::Disagrees, Change::Suspected);
        }
        (Alignment::Disagrees, if is_first || is_earlier { Change::Doubted } else { Change::None })
    }

    /// Suspects a clock whose rate turned out to be wrong. Then no relation of it was right.
    fn suspect_rate(&mut self, event: u64) -> Change {
        if !self.rate_is_wrong {
            return Change::None;
        }
        self.standing = Standing::Suspect;
        (self.was_locked, self.rate_is_wrong) = (false, false);
        self.first_bad = event;
        Change::Suspected
    }

    /// Judges a reading of a suspect clock: after [`BACK`] agreements the clock is believed again,
    /// with the relation from before the suspicion.
    fn watch(&mut self, scale: &Scale, sight: &Sight) -> (Alignment, Change) {
        // After a jump of constant size, the residual still changes a little with the rates.
        let room = (STRETCH * self.away.abs()).min(4.0 * scale.tolerance);
        if sight.residual.abs() > sight.limit + room {
            if self.returned > 0 && self.has_before {
                self.relation = self.before;
            }
            self.returned = 0;
            self.follow_away(scale, sight);
            let is_earlier = sight.event < self.first_bad;
            self.first_bad = self.first_bad.min(sight.event);
            return (Alignment::Disagrees, if is_earlier { Change::Suspected } else { Change::None });
        }
        if !self.was_locked {
            return (Alignment::Unknown, Change::None);
        }
        if sight.event < self.first_bad {
            // An event from before the disagreements says nothing about what the source sends now.
            return (Alignment::Agrees, Change::None);
        }
        self.returned += 1;
        if self.returned < BACK {
            // After a long pause, every reading agrees. Those that follow must agree with it, too.
            if sight.follow && self.has_before {
                self.follow_sight(scale, sight);
            }
            return (Alignment::Agrees, Change::None);
        }
        let old = if self.has_before { self.before } else { self.relation };
        let bound = old.bound + DRIFT * old.elapsed(sight.at).abs();
        self.anchor(scale, sight.ticks, sight.at);
        self.relation.set_rate(old.rate, bound.min(scale.rates));
        self.lock();
        self.score = 0.0;
        (Alignment::Agrees, Change::Returned)
    }

    /// Follows a suspect clock through a constant jump, so that its rate stays known while the
    /// relation remains the old one.
    fn follow_away(&mut self, scale: &Scale, sight: &Sight) {
        let is_equal = (sight.residual - self.away).abs() <= sight.limit;
        let is_later = self.relation.elapsed(sight.at) > 0.0;
        if !(self.was_locked && is_equal && is_later && sight.follow) {
            (self.away, self.equal) = (sight.residual, 1);
            return;
        }
        self.equal = self.equal.saturating_add(1);
        if self.equal > FOLLOWED {
            self.follow(scale, sight.ticks, sight.at, sight.residual - self.away);
            self.relation.phase -= self.away;
        }
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        self.relation.invariants();
        self.before.invariants();
        assert!(self.corrected.is_finite() && self.away.is_finite(), "{self:?}");
        assert!((0.0..SUSPECT + 1.0).contains(&self.score), "{self:?}");
        assert!(self.returned <= BACK && self.failed <= FAILURES, "{self:?}");
    }
}
