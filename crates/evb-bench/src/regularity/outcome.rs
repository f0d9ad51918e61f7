//! The results of a run.

use std::time::Duration;

use crate::trigger::times::TimesKind;
use evb_core::time::Instant;
use evb_net::pacing::Gaps;
use serde::Serialize;

use super::{
    receiver::Arrivals,
    sender::{Sent, Stream, Way},
    ticked::TickSigns,
};

/// Relative difference up to which a gap counts as equal to the nominal gap.
pub(super) const TOLERANCE: f64 = 0.05;

/// The results of one run. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// `shaped`, `bare` (a timer loop without bucket or queue) or `unshaped`.
    pub way: &'static str,
    /// Name of the executor that kept the departure times.
    pub executor: String,
    /// Name of the trigger's distribution.
    pub trigger: &'static str,
    /// Mean rate of the triggers in Hz; `None` without triggers.
    pub trigger_hz: Option<f64>,
    /// Number of the receiver, from 1.
    pub receiver: u32,
    /// Number of the round, from 1.
    pub round: u32,
    /// Mean offered rate / assigned rate.
    pub load: Option<f64>,
    /// Offered rate / assigned rate, with the offered rate computed from the actual random
    /// triggers.
    pub load_drawn: Option<f64>,
    /// Number of messages that the kernel accepted for sending.
    pub sent: u64,
    /// Number of different messages that arrived.
    pub received: u64,
    /// Number of messages that were sent and did not arrive.
    pub lost: u64,
    /// Number of repeated arrivals of messages that had arrived before.
    pub duplicates: u64,
    /// Number of messages that arrived after a message with a higher number.
    pub reordered: u64,
    /// Number of received datagrams that do not belong to this run.
    pub foreign: u64,
    /// Number of arrivals without a time stamp of the kernel.
    pub unstamped: u64,
    /// Number of messages that the sender's kernel reported as dropped or refused.
    pub refused: u64,
    /// Largest number of messages that waited for their departure at the same time.
    pub queue_peak: u64,
    /// Number of messages that found an idle line, so that the trigger set the gap before them.
    pub idle_starts: u64,
    /// Time between messages at the assigned rate.
    pub nominal_us: Option<f64>,
    /// Gap that regular messages have: the time between messages at the assigned rate, or the
    /// period of periodic triggers that ask for less.
    pub expected_gap_us: Option<f64>,
    /// Number of messages at the start that left faster than the assigned rate, from tokens that
    /// were there before: gaps below 95 % of the time between messages at the assigned rate, before
    /// the first gap above.
    pub ahead_at_start: u64,
    /// Rate from the first arrival to the last, in buffer bytes.
    pub got_bits_per_s: f64,
    /// Gaps at the receiver.
    pub gap_us: Spread,
    /// Part of the gaps that are within 5 % of the expected gap.
    pub within_5_percent: Option<f64>,
    /// Coefficient of variation of the gaps at the receiver: standard deviation / mean.
    pub variation: Option<f64>,
    /// Coefficient of variation of the gaps that an ideal line would produce from the same
    /// triggers.
    pub variation_ideal: Option<f64>,
    /// Coefficient of variation of the times between triggers.
    pub variation_triggers: Option<f64>,
    /// Delay between the departure times of messages and their actual hand-over to the kernel.
    pub late_us: Spread,
    /// Processor time of the sending thread / duration of the run.
    pub cpu: Option<f64>,
    /// Signs of a timer that expires at ticks; `None` for executors without ticks and for loads
    /// below 1.
    pub ticks: Option<TickSigns>,
    /// All gaps in the order of arrival, for histograms.
    #[serde(skip)]
    pub gaps: Vec<f64>,
}

impl RunOutcome {
    /// Returns true if the run belongs to the case that a verdict is about.
    pub(super) fn is_of(
        &self,
        executor: &str,
        trigger: &str,
        trigger_hz: Option<f64>,
        receiver: u32,
    ) -> bool {
        self.executor == executor
            && self.trigger == trigger
            && self.trigger_hz == trigger_hz
            && self.receiver == receiver
    }
}

