//! The judgement of a [`Case`]: explanations are tried one after the other, the most specific
//! first.

use super::super::{
    case::{Best, Case, Interval, LEAST, MeasuredRate, SHIFTS, median},
    explanation::Explanation,
    gathered::Reading,
    scale::PER_NANOSECOND,
};
use crate::index::ClockIndex;

/// Number of misses by which the second best shift must be worse than the best. With one outlier
/// in a thousand healthy readings, three misses are a likelihood ratio of 10⁹.
pub(super) const MARGIN: usize = 3;
/// Readings without a miss after which earlier misses belong to another fault.
const APART: usize = 64;
/// Readings after which the clock of a lasting fault is judged by other means than a shift.
const LASTING: usize = 40;
/// Readings after which single stamps count as single, for suspect clocks and for others.
const SINGLE: [usize; 2] = [24, 120];

/// The readings that disagree, as one block.
struct Block<'c> {
    list: &'c [Reading],
    /// True if readings agree again after the block.
    has_ended: bool,
    /// Number of readings in the block that disagree.
    wrong: usize,
}

/// The explanation of what happened to a clock, and the first event that it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) verdict: Explanation,
    pub(super) since: u64,
    /// Knowledge of the events before it.
    pub(super) begin: Begin,
}

/// Knowledge about the begin of a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The event directly before is right, so that no earlier one can be wrong whose fragment comes
    /// later.
    Seen,
    /// The builders' doubts and the readings agree on it.
    Likely,
    /// Earlier events may be wrong, too: the source was started again, and its readings of them are
    /// lost, or no builder knew its clock yet.
    Lost,
}

impl Judged {
    pub(super) fn new(verdict: Explanation, since: u64) -> Self {
        Self { verdict, since, begin: Begin::Likely }
    }
}

/// Returns the explanation of a case, and the first event that it concerns; `None` if more events
/// are needed. The last time, there is always an explanation.
pub(super) fn judge(case: &Case<'_>, is_suspect: bool, is_last: bool) -> Option<Judged> {
    let (block, single) = if case.is_proven {
        let block = block(case);
        let single = single(case, &block, is_suspect, is_last);
        (block, single)
    } else {
        (Block { list: case.sent, has_ended: false, wrong: case.sent.len() }, None)
    };
    let since = block.list.first().or_else(|| case.sent.first())?.event;
    let verdict = match single {
        Some(verdict) => Some(verdict),
        None => lasting(case, &block, is_last),
    };
    verdict.map(|verdict| match verdict {
        // A slip may have begun before the readings that are in doubt.
        Explanation::Slip { shift, offset_is_new } => {
            let (since, right) = begin(case, block.list, shift);
            // If readings before it fit, the clock was not set.
            let offset_is_new = offset_is_new && (case.is_proven || right.is_none());
            let begin = match right {
                Some(right) if right + 1 == since => Begin::Seen,
                Some(right) if case.has_event_within(right + 1..since) => Begin::Lost,
                None if since > 1 && !(case.is_proven && case.reaches_back) => Begin::Lost,
                _ => Begin::Likely,
            };
            Judged { verdict: Explanation::Slip { shift, offset_is_new }, since, begin }
        }
        _ => Judged::new(verdict, since),
    })
}

/// Returns the first event of a slip, and the last one before it that is right, if there is one.
/// The builders that got the first fragments may not know the clock, or report later.
fn begin(case: &Case<'_>, list: &[Reading], shift: i64) -> (u64, Option<u64>) {
    let first = list.first().map_or(case.doubted, |reading| reading.event);
    let shifted = list.array_windows().rev();
    let mut shifted = shifted.skip_while(|pair| case.interval_fits(pair, [shift; 2]) != Some(true));
    let Some([_, later]) = shifted.next() else { return (first, None) };
    // From the last two readings that are shifted alike, the begin is sought backwards.
    let (mut later, mut since) = (*later, later.event);
    let earlier = case.all.partition_point(|reading| reading.event < since);
    for reading in case.all[..earlier].iter().rev() {
        let pair = [*reading, later];
        let is_shifted = case.interval_fits(&pair, [shift; 2]) == Some(true);
        let is_right = match case.is_proven {
            true => case.lies_on(*reading, 0),
            false => case.interval_fits(&pair, [0, shift]),
        };
        match (is_right, is_shifted) {
            (Some(true), false) => return (since, Some(reading.event)),
            // The interval between two triggers may be too short to tell.
            (Some(true), true) | (None, false) => {}
            (Some(false), _) | (None, true) => since = reading.event,
        }
        if is_shifted {
            later = *reading;
        }
    }
    // The readings of the first wrong events may have left the ring.
    (since.min(case.doubted), None)
}

