//! TOML configurations of the systems to measure.

use std::{fmt, fmt::Write as _, str::FromStr, time::Duration};

use evb_core::{
    ledger::RunReport,
    units::{Bytes, Rate},
    wire::record::{ANNOUNCEMENT, FRAGMENT_HEADER, RECORD_HEADER},
};
use evb_net::pacing::{Executor as _, Software};
use evb_shaper::{
    ByteMeasure, Clusters, Pace,
    cost::{CELL, PacketCost},
};

use crate::{
    cpu, free_ports,
    run::{RunError, run_system},
};

/// Time that a lane at its rate takes for the fragment of one event.
const EVENT: Duration = Duration::from_millis(5);
const SMALLEST: Bytes = Bytes::new(1000);
/// Size of the largest fragment.
pub(super) const LARGEST: Bytes = Bytes::new(1_000_000);
/// Slots per builder: the number of events that a builder may have under construction at the same
/// time.
const SLOTS: u32 = 4;
const MTU: u32 = 1500;
/// Largest payload in bytes, without headers, that a single send can carry with segmentation
/// offload.
const LONGEST_TRAIN: Bytes = Bytes::new(64_000);

/// The size of a system: number of sources × number of builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) sources: u16,
    pub(super) builders: u16,
}

impl Shape {
    /// Returns the number of lanes: one from each source to each builder, where at least one of the
    /// two numbers is 1.
    pub(super) fn lanes(self) -> u16 {
        self.sources.max(self.builders)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.sources, self.builders)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not a system with one source or one builder, such as 1x3 or 3x1");
        let (sources, builders) = text.split_once(['x', '×']).ok_or_else(fault)?;
        let number =
            |text: &str| text.trim().parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(fault);
        let shape = Self { sources: number(sources)?, builders: number(builders)? };
        if shape.sources.min(shape.builders) == 1 { Ok(shape) } else { Err(fault()) }
    }
}

/// The mechanism that enforces a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The program enforces the rate, with a timerfd timer.
    Timer,
    /// The program enforces the rate, with a thread that spins until the departure time.
    Spin,
    /// The kernel enforces the rate on each socket (`SO_MAX_PACING_RATE`).
    PacingRate,
    /// The kernel enforces the rate with token buckets that `evbd provision` has set up.
    Tbf,
}

const KEEPERS: [(&str, Keeper, &str); 4] = [
    ("timerfd", Keeper::Timer, "offload = \"software\""),
    ("spin", Keeper::Spin, "offload = \"software\"\nspin = \"force\""),
    ("pacing-rate", Keeper::PacingRate, "offload = \"pacing-rate\""),
    ("tbf", Keeper::Tbf, "offload = \"tbf\""),
];

impl Keeper {
    fn lines(self) -> &'static str {
        KEEPERS.iter().find(|(_, keeper, _)| *keeper == self).map_or("", |(_, _, lines)| lines)
    }
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(KEEPERS.iter().find(|(_, keeper, _)| keeper == self).map_or("", |(word, _, _)| word))
    }
}

impl FromStr for Keeper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = KEEPERS.iter().map(|(word, _, _)| *word).collect();
        let fault = || format!("there is no executor `{text}`; choose from {}", words.join(", "));
        KEEPERS.iter().find(|(word, _, _)| *word == text).map(|(_, keeper, _)| *keeper).ok_or_else(fault)
    }
}

/// The traffic of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Each lane sends as fast as its rate permits.
    Shaped { fragment: Bytes, keeper: Keeper, rate: Rate },
    /// Lanes are not shaped; events come at a given rate, or as fast as possible if no rate is
    /// given.
    Unshaped { fragment: Bytes, events_per_s: Option<f64> },
}

impl Load {
    pub(super) fn fragment(self) -> Bytes {
        match self {
            Self::Shaped { fragment, .. } | Self::Unshaped { fragment, .. } => fragment,
        }
    }
}

/// Returns the fragment size that a lane of this rate carries in [`EVENT`], within limits.
pub(super) fn fragment(rate: Rate) -> Bytes {
    (rate * EVENT).clamp(SMALLEST, LARGEST)
}

