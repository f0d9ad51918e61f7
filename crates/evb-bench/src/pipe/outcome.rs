//! The results of the study.

use evb_core::units::Rate;
use evb_sim::{LongPipe, PipeReport};
use serde::Serialize;

use super::cases::{Case, Kind};

/// Duration of a [`PipeSeries`], or of the whole run if it is shorter, in ms.
pub(super) const SERIES_MS: usize = 2000;

/// The study with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipeStudy {
    /// Name of the benchmark: `pipe`.
    pub bench: &'static str,
    /// Description of the settings that all runs share.
    pub setting: String,
    /// X, the rate of the slowest link, in line bytes.
    pub bottleneck_bits_per_s: u64,
    /// Packets of full size that the slowest link carries in a millisecond.
    pub bottleneck_packets_per_ms: f64,
    /// Packets of full size that the fast host's link carries in a millisecond.
    pub fast_packets_per_ms: f64,
    /// X·RTT/Y: the part of a round trip for which the fast host is busy, in ms.
    pub busy_ms: f64,
    /// (Y−X)·X·RTT/Y: the buffer that the fast host needs, in line bytes, as `evbd check` computes
    /// it.
    pub computed_buffer_line_bytes: u64,
    /// The longest queue of a fast host that begins with a slow start, in line bytes.
    pub queue_after_slow_start_line_bytes: u64,
    /// The longest queue of a fast host that sends its window at once, in line bytes.
    pub queue_of_window_line_bytes: u64,
    /// Results, one for each case.
    pub points: Vec<PipePoint>,
    /// Numbers of packets in each millisecond, for one run of each case.
    pub series: Vec<PipeSeries>,
    /// Verdicts on the results.
    pub verdicts: Vec<Verdict>,
}

/// The results of all runs of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipePoint {
    /// Name of the case.
    pub case: String,
    /// The part that the case has in the study.
    #[serde(skip)]
    pub(super) kind: Kind,
    /// Rate of the host's link, in line bytes.
    pub host_bits_per_s: u64,
    /// Length of the host's transmit queue, in packets.
    pub transmit_queue: usize,
    /// Goodput of the slowest run.
    pub min_bits_per_s: u64,
    /// Median goodput of the runs.
    pub median_bits_per_s: u64,
    /// Goodput of the fastest run.
    pub max_bits_per_s: u64,
    /// Goodput of each run, in the order of the seeds.
    pub runs_bits_per_s: Vec<u64>,
    /// Most packets that left the sending host in a millisecond, in any run.
    pub peak_sent_per_ms: u32,
    /// Most packets that reached the receiving host in a millisecond, in any run.
    pub peak_received_per_ms: u32,
    /// Packets that the router dropped (mean of the runs).
    pub mean_dropped: f64,
    /// Number of times that the host's transmit queue was full (mean of the runs).
    pub mean_refused: f64,
    /// Retransmission timeouts (mean of the runs).
    pub mean_timeouts: f64,
    /// Longest queue of the router in any run, in buffer bytes.
    pub queue_peak_bytes: u64,
}

/// The numbers of packets that one run of a case sent and received in each millisecond of a part of
/// the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipeSeries {
    /// Name of the case.
    pub case: String,
    /// The part that the case has in the study.
    #[serde(skip)]
    pub(super) kind: Kind,
    /// Length of the host's transmit queue, in packets.
    pub transmit_queue: usize,
    /// Time of the first value since the begin of the run, in ms.
    pub from_ms: usize,
    /// Packets that left the sending host, for each millisecond.
    pub sent: Vec<u32>,
    /// Packets that reached the receiving host, for each millisecond.
    pub received: Vec<u32>,
}

/// A verdict: a figure and its bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Description of the figure.
    pub what: String,
    /// The figure.
    pub figure: f64,
    /// The relation that must hold between figure and bound: `below` or `at least`.
    pub relation: &'static str,
    /// The bound.
    pub bound: f64,
    /// Unit of figure and bound; empty for a ratio.
    pub unit: &'static str,
    /// True if the relation holds.
    pub holds: bool,
}