/// Percentiles of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// First percentile.
    pub p01: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    fn of(gaps: &Gaps) -> Self {
        let at = |part| gaps.quantile(part).map_or(f64::NAN, micros);
        Self { p01: at(0.01), p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the durations as a set of gaps, for its statistics.
pub(super) fn gaps_of(durations: &[Duration]) -> Gaps {
    let mut at = Instant::ZERO;
    let rest = durations.iter().map(|gap| {
        at += *gap;
        at
    });
    Gaps::between(&[Instant::ZERO].into_iter().chain(rest).collect::<Vec<_>>())
}

/// The circumstances of a run that its stream parameters do not contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) executor: &'a str,
    pub(super) receiver: u32,
    pub(super) round: u32,
    pub(super) load: Option<f64>,
    pub(super) time: Duration,
    pub(super) cpu: Option<Duration>,
}

pub(super) fn outcome(
    stream: &Stream,
    with: Circumstances<'_>,
    sent: &Sent,
    arrivals: &Arrivals,
) -> RunOutcome {
    let (way, trigger, rate) = match stream.way {
        Way::Unshaped(kind) => ("unshaped", kind.word(), None),
        Way::Shaped(kind, rate) => ("shaped", kind.word(), Some(rate)),
        Way::Bare(rate) => ("bare", "-", Some(rate)),
    };
    let buffer = stream.size.buffer();
    let nominal = rate.map(|rate| buffer / rate);
    let times: Vec<Instant> = arrivals.nanos.iter().map(|nanos| Instant::from_nanos(*nanos)).collect();
    let gaps = Gaps::between(&times);
    let in_order: Vec<f64> = times.windows(2).map(|pair| micros(pair[1].since(pair[0]))).collect();
    let expected = expected_gap(stream.way, nominal, with.load);
    let over = with.load.is_some_and(|load| load > 1.0);
    let signs = |ticks, rate| TickSigns::of(&in_order, ticks, stream.depth_at(rate) / rate);
    let signs = stream.shaper.ticks().zip(rate).filter(|_| over).map(|(ticks, rate)| signs(ticks, rate));
    let (duplicates, reordered) = disorder(&arrivals.numbers);
    let received = arrivals.numbers.len() as u64 - duplicates;
    let span = times.first().zip(times.last()).map_or(0.0, |(first, last)| last.since(*first).as_secs_f64());
    let bits = buffer.count() as f64 * 8.0 * gaps.count() as f64;
    let triggers = gaps_of(&sent.triggers);
    let mean_trigger = sent.triggers.iter().sum::<Duration>().as_secs_f64() / sent.triggers.len() as f64;
    RunOutcome {
        way,
        executor: with.executor.to_owned(),
        trigger,
        trigger_hz: stream.way.kind().map(|kind| kind.rate().hertz()),
        receiver: with.receiver,
        round: with.round,
        load: with.load,
        load_drawn: nominal.filter(|_| !sent.triggers.is_empty()).map(|gap| gap.as_secs_f64() / mean_trigger),
        sent: sent.messages,
        received,
        lost: sent.messages.saturating_sub(received),
        duplicates,
        reordered,
        foreign: arrivals.foreign,
        unstamped: arrivals.unstamped,
        refused: sent.refused,
        queue_peak: sent.queue_peak,
        idle_starts: sent.idle_starts,
        nominal_us: nominal.map(micros),
        expected_gap_us: expected.map(micros),
        ahead_at_start: nominal.map_or(0, |nominal| ahead(&in_order, micros(nominal))),
        got_bits_per_s: if span > 0.0 { bits / span } else { 0.0 },
        gap_us: Spread::of(&gaps),
        within_5_percent: expected.map(|expected| gaps.within(expected, TOLERANCE)),
        variation: gaps.coefficient_of_variation(),
        variation_ideal: gaps_of(&sent.ideal).coefficient_of_variation(),
        variation_triggers: triggers.coefficient_of_variation(),
        late_us: Spread::of(&gaps_of(&sent.lateness)),
        cpu: with.cpu.map(|cpu| cpu.as_secs_f64() / with.time.as_secs_f64()),
        ticks: signs,
        gaps: in_order,
    }
}

/// Returns the gap that regular messages have.
fn expected_gap(way: Way, nominal: Option<Duration>, load: Option<f64>) -> Option<Duration> {
    match way.kind() {
        Some(TimesKind::Periodic { rate }) if load.is_none_or(|load| load <= 1.0) => {
            Some(Duration::from_nanos(rate.period_nanos() as u64))
        }
        _ => nominal,
    }
}

/// Returns the number of messages that left ahead of the assigned rate at the start.
pub(super) fn ahead(gaps: &[f64], nominal_us: f64) -> u64 {
    gaps.iter().take_while(|gap| **gap < nominal_us * (1.0 - TOLERANCE)).count() as u64
}

/// Returns the number of repeated messages, and the number of messages that came after a message
/// with a higher number.
fn disorder(numbers: &[u32]) -> (u64, u64) {
    let different: std::collections::BTreeSet<u32> = numbers.iter().copied().collect();
    let reordered = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    ((numbers.len() - different.len()) as u64, reordered as u64)
}