/// Returns the shift of a clock beside the ruler; `None` if several fit, or none.
pub(super) fn shift_of(case: &Case<'_>) -> Option<i64> {
    let is_clear = |best: &Best| best.fits && best.margin >= MARGIN;
    let by_intervals = case.best(LEAST, |shift| case.fit_of_intervals(case.sent, shift)).filter(is_clear);
    let on_relation = || {
        case.best(LEAST, |shift| case.fit(case.sent, shift)).filter(|best| case.is_proven && is_clear(best))
    };
    let by_step = || match step(case, case.sent.get(..1)?)? {
        Explanation::Slip { shift, .. } if !case.is_proven => Some(shift),
        _ => None,
    };
    by_intervals.or_else(on_relation).map(|best| best.shift).or_else(by_step)
}

/// Finds the block of disagreements: it begins after the last long agreement, and ends where
/// readings agree for longer than they did within it.
fn block<'c>(case: &'c Case<'_>) -> Block<'c> {
    let is_wrong = |reading: &Reading| case.lies_on(*reading, 0) == Some(false);
    let wrong: Vec<usize> = (0..case.sent.len()).filter(|at| is_wrong(&case.sent[*at])).collect();
    let Some(last) = wrong.last().copied() else {
        return Block { list: case.sent, has_ended: false, wrong: 0 };
    };
    // `wrong` has the positions of the wrong readings; those before the last long agreement belong
    // to another fault.
    let begin = wrong.array_windows().rposition(|[one, next]| next - one > APART).map_or(0, |at| at + 1);
    let wrong = &wrong[begin..];
    // The longest agreement within the block.
    let longest = wrong.array_windows().map(|[one, next]| next - one - 1).max().unwrap_or(0);
    let has_ended = case.sent.len() - 1 - last >= 8.max(4 * longest);
    let end = if has_ended { last + 1 } else { case.sent.len() };
    let first = if begin == 0 { 0 } else { wrong[0] };
    Block { list: &case.sent[first..end], has_ended, wrong: wrong.len() }
}

/// Explains a few wrong readings among right ones.
fn single(case: &Case<'_>, block: &Block<'_>, is_suspect: bool, is_last: bool) -> Option<Explanation> {
    if block.wrong == 0 {
        return (is_last && intervals_hold(case, block.list)).then_some(Explanation::SingleStamps);
    }
    // More than three wrong readings, or such as go on, are no single stamps.
    if !block.has_ended || block.wrong > 3 {
        return None;
    }
    if let [one, other] = *block.list
        && other.event == one.event + 1
        && case.lies_on(one, 1) == Some(true)
        && case.lies_on(other, -1) == Some(true)
    {
        return Some(Explanation::SwappedPair);
    }
    // Enough right readings must have followed, and more for a clock that is not suspect.
    (case.sent.len() >= SINGLE[usize::from(!is_suspect)]).then_some(Explanation::SingleStamps)
}

/// Explains a block of wrong readings that is longer than single stamps: a slip if one shift fits
/// clearly, or else a clock that stands still, that was exchanged with another clock, or whose
/// intervals are wrong. Returns `None` if more events are needed.
fn lasting(case: &Case<'_>, block: &Block<'_>, is_last: bool) -> Option<Explanation> {
    let (list, least) = (block.list, if block.has_ended { 3 } else { LEAST });
    if case.is_proven
        && let Some(best) = case.best(least, |shift| case.fit(list, shift))
        && best.fits
    {
        let is_slip = best.shift != 0 && best.margin >= MARGIN && block.wrong >= MARGIN;
        let is_sure = case.is_large(list, best.shift) || intervals_agree(case, list, best.shift);
        if is_slip && is_sure {
            return Some(Explanation::Slip { shift: best.shift, offset_is_new: false });
        }
        // A relation that fits at some shift is not left for another explanation before the end.
        if !is_last {
            return None;
        }
        if best.shift == 0 {
            return match intervals_hold(case, list) {
                true => Some(Explanation::SingleStamps),
                false => by_intervals(case, block, least, is_last),
            };
        }
    }
    // The other explanations need more readings than a shift does.
    if list.len() < if block.has_ended { 4 } else { LASTING } && !is_last {
        return None;
    }
    if list.len() >= 4 && list.iter().all(|reading| reading.ticks == list[0].ticks) || stood_still(case, list)
    {
        return Some(Explanation::Stuck);
    }
    if let Some(other) = exchanged(case, list) {
        return Some(Explanation::ExchangedWith(other));
    }
    by_intervals(case, block, least, is_last)
}