/// The results of a single run.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) load: Load,
    pub(super) report: RunReport,
    /// Processor time of all roles.
    pub(super) cpu: Option<Duration>,
}

/// Runs all roles in this process over loopback.
pub(super) fn run(shape: Shape, load: Load, duration: Duration) -> Result<Ran, RunError> {
    let text = configuration(shape, load, duration)?;
    let loaded = evb_config::read(&text, "bench shaping")
        .map_err(|problems| RunError::Operator(problems.to_string()))?;
    let before = cpu::of_process();
    let report = run_system(loaded.config)?;
    let cpu = before.zip(cpu::of_process()).map(|(before, after)| after.saturating_sub(before));
    Ok(Ran { load, report, cpu })
}

pub(super) fn configuration(shape: Shape, load: Load, duration: Duration) -> Result<String, RunError> {
    let ports = free_ports(usize::from(shape.builders) + 1)?;
    let (trigger, shaping, rate) = match load {
        Load::Shaped { keeper, rate, .. } => (
            "\"as-fast-as-possible\"".to_owned(),
            format!("rate_counts = \"buffer\"\n{}\n", keeper.lines()),
            format!("rate = \"{} bit/s\"\n", rate.bits_per_second()),
        ),
        Load::Unshaped { events_per_s: Some(rate), .. } if rate > 0.0 => {
            (format!("{{ kind = \"periodic\", rate = \"{rate} Hz\" }}"), String::new(), String::new())
        }
        Load::Unshaped { .. } => ("\"as-fast-as-possible\"".to_owned(), String::new(), String::new()),
    };
    let mut text = format!(
        "[run]\nduration = \"{} ms\"\n[supervisor]\nlisten = \"127.0.0.1:{}\"\nslots = {SLOTS}\ntrigger = {trigger}\n\
         [network]\nmtu = {MTU}\n[shaping]\nmode = \"none\"\n{shaping}\
         [[source]]\nids = \"1-{}\"\nbind = \"127.0.0.1\"\ninput = {{ kind = \"generator\", size = \"{} B\" }}\n",
        duration.as_millis(),
        ports[0],
        shape.sources,
        load.fragment().count(),
    );
    for (id, port) in (1..=shape.builders).zip(&ports[1..]) {
        let _ = write!(
            text,
            "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\n{rate}sink = {{ kind = \"null\" }}\n"
        );
    }
    Ok(text)
}

/// Converts a payload in fragments of this size to the bits of the L2 frames that the shaper
/// counts. The frames include lane and record headers, packets for an MTU of 1500, and the
/// announcement of each fragment, which travels in a packet of its own when a lane waits for its
/// departure time. Loopback itself does not divide data into packets of the MTU.
pub(super) fn buffer_bits(payload: f64, fragment: Bytes, kept: Option<(Rate, Keeper)>) -> f64 {
    let cost = PacketCost::tcp(MTU, CELL);
    let train = kept.map_or(LONGEST_TRAIN, |(rate, keeper)| train(rate, keeper, &cost)).count() as f64;
    let lane = (fragment.count() + FRAGMENT_HEADER) as f64;
    let stream = lane + lane / train * RECORD_HEADER as f64;
    let frames = stream * cost.packet_buffer().count() as f64 / cost.packet_payload().count() as f64;
    let announcement = cost.wire(Bytes::new((RECORD_HEADER + ANNOUNCEMENT) as u64)).buffer.count() as f64;
    payload / fragment.count() as f64 * (frames + announcement) * 8.0
}

/// Returns the number of lane bytes that are sent together at this rate.
fn train(rate: Rate, keeper: Keeper, cost: &PacketCost) -> Bytes {
    let pace = Pace::usual(rate, ByteMeasure::Buffer, cost, None);
    let spacing = match keeper {
        Keeper::Spin => Software::spinning().spacing(),
        Keeper::Timer | Keeper::PacingRate | Keeper::Tbf => Software::timer().spacing(),
    };
    let cluster = Clusters::of(&pace, spacing, cost).lane;
    cluster.min(cost.train(pace.burst / 2, pace.measure)).min(LONGEST_TRAIN)
}
