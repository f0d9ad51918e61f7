//! Signs of a timer that expires only at ticks, and the verdict on runs with such a timer.

use std::time::Duration;

use serde::Serialize;

use super::ticks::Ticks;

/// Distance of a gap from a multiple of the tick, as a part of the tick, up to which the gap counts
/// as that multiple. By chance, a fifth of the gaps would be that close.
const NEAR: f64 = 0.1;
/// Smallest part of the gaps that must be multiples of the tick.
pub(super) const ON_TICKS: f64 = 0.95;
/// Ticks at the start of a run that are left out, besides twice the time for which a full bucket
/// lasts: until more messages wait than a tick brings tokens for, messages also leave between
/// ticks.
const UNSETTLED: u32 = 5;

/// The signs of ticks in the gaps of one run. Messages that come with gaps of less than half a tick
/// belong to one clump; a message that leaves alone is a clump too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TickSigns {
    /// Ticks per second.
    pub hz: u32,
    /// Time between two ticks in µs.
    pub tick_us: f64,
    /// Number of clumps.
    pub clumps: u64,
    /// Mean number of messages in a clump.
    pub messages_per_clump: f64,
    /// Median time from the first message of a clump to the first message of the next, in µs.
    pub clump_gap_us: f64,
    /// Part of these times that are a multiple of the tick, within 10 % of a tick.
    pub on_ticks: f64,
    /// Part of these times that are a single tick, within 10 % of a tick.
    pub one_tick: f64,
}

impl TickSigns {
    /// Looks for ticks in gaps (µs, in the order of arrival) behind a bucket that lasts for
    /// `depth`.
    pub(super) fn of(gaps: &[f64], ticks: Ticks, depth: Duration) -> Self {
        let tick_us = ticks.period_nanos() / 1e3;
        let settled = depth.as_secs_f64() * 2e6 + f64::from(UNSETTLED) * tick_us;
        let mut elapsed = 0.0;
        let steady = gaps.iter().skip_while(|gap| {
            elapsed += **gap;
            elapsed < settled
        });
        // The clumps in which the steady part begins and ends may be cut, so they are not counted.
        let (mut starts, mut messages, mut clump) = (Vec::new(), 0_u64, None::<(f64, u64)>);
        for gap in steady {
            clump = match clump.map(|(since, count)| (since + gap, count)) {
                Some((since, count)) if *gap < tick_us / 2.0 => Some((since, count + 1)),
                None if *gap < tick_us / 2.0 => None,
                ended => {
                    if let Some((since, count)) = ended {
                        starts.push(since);
                        messages += count;
                    }
                    Some((0.0, 1))
                }
            };
        }
        let part = |good: &dyn Fn(f64) -> bool| {
            let count = starts.iter().filter(|gap| good(**gap / tick_us)).count();
            count as f64 / starts.len().max(1) as f64
        };
        let near = |ticks: f64, whole: f64| whole >= 1.0 && (ticks - whole).abs() <= NEAR;
        let clumps = starts.len() as u64;
        let (on_ticks, one_tick) =
            (part(&|ticks| near(ticks, ticks.round())), part(&|ticks| near(ticks, 1.0)));
        starts.sort_by(f64::total_cmp);
        Self {
            hz: ticks.hertz(),
            tick_us,
            clumps,
            messages_per_clump: messages as f64 / clumps.max(1) as f64,
            clump_gap_us: starts.get(starts.len() / 2).copied().unwrap_or(f64::NAN),
            on_ticks,
            one_tick,
        }
    }
}

/// The verdict on an executor whose timer expires only at ticks: such an executor must fail the
/// criterion of regularity, and the gaps must show its ticks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TickVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Name of the trigger's distribution.
    pub trigger: &'static str,
    /// Mean rate of the triggers in Hz.
    pub trigger_hz: Option<f64>,
    /// Number of the receiver, from 1.
    pub receiver: u32,
    /// Part of the gaps that are within 5 % of the nominal gap, for each round.
    pub shaped: Vec<f64>,
    /// Signs of ticks, for each round.
    pub signs: Vec<TickSigns>,
    /// True if no round has at least 98 % of its gaps within 5 % of nominal, as is expected.
    pub fails_regularity: bool,
    /// True if in one round at least 95 % of the times between clumps are multiples of the tick.
    pub on_ticks: bool,
    /// True if more messages than one leave at a tick, and 95 % of the clumps of one round are a
    /// single tick apart.
    pub clumped_at_ticks: bool,
    /// True if a tick is longer than the nominal gap, so that clumps are expected.
    pub clumps_expected: bool,
    /// True if the executor behaves as one with ticks must.
    pub behaves: bool,
}

impl TickVerdict {
    /// Draws the conclusions from the rounds.
    pub(super) fn concluded(mut self, nominal_us: f64, regular: f64) -> Self {
        self.fails_regularity = !self.shaped.is_empty() && self.shaped.iter().all(|share| *share < regular);
        self.on_ticks = self.signs.iter().any(|signs| signs.clumps > 2 && signs.on_ticks >= ON_TICKS);
        let clumped = |signs: &TickSigns| signs.messages_per_clump >= 1.5 && signs.one_tick >= ON_TICKS;
        self.clumped_at_ticks = self.signs.iter().any(clumped);
        self.clumps_expected = self.signs.first().is_some_and(|signs| signs.tick_us > nominal_us);
        self.behaves =
            self.fails_regularity && self.on_ticks && (self.clumped_at_ticks || !self.clumps_expected);
        self
    }

    /// Returns the round that shows the ticks best.
    pub(super) fn best(&self) -> Option<&TickSigns> {
        self.signs.iter().max_by(|a, b| a.on_ticks.total_cmp(&b.on_ticks))
    }
}

#[cfg(test)]
mod tests;