/// Returns true if the clock stood still between different triggers, and then went on.
fn stood_still(case: &Case<'_>, list: &[Reading]) -> bool {
    let is_wrong = |pair: &&[Reading; 2]| case.interval_fits(pair, [0; 2]) == Some(false);
    // Equal readings at triggers that were too close for a tick to pass are no fault.
    let still = list.array_windows().take_while(|[one, next]| one.ticks == next.ticks);
    let length = still.clone().count();
    still.filter(is_wrong).count() >= 3 && list[length..].array_windows().filter(is_wrong).count() <= 1
}

/// Returns true if the intervals between readings fit at that shift alone. They do not depend on
/// how far the clock moved in a pause.
fn intervals_agree(case: &Case<'_>, list: &[Reading], shift: i64) -> bool {
    let best = case.best(LASTING, |shift| case.fit_of_intervals(list, shift));
    best.is_some_and(|best| best.shift == shift && best.fits && best.margin >= MARGIN)
}

/// Returns true unless the intervals between readings say that they do not belong to their events.
/// After a long pause, a relation no longer tells.
fn intervals_hold(case: &Case<'_>, list: &[Reading]) -> bool {
    let fit = case.fit_of_intervals(list, 0);
    fit.tried < 3 || fit.holds()
}

/// Returns the other clock on whose relation the readings lie.
fn exchanged(case: &Case<'_>, list: &[Reading]) -> Option<ClockIndex> {
    if !case.is_proven {
        return None;
    }
    let lies_on = |other: &ClockIndex| {
        let (scale, known) = (&case.survey.scales[other.get()], &case.survey.relations[other.get()]);
        let misses = |reading: &&Reading| {
            case.time(reading.event, 0).is_none_or(|at| {
                let residual = known.relation.residual(scale, reading.ticks, at);
                residual.abs() > known.relation.limit(scale, at)
            })
        };
        // At most 2 % may be missed, as in `Fit::holds`.
        known.is_proven && list.iter().filter(misses).count() * 50 <= list.len()
    };
    ClockIndex::all(case.survey.len()).filter(|other| *other != case.clock).find(lies_on)
}

/// Explains readings by the intervals between them, which need no known offset.
fn by_intervals(case: &Case<'_>, block: &Block<'_>, least: usize, is_last: bool) -> Option<Explanation> {
    let list = block.list;
    let best = case.best(least, |shift| case.fit_of_intervals(list, shift));
    let unshifted = case.fit_of_intervals(list, 0);
    // Intervals that fit without a shift, but for 2 %, belong to their events.
    if unshifted.tried >= 3 && unshifted.misses * 50 <= unshifted.tried {
        return unshifted_intervals(case, block, is_last);
    }
    if let Some(best) = best.filter(|best| best.fits && best.shift != 0 && best.margin >= MARGIN) {
        let lies_on_old = case.is_proven && case.fit(list, best.shift).holds();
        return Some(Explanation::Slip { shift: best.shift, offset_is_new: !lies_on_old });
    }
    if let Some(ppm) = common_factor(case, list) {
        return Some(Explanation::OtherRate { ppm });
    }
    let several_fit = best.is_some_and(|best| best.fits);
    is_last.then_some(if several_fit { Explanation::Unclear } else { Explanation::Foreign })
}

/// Explains readings whose intervals are right: the clock was set, or has other bits or another
/// rate than declared.
fn unshifted_intervals(case: &Case<'_>, block: &Block<'_>, is_last: bool) -> Option<Explanation> {
    let (list, scale) = (block.list, &case.scale);
    if !case.is_proven {
        return match case.measured_rate(list) {
            Some(measured) if measured.is_wrong(scale) => {
                Some(Explanation::OtherRate { ppm: measured.rate * 1e6 })
            }
            Some(MeasuredRate { rate, .. }) if rate.abs() <= scale.rates => {
                step(case, list).or_else(|| is_last.then_some(Explanation::SingleStamps))
            }
            _ => is_last.then_some(Explanation::Unclear),
        };
    }
    // Soon after a jump, the relation is known best.
    let soon: Vec<(f64, f64)> =
        list.iter().take(9).filter_map(|reading| case.residual(*reading, 0)).collect();
    let jump = median(&mut soon.iter().map(|(residual, _)| *residual).collect::<Vec<_>>())?;
    let room = soon.iter().map(|(_, limit)| *limit).fold(0.0, f64::max);
    if let Some(bits) = other_bits(case, list, jump, room) {
        return Some(Explanation::OtherBits(bits));
    }
    if !case.rate_is_known() {
        // While the rate is not known well, a wrong rate looks like a small jump that grows.
        if let Some(measured) = case.measured_rate(list).filter(|measured| measured.is_wrong(scale)) {
            return Some(Explanation::OtherRate { ppm: measured.rate * 1e6 });
        }
        if jump.abs() < 8.0 * scale.tolerance && !is_last {
            return None;
        }
    }
    // A clock that was set does not go back to its old time.
    let jumped = Explanation::ClockJump { nanos: jump / PER_NANOSECOND };
    Some(if block.has_ended { Explanation::Foreign } else { jumped })
}

