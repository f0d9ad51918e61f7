//! `[alignment]`: the comparison of the timestamps of sources with a clock.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::{
    alignment::{DetectorClock, clock::choose_lead},
    id::SourceId,
    quantities,
};
use serde::Deserialize;

use super::{
    Config, entries::Placed, forms::Whole, input::Input, role_lists::ranges, section::Section,
    source::SourceEntry, trigger::TriggerConfig,
};

/// Mean interval of the events on the clocks of generators, as `evb::input::Generator` has it.
pub const GENERATED_INTERVAL: Duration = Duration::from_millis(1);

/// The comparison of the timestamps of sources with a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AlignmentConfig {
    /// The reaction to a source that delivers the fragments of other events: with `"report"`, the
    /// run goes on, and status, page, log and report name the source; with `"pause"`, the run
    /// pauses too; with `"stop"`, it ends. After a reset of a clock and after single wrong
    /// timestamps the run always goes on, because the events are right.
    ///
    /// Default: `"report"`
    #[serde(default)]
    pub on_slip: OnSlip,
    /// The id of the source whose clock counts time, with which evb compares the other clocks.
    ///
    /// Default: of the sources with a clock, the one with the longest wrap, then with the finest
    /// tick, then with the lowest id
    #[serde(default, with = "Whole::<0, 65_535>")]
    pub lead: Option<SourceId>,
}

/// Reaction to a source that delivers the fragments of other events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnSlip {
    /// The run goes on, and evb names the source.
    #[default]
    Report,
    /// The run pauses.
    Pause,
    /// The run ends.
    Stop,
}

/// The rules by which the timestamps of the sources with clocks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Reaction to a source that delivers the fragments of other events.
    pub on_slip: OnSlip,
    /// Source whose clock counts time; `None`: no source has a clock.
    pub lead: Option<SourceId>,
    /// True if the hosts' times of triggers tell the wraps of the lead apart. Otherwise they have
    /// nothing to do with the timestamps, because triggers or timestamps are generated.
    pub uses_host_times: bool,
}

/// Reads the section, and refuses a lead that has no clock. `sources` is `None` if not all of them
/// could be read.
pub(super) fn read(
    section: &Section<'_>,
    sources: Option<&[Placed<SourceEntry>]>,
) -> Option<AlignmentConfig> {
    let config: AlignmentConfig = section.read()?;
    // Where a source is wrong, it is not among the sources.
    if let (Some(lead), Some(sources)) = (config.lead, sources) {
        let clocks = sources.iter().filter(|placed| placed.entry.clock.is_some());
        let mut clocks: Vec<u16> = clocks.map(|placed| placed.entry.id.number()).collect();
        clocks.sort_unstable();
        let is_there = sources.iter().any(|placed| placed.entry.id == lead);
        let remedy = match clocks.is_empty() {
            true => {
                "remove `lead`, or give the sources whose timestamps are to be compared a `clock`".to_owned()
            }
            false => format!("choose one of the sources with a clock: {}", ranges(clocks.iter().copied())),
        };
        if !is_there {
            section.refuse("lead", format!("there is no source {lead}"), remedy);
        } else if !clocks.contains(&lead.number()) {
            section.refuse("lead", format!("source {lead} has no `clock` that could count time"), remedy);
        }
    }
    section.finish(config)
}

/// Returns the sources with clocks in the order of their ids.
pub(super) fn clocks(config: &Config) -> Vec<(SourceId, DetectorClock)> {
    let with_clock = config.sources.iter().filter_map(|source| Some((source.id, source.clock?)));
    let mut clocks: Vec<_> = with_clock.collect();
    clocks.sort_by_key(|(id, _)| *id);
    clocks
}

/// Returns the rules of alignment, with defaults filled in.
pub(super) fn rules(config: &Config) -> Alignment {
    let clocks = clocks(config);
    let chosen = || {
        let all: Vec<_> = clocks.iter().map(|(_, clock)| *clock).collect();
        choose_lead(&all).map(|position| clocks[position].0)
    };
    Alignment {
        on_slip: config.alignment.on_slip,
        lead: config.alignment.lead.or_else(chosen),
        uses_host_times: config.supervisor.trigger != TriggerConfig::AsFastAsPossible
            && !made_timestamps(config).any(),
    }
}

/// The inputs of sources with clocks that make the timestamps themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub(super) generated: bool,
    pub(super) replayed: bool,
    /// True if front ends send timestamps.
    pub(super) sent: bool,
}

impl Made {
    fn any(self) -> bool {
        self.generated || self.replayed
    }
}

/// Returns where timestamps come from that are not those of triggers.
pub(super) fn made_timestamps(config: &Config) -> Made {
    let mut made = Made::default();
    for source in config.sources.iter().filter(|source| source.clock.is_some()) {
        match source.input {
            Input::Generator { .. } => made.generated = true,
            Input::Replay { .. } | Input::Capture { .. } => made.replayed = true,
            Input::Tcp { .. } | Input::Unix { .. } | Input::Board { .. } => made.sent = true,
        }
    }
    made
}

/// Returns the mean time between events by the timestamps; `None` if the configuration does not
/// determine it.
pub(super) fn mean_interval(config: &Config) -> Option<f64> {
    match made_timestamps(config) {
        Made { generated: true, replayed: false, sent: false } => Some(GENERATED_INTERVAL.as_secs_f64()),
        Made { generated: false, replayed: false, sent: true } => {
            config.supervisor.trigger.events_per_second().map(|rate| 1.0 / rate)
        }
        _ => None,
    }
}

/// Returns the seconds that pass by the timestamps of a run; `None` if the configuration does not
/// determine them.
pub(super) fn detector_time(config: &Config) -> Option<f64> {
    let duration = config.run.duration.map(|time| time.as_secs_f64());
    let is_real = !made_timestamps(config).any();
    let triggered = || Some(duration? * config.supervisor.trigger.events_per_second()?);
    let events = [config.run.events.map(|events| events as f64), triggered()];
    let counted = events.into_iter().flatten().reduce(f64::min);
    let by_events = counted.zip(mean_interval(config)).map(|(events, interval)| events * interval);
    by_events.into_iter().chain(duration.filter(|_| is_real)).reduce(f64::min)
}

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
pub(super) const YEAR: f64 = 365.25 * DAY;

/// Formats a number of seconds for people: `65.0 ns`, `89 µs`, `34.4 s`, `26 days`.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 2.0 * YEAR => format!("{:.0} years", long / YEAR),
        long if long >= 2.0 * DAY => format!("{:.0} days", long / DAY),
        long if long >= 2.0 * HOUR => format!("{:.1} hours", long / HOUR),
        long if long >= 120.0 => format!("{:.1} min", long / 60.0),
        short if short < 1e-6 => format!("{} ns", quantities::digits(short * 1e9)),
        short => quantities::time(Duration::from_secs_f64(short)),
    }
}
