//! [`Case`]: the readings of a doubted clock beside the times of the events, and how well they fit
//! at a shift.

use core::ops::Range;

use super::{
    gathered::{Gathered, Reading},
    relation::{DRIFT, Relation},
    ring::RING_READINGS,
    scale::Scale,
    survey::Survey,
};
use crate::index::ClockIndex;

/// Fewest readings of a lasting fault that say by how much a clock slipped.
pub(super) const LEAST: usize = 6;
/// Largest shift that is tried, in both directions.
pub(super) const SHIFTS: i64 = 16;
/// Bound on a rate's error below which the rate counts as known.
const KNOWN_RATE: f64 = 2e-6;
/// Largest deviation of a rate that a wrong declaration explains.
const FASTEST_RATE: f64 = 0.3;
/// Room for the error of a rate in a comparison of intervals.
const RATE_ROOM: f64 = 4e-6;

/// The readings of a doubted clock, and the times of the events by the ruler.
pub(super) struct Case<'a> {
    pub(super) survey: &'a Survey,
    pub(super) clock: ClockIndex,
    /// The clock that gives the times of the events.
    ruler: ClockIndex,
    pub(super) scale: Scale,
    /// The relation on which the source was right.
    pub(super) old: Relation,
    /// True if that relation was ever proven.
    pub(super) is_proven: bool,
    /// First event that a builder doubts.
    pub(super) doubted: u64,
    /// Events and their times by the ruler.
    times: Vec<(u64, i64)>,
    /// Readings of the clock since the first doubt.
    pub(super) sent: &'a [Reading],
    /// All readings of the clock.
    pub(super) all: &'a [Reading],
    /// True if the source remembers as many readings as a ring can hold: it was not started again
    /// lately.
    pub(super) reaches_back: bool,
}

/// Number of readings that do not fit, of those that could be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) misses: usize,
    pub(super) tried: usize,
}

/// The shift that fits best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub(super) shift: i64,
    pub(super) fits: bool,
    /// Number of misses by which the next best shift is worse.
    pub(super) margin: usize,
}

/// The interval between two readings, beside that of their events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// Excess of the interval by the readings over the interval by the events.
    pub(super) residual: f64,
    /// Length by the events.
    pub(super) elapsed: f64,
    /// Time of the later event.
    pub(super) end: i64,
}

/// A deviation of a clock's rate that was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredRate {
    /// Deviation from the declared rate, as a part of it.
    pub(super) rate: f64,
    /// Uncertainty of the deviation.
    pub(super) error: f64,
}

impl MeasuredRate {
    /// Returns true if the rate differs by more than the declared accuracies of the clocks explain.
    pub(super) fn is_wrong(self, scale: &Scale) -> bool {
        self.rate.abs() - self.error > scale.rates
    }
}

impl Fit {
    /// Counts a reading that was compared.
    fn add(&mut self, misses: bool) {
        self.misses += usize::from(misses);
        self.tried += 1;
    }

    /// Returns true if at most 2 % are missed, or one of at least 12: a spurious trigger may be
    /// among them.
    pub(super) fn holds(self) -> bool {
        self.misses * 50 <= self.tried || (self.misses == 1 && self.tried >= 12)
    }
}