/// Explains a step between readings that fit among themselves, before and after it. Builders that
/// saw few readings before it have learnt the clock after it.
fn step(case: &Case<'_>, list: &[Reading]) -> Option<Explanation> {
    let pair = across_step(case, list)?;
    let mut shifts = (-SHIFTS..=SHIFTS).filter(|shift| case.interval_fits(&pair, [0, *shift]) == Some(true));
    match (shifts.next(), shifts.next()) {
        (Some(shift), None) => Some(Explanation::Slip { shift, offset_is_new: false }),
        (None, _) => {
            let Interval { residual: jump, elapsed, .. } = case.interval(&pair, [0; 2])?;
            let room = 2.0 * (case.scale.tolerance + case.scale.rates * elapsed.abs());
            let jumped = Explanation::ClockJump { nanos: jump / PER_NANOSECOND };
            Some(other_bits(case, list, jump, room).map_or(jumped, Explanation::OtherBits))
        }
        _ => None,
    }
}

/// Returns the readings before and soon after the last step that is not behind the begin of `list`.
/// Single wrong readings are no step: those around them fit.
fn across_step(case: &Case<'_>, list: &[Reading]) -> Option<[Reading; 2]> {
    let end = case.all.partition_point(|reading| reading.event <= list[0].event);
    let fits = |pair: &[Reading; 2]| case.interval_fits(pair, [0; 2]);
    let at = case.all[..end].array_windows().rposition(|pair| fits(pair) == Some(false))?;
    let (earlier, before) = (*case.all.get(at.checked_sub(1)?)?, case.all[at]);
    let pair = [before, *case.all.get(at + 3)?];
    (fits(&[earlier, before]) == Some(true) && fits(&pair) == Some(false)).then_some(pair)
}

/// Returns the bits of a clock that jumped by its true wrap. A clock whose wrap is shorter than the
/// usual interval never agreed with the others.
fn other_bits(case: &Case<'_>, list: &[Reading], jump: f64, room: f64) -> Option<u32> {
    let declared = case.scale.bits()?;
    // The power of two that is nearest to the jump, in ticks.
    let bits = (jump.abs() * case.scale.per_unit).log2().round();
    let wrap = bits.exp2() * case.scale.tick;
    let is_wrap = (jump.abs() - wrap).abs() <= room && room < 0.2 * wrap;
    let intervals = list.array_windows().take(8).filter_map(|pair| case.interval(pair, [0; 2]));
    let usual = median(&mut intervals.map(|interval| interval.elapsed).collect::<Vec<_>>());
    let is_long = usual.is_none_or(|usual| wrap > usual);
    (bits >= 8.0 && bits < f64::from(declared) && is_wrap && is_long).then_some(bits as u32)
}

/// Returns the deviation of the rate in parts per million, if the intervals of both halves of the
/// readings fit up to the same factor.
fn common_factor(case: &Case<'_>, list: &[Reading]) -> Option<f64> {
    let mut intervals: Vec<Interval> =
        list.array_windows().filter_map(|pair| case.interval(pair, [0; 2])).collect();
    intervals.retain(|interval| interval.elapsed > 0.0);
    if intervals.len() < 4 {
        return None;
    }
    let slope_of = |intervals: &[Interval]| {
        let residual: f64 = intervals.iter().map(|interval| interval.residual).sum();
        let elapsed: f64 = intervals.iter().map(|interval| interval.elapsed).sum();
        residual / elapsed
    };
    let slope = slope_of(&intervals);
    let (first, second) = intervals.split_at(intervals.len() / 2);
    let is_steady = (slope_of(first) - slope_of(second)).abs() < 0.3 * slope.abs();
    let misses = |interval: &&Interval| {
        let expected = slope * interval.elapsed;
        (interval.residual - expected).abs() > 2.0 * case.scale.tolerance + 0.05 * expected.abs()
    };
    // At most 5 % of the intervals may be missed.
    let fits = intervals.iter().filter(misses).count() * 20 <= intervals.len();
    let is_other = slope.abs() > case.scale.rates && slope.abs() < 0.3;
    (fits && is_steady && is_other).then_some((slope + case.old.rate) * 1e6)
}