impl Verdict {
    pub(super) fn below(what: impl Into<String>, figure: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.into(), figure, relation: "below", bound, unit, holds: figure < bound }
    }

    pub(super) fn at_least(what: impl Into<String>, figure: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.into(), figure, relation: "at least", bound, unit, holds: figure >= bound }
    }
}

/// The results of one run, without the packets of all milliseconds.
#[derive(Clone, Debug)]
pub(super) struct RunOutcome {
    goodput: Rate,
    peak_sent: u32,
    peak_received: u32,
    dropped: u64,
    refused: u64,
    timeouts: u64,
    queue_peak: u64,
    series: Option<PipeSeries>,
}

impl RunOutcome {
    /// Simulates a run of a case; the first run keeps its series.
    pub(super) fn of(case: &Case, number: u64) -> Self {
        let pipe = LongPipe { seed: case.pipe.seed.wrapping_add(number), ..case.pipe.clone() };
        let report = pipe.run();
        let peak = |bins: &[u32]| bins.iter().copied().max().unwrap_or_default();
        Self {
            goodput: report.goodput,
            peak_sent: peak(&report.sent),
            peak_received: peak(&report.received),
            dropped: report.dropped,
            refused: report.refused,
            timeouts: report.timeouts,
            queue_peak: report.queue_peak.count(),
            series: (number == 0).then(|| series(case, &report)),
        }
    }
}

/// Returns two seconds of a run: of an unpaced fast host those around its largest peak, with
/// clusters those after the interval control, and otherwise the last.
fn series(case: &Case, report: &PipeReport) -> PipeSeries {
    let length = report.sent.len();
    let largest = report.sent.iter().enumerate().max_by_key(|(at, count)| (**count, length - at));
    let wanted = match case.kind {
        Kind::Fast | Kind::Gap(_) => largest.map_or(0, |(at, _)| at.saturating_sub(SERIES_MS / 2)),
        Kind::Clusters => report.spaced_until.map_or(0, |until| until.as_millis() as usize),
        Kind::Equal | Kind::Pace { .. } => length,
    };
    let from = wanted.min(length.saturating_sub(SERIES_MS));
    let until = (from + SERIES_MS).min(length);
    PipeSeries {
        case: case.name.clone(),
        kind: case.kind,
        transmit_queue: case.pipe.transmit_queue,
        from_ms: from,
        sent: report.sent[from..until].to_vec(),
        received: report.received[from..until].to_vec(),
    }
}

/// Returns the point and the series of a case from its runs.
pub(super) fn point(case: &Case, runs: &[RunOutcome]) -> (PipePoint, Option<PipeSeries>) {
    let each: Vec<u64> = runs.iter().map(|run| run.goodput.bits_per_second()).collect();
    let mut sorted = each.clone();
    sorted.sort_unstable();
    let most = |of: &dyn Fn(&RunOutcome) -> u32| runs.iter().map(of).max().unwrap_or_default();
    let mean =
        |of: &dyn Fn(&RunOutcome) -> u64| runs.iter().map(of).sum::<u64>() as f64 / runs.len().max(1) as f64;
    let point = PipePoint {
        case: case.name.clone(),
        kind: case.kind,
        host_bits_per_s: case.pipe.host_rate.bits_per_second(),
        transmit_queue: case.pipe.transmit_queue,
        min_bits_per_s: sorted.first().copied().unwrap_or_default(),
        median_bits_per_s: sorted.get(sorted.len() / 2).copied().unwrap_or_default(),
        max_bits_per_s: sorted.last().copied().unwrap_or_default(),
        runs_bits_per_s: each,
        peak_sent_per_ms: most(&|run| run.peak_sent),
        peak_received_per_ms: most(&|run| run.peak_received),
        mean_dropped: mean(&|run| run.dropped),
        mean_refused: mean(&|run| run.refused),
        mean_timeouts: mean(&|run| run.timeouts),
        queue_peak_bytes: runs.iter().map(|run| run.queue_peak).max().unwrap_or_default(),
    };
    (point, runs.iter().find_map(|run| run.series.clone()))
}

impl PipePoint {
    /// Returns the range of the runs' goodput as a part of their median.
    pub(super) fn spread(&self) -> f64 {
        (self.max_bits_per_s - self.min_bits_per_s) as f64 / self.median_bits_per_s.max(1) as f64
    }
}