impl<'a> Case<'a> {
    /// Puts a case together for a clock that is doubted since the event `since`; `None` if the
    /// ruler or the clock has no reading.
    pub(super) fn new(
        survey: &'a Survey,
        gathered: &'a Gathered,
        clock: ClockIndex,
        ruler: ClockIndex,
        since: u64,
    ) -> Option<Self> {
        let (scale, known) = (*survey.scales.get(clock.get())?, *survey.relations.get(clock.get())?);
        // Where the host's time of a trigger is not known, that of the event before it serves.
        let mut near = survey.now.host;
        let time = |reading: &Reading| {
            near = gathered.host(reading.event).unwrap_or(near);
            (reading.event, survey.time(ruler, reading.ticks, near))
        };
        let times: Vec<_> = gathered.readings(ruler).iter().map(time).collect();
        let ((first, _), (last, _)) = (*times.first()?, *times.last()?);
        // Rings end at different events, so only readings within those of the ruler are compared.
        let within = |list: &'a [Reading], from: u64, to: u64| {
            let begin = list.partition_point(|reading| reading.event < from);
            let end = list.partition_point(|reading| reading.event <= to);
            list.get(begin..end).unwrap_or_default()
        };
        let all = within(gathered.readings(clock), first, last);
        let sent = within(all, since, last);
        // What is known of two clocks beside the lead holds between the two.
        let is_proven = known.is_proven && survey.relations[ruler.get()].is_proven;
        Some(Self {
            survey,
            clock,
            ruler,
            scale,
            old: known.relation,
            is_proven,
            doubted: since,
            times,
            sent,
            all,
            reaches_back: gathered.readings(clock).len() >= RING_READINGS,
        })
    }

    /// Returns true if the ruler has a reading of any of these events.
    pub(super) fn has_event_within(&self, events: Range<u64>) -> bool {
        let first = self.times.partition_point(|(event, _)| *event < events.start);
        self.times.get(first).is_some_and(|(event, _)| *event < events.end)
    }

    /// Returns the time of the event that lies `shift` after another one.
    pub(super) fn time(&self, event: u64, shift: i64) -> Option<i64> {
        let event = event.checked_add_signed(shift)?;
        let place = self.times.binary_search_by_key(&event, |(event, _)| *event).ok()?;
        Some(self.times[place].1)
    }

    /// Returns residual and limit of a reading on the old relation, at a shift.
    pub(super) fn residual(&self, reading: Reading, shift: i64) -> Option<(f64, f64)> {
        let at = self.time(reading.event, shift)?;
        let limit = self.old.limit(&self.scale, at) + self.survey.room(self.ruler, at);
        Some((self.old.residual(&self.scale, reading.ticks, at), limit))
    }

    /// Returns true if a reading lies on the old relation, at a shift; `None` if the
    /// event's time is not known.
    pub(super) fn lies_on(&self, reading: Reading, shift: i64) -> Option<bool> {
        self.residual(reading, shift).map(|(residual, limit)| residual.abs() <= limit)
    }

    /// Returns how well readings fit on the old relation, at a shift.
    pub(super) fn fit(&self, list: &[Reading], shift: i64) -> Fit {
        let mut fit = Fit::default();
        for lies in placed(list, shift).iter().filter_map(|reading| self.lies_on(*reading, shift)) {
            fit.add(!lies);
        }
        fit
    }

    /// Returns how well the intervals between readings fit those of the events, at a shift. This
    /// needs no known offset.
    pub(super) fn fit_of_intervals(&self, list: &[Reading], shift: i64) -> Fit {
        let mut fit = Fit::default();
        for pair in placed(list, shift).array_windows() {
            if let Some(fits) = self.interval_fits(pair, [shift; 2]) {
                fit.add(!fits);
            }
        }
        fit
    }

    /// Returns true if the interval between two readings fits that of the events, with a shift for
    /// each; `None` if the time of one of the events is not known.
    pub(super) fn interval_fits(&self, pair: &[Reading; 2], shifts: [i64; 2]) -> Option<bool> {
        let interval = self.interval(pair, shifts)?;
        // Each of both readings has its tolerance.
        let limit = 2.0 * self.scale.tolerance + self.rate_room(interval.end) * interval.elapsed.abs();
        Some(interval.residual.abs() <= limit)
    }

    /// Returns the interval between two readings, with a shift for each; `None` if the time of one
    /// of the events is not known.
    pub(super) fn interval(&self, pair: &[Reading; 2], shifts: [i64; 2]) -> Option<Interval> {
        let [earlier, later] = pair;
        let begin = self.time(earlier.event, shifts[0])?;
        let end = self.time(later.event, shifts[1])?;
        let elapsed = end.wrapping_sub(begin) as f64;
        let residual = self.old.interval(&self.scale, earlier.ticks, later.ticks, elapsed);
        Some(Interval { residual, elapsed, end })
    }

    /// Returns the largest relative error of the rate, at a time.
    fn rate_room(&self, at: i64) -> f64 {
        let widest = 2.0 * self.scale.rates;
        if !self.rate_is_known() {
            return widest;
        }
        (RATE_ROOM + DRIFT * self.old.elapsed(at).abs()).min(widest)
    }

    pub(super) fn rate_is_known(&self) -> bool {
        self.is_proven && self.old.bound < KNOWN_RATE
    }

    /// Returns the deviation of the rate that the readings have, unless something else happened
    /// between them. As long as the rate is not known, readings from
    /// before the doubt count, too, if they have the same rate.
    pub(super) fn measured_rate(&self, list: &[Reading]) -> Option<MeasuredRate> {
        let is_smooth = self.fit_of_intervals(self.all, 0).misses == 0;
        let of_all = Some(self.all).filter(|_| is_smooth).and_then(|all| self.steady_rate(all));
        of_all.or_else(|| self.steady_rate(list))
    }

    /// Returns the deviation of the rate over these readings and the error of this number, if both
    /// halves of the readings have the same deviation.
    fn steady_rate(&self, list: &[Reading]) -> Option<MeasuredRate> {
        let (first, middle, last) = (list.first()?, list.get(list.len() / 2)?, list.last()?);
        let slope = |from: &Reading, to: &Reading| {
            let Interval { residual, elapsed, .. } = self.interval(&[*from, *to], [0; 2])?;
            let error = 2.0 * self.scale.tolerance / elapsed;
            (elapsed > 0.0).then(|| MeasuredRate { rate: residual / elapsed, error })
        };
        let (first_half, second_half) = (slope(first, middle)?, slope(middle, last)?);
        let whole = slope(first, last)?;
        // The two halves differ only by their measuring errors, and by a small part of the
        // deviation itself.
        let difference = (first_half.rate - second_half.rate).abs();
        let is_steady = difference <= first_half.error + second_half.error + 0.3 * whole.rate.abs();
        let rate = self.old.rate + whole.rate;
        (is_steady && rate.abs() < FASTEST_RATE).then_some(MeasuredRate { rate, error: whole.error })
    }

    /// Returns true if too few readings could be compared to say that they fit at no shift: of many
    /// triggers, the events may have been taken by chance only.
    pub(super) fn may_fit(&self) -> bool {
        let fit = |shift| match self.is_proven {
            true => self.fit(self.sent, shift),
            false => self.fit_of_intervals(self.sent, shift),
        };
        (-SHIFTS..=SHIFTS).map(fit).any(|fit| fit.misses == 0 && fit.tried < LEAST)
    }

    /// Returns the shift at which readings fit best, of those at which at least `least` readings
    /// can be compared.
    pub(super) fn best(&self, least: usize, fit: impl Fn(i64) -> Fit) -> Option<Best> {
        let mut fits: Vec<(i64, Fit)> = (-SHIFTS..=SHIFTS).map(|shift| (shift, fit(shift))).collect();
        fits.retain(|(_, fit)| fit.tried >= least.max(1));
        let missed_part = |fit: &Fit| fit.misses * 10_000 / fit.tried;
        // Of shifts that fit equally well, the smallest one is taken.
        let (shift, best) = *fits.iter().min_by_key(|(shift, fit)| (missed_part(fit), shift.abs()))?;
        let others = fits.iter().filter(|(other, _)| *other != shift);
        let misses_of_next = others.map(|(_, fit)| fit.misses).min().unwrap_or(0);
        Some(Best { shift, fits: best.holds(), margin: misses_of_next.saturating_sub(best.misses) })
    }

    /// Returns true if a slip by `shift` moves readings by much more than the clock itself may have
    /// moved.
    pub(super) fn is_large(&self, list: &[Reading], shift: i64) -> bool {
        let step = |reading: &Reading| {
            let (from, to) = (self.time(reading.event, 0)?, self.time(reading.event, shift)?);
            Some(to.wrapping_sub(from).unsigned_abs() as f64)
        };
        let mut steps: Vec<f64> = list.iter().filter_map(step).collect();
        // Triggers that are too close to each other do not show a slip.
        steps.retain(|step| *step > 4.0 * self.scale.tolerance);
        let limits = list.iter().filter_map(|reading| self.residual(*reading, shift));
        let room = limits.map(|(_, limit)| limit).fold(0.0, f64::max);
        median(&mut steps).is_some_and(|step| room < 0.25 * step)
    }
}

/// Returns the readings that can belong to events at a shift. The first fragments after a trigger
/// that a board had twice belong to none: the events before them have their own.
fn placed(list: &[Reading], shift: i64) -> &[Reading] {
    let first = list.first().map_or(0, |reading| reading.event.saturating_add_signed(-shift.min(0)));
    &list[list.partition_point(|reading| reading.event < first)..]
}

/// Returns the median of numbers without NaN; `None` if there are none.
pub(super) fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}
