//! [`RunReport`]: the closed ledger of a run. Its field names are those of `evbd run --summary`.

mod percentiles;
mod grant_path;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::wire::control::{RefusalReport, SourceReport};

pub use grant_path::{AnswerPath, DerivedRest, GrantPath, RunPath};
pub use percentiles::{Latency, Percentiles, Spread};

/// The outcomes of a run's triggers. In a closed ledger, triggered = inhibited + complete +
/// incomplete + rejected + lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// Triggers, and with them event ids.
    pub triggered: u64,
    /// Triggers for which there was no slot: dead time.
    pub inhibited: u64,
    /// Events given to a builder.
    pub assigned: u64,
    /// Events built with every expected source.
    pub complete: u64,
    /// Events built with sources missing.
    pub incomplete: u64,
    /// Events lost with cause and culprit, see [`RunReport::problems`].
    pub lost: u64,
    /// Events rejected by a filter.
    pub rejected: u64,
    /// Events accepted by a sink, as the builders report.
    pub written: u64,
}

/// An operator's notes on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotation {
    /// The kind of run, such as `physics` or `calibration`; empty if not given.
    pub kind: String,
    /// A comment; empty if there is none.
    pub comment: String,
}

impl Annotation {
    /// The longest kind, in bytes.
    pub const MAX_KIND: usize = 64;
    /// The longest comment, in bytes.
    pub const MAX_COMMENT: usize = 4096;

    /// Returns true if both are short enough to be kept.
    pub fn fits(&self) -> bool {
        self.kind.len() <= Self::MAX_KIND && self.comment.len() <= Self::MAX_COMMENT
    }
}

/// Amounts of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByteCounts {
    /// Payload of the events that sinks accepted.
    pub payload: u64,
}

/// Rates from the first trigger to the last completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Complete and incomplete events per second.
    pub events_per_s: f64,
    /// Their payload, bytes per second.
    pub payload_bytes_per_s: f64,
}

/// Faults and repairs in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkCounts {
    /// Segments that the kernel sent again.
    pub tcp_retransmits: u64,
    /// Data that evb sent again.
    pub resends: u64,
    /// Fragments that arrived twice.
    pub duplicates: u64,
    /// Fragments that arrived after their event was closed.
    pub late: u64,
    /// Fragments with a wrong checksum.
    pub crc_errors: u64,
    /// Counts of lanes over datagrams.
    pub datagrams: DatagramCounts,
}

/// Connections that were refused, or that ended because their bytes were not a peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusalCounts {
    /// All refused connections.
    pub refused: u64,
    /// Connections with another protocol.
    pub foreign: u64,
    /// Connections without a key, with the wrong one, or with one where none is configured.
    pub keys: u64,
    /// Connections with malformed messages.
    pub malformed: u64,
    /// Connections that sent nothing in time, or closed during the handshake.
    pub silent: u64,
    /// Peers that are not part of the run.
    pub unwelcome: u64,
    /// Connections closed unread: too many from that address had failed or were under way.
    pub limited: u64,
    /// Connections that sent bytes without a valid tag, during the handshake or later.
    pub forged: u64,
}

impl RefusalCounts {
    /// Adds the counts of one listener.
    pub fn add(&mut self, report: &RefusalReport) {
        let RefusalReport { foreign, keys, malformed, silent, unwelcome, limited, forged } = *report;
        for (count, more) in [
            (&mut self.foreign, foreign),
            (&mut self.keys, keys),
            (&mut self.malformed, malformed),
            (&mut self.silent, silent),
            (&mut self.unwelcome, unwelcome),
            (&mut self.limited, limited),
            (&mut self.forged, forged),
        ] {
            *count = count.saturating_add(more);
            self.refused = self.refused.saturating_add(more);
        }
    }
}

/// Outcomes of datagrams on their way to the builders; all zero over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramCounts {
    /// Datagrams received from sources.
    pub received: u64,
    /// Datagrams that never arrived, by their sequence numbers.
    pub absent: u64,
    /// Lane bytes declared lost.
    pub lost_bytes: u64,
    /// Ranges that builders requested again.
    pub resends: u64,
    /// Losses detected by a timer rather than by later data.
    pub timeouts: u64,
    /// Datagrams that arrived after they had been declared lost: requested again too early.
    pub late_after_loss: u64,
    /// Datagrams that held nothing new.
    pub duplicates: u64,
    /// Datagrams with a wrong checksum. This count and those below are of builders as a whole, not
    /// of one source.
    pub damaged: u64,
    /// Datagrams of another protocol.
    pub foreign: u64,
    /// Datagrams of another epoch, or of a connection that no longer exists.
    pub stale: u64,
    /// Datagrams that name a lane but lack the tag of its source. Counted only where peers share a
    /// key.
    pub forged: u64,
    /// Datagrams with a valid tag that were received before. Counted only where peers share a key.
    pub replayed: u64,
    /// Dropped by builders' own kernels because they were not read in time.
    pub receive_drops: u64,
    /// Trains dropped by sources' kernels: no memory, no room in the device's queue, or past their
    /// departure time.
    pub send_drops: u64,
    /// Trains that sources' kernels did not cut into datagrams (`UDP_SEGMENT`).
    pub segmentation_refused: u64,
    /// Datagrams sent one by one because of that.
    pub uncut: u64,
    /// Time to repair a loss: from the arrival of the bytes before it, or from the grant of the
    /// lost ones, until they arrived. There is one value for each datagram that was sent again and
    /// needed. These times, too, are of builders as a whole.
    pub recovery_us: Spread,
    /// Time from a grant to the first datagram that answers it.
    pub round_trip_us: Spread,
}

/// One source's part in the run, by its own report and those of the builders.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceSummary {
    /// The source's id.
    pub id: u16,
    /// True if its final report arrived.
    pub reported: bool,
    /// Fragments pushed.
    pub pushed: u64,
    /// Payload bytes of the fragments pushed.
    pub pushed_bytes: u64,
    /// Lane bytes sent, resends included.
    pub sent_bytes: u64,
    /// Fragments whose events a sink accepted.
    pub committed: u64,
    /// Fragments that builders received.
    pub fragments: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// Events that were closed without it.
    pub missing: u64,
    /// Its fragments that arrived too late.
    pub late: u64,
    /// Its fragments that arrived twice, or were pushed twice.
    pub duplicate: u64,
    /// Its fragments that were not expected.
    pub unexpected: u64,
    /// Fragments that it refused from readout: too large, or too far ahead of the run.
    pub refused: u64,
    /// Its fragments with a wrong checksum.
    pub crc_errors: u64,
    /// Events that its fragment completed as the last one.
    pub last: u64,
    /// Mean time from the fragment before to such a last fragment, µs.
    pub last_by_mean_us: f64,
    /// Fragments dropped because their event was inhibited.
    pub inhibited: u64,
    /// Fragments dropped because their event was closed without it.
    pub closed: u64,
    /// Fragments that it still held at the end of the run.
    pub uncommitted: u64,
    /// Segments that its kernel sent again.
    pub tcp_retransmits: u64,
    /// Data that it sent again.
    pub resends: u64,
    /// Outcomes of its datagrams.
    pub datagrams: DatagramCounts,
    /// Stalls of its lanes.
    pub stalls: u64,
    /// Reconnections of its lanes.
    pub reconnects: u64,
    /// Highest fill of its backlog.
    pub backlog_peak_bytes: u64,
    /// Accuracy of its pacing.
    pub pacing: PacingSummary,
    /// Its part of the way from a grant to its data.
    pub grant_path_us: AnswerPath,
    /// Total time for which it was down.
    pub down_s: f64,
    /// Events that were assigned while it was down.
    pub events_without: u64,
}

/// The accuracy with which a source kept the rates of its lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PacingSummary {
    /// Trains of bytes that it sent.
    pub departures: u64,
    /// Median lateness of the trains that had to wait for their departure time, µs.
    pub late_p50_us: f64,
    /// 99th percentile of that lateness.
    pub late_p99_us: f64,
    /// Maximum of that lateness.
    pub late_max_us: f64,
    /// Lateness that bursts could not make up for, s: for this time, a lane's rate was lost.
    pub forfeited_s: f64,
}

impl PacingSummary {
    /// Reads a source's final report.
    pub fn of(own: &SourceReport) -> Self {
        Self {
            departures: own.departures,
            late_p50_us: own.late_p50_ns as f64 / 1e3,
            late_p99_us: own.late_p99_ns as f64 / 1e3,
            late_max_us: own.late_max_ns as f64 / 1e3,
            forfeited_s: own.forfeited_ns as f64 / 1e9,
        }
    }

    /// Returns the worse of two sources in every field.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            departures: self.departures.max(other.departures),
            late_p50_us: self.late_p50_us.max(other.late_p50_us),
            late_p99_us: self.late_p99_us.max(other.late_p99_us),
            late_max_us: self.late_max_us.max(other.late_max_us),
            forfeited_s: self.forfeited_s.max(other.forfeited_s),
        }
    }
}

/// One builder's part in the run, by its own report and by the supervisor's counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuilderSummary {
    /// The builder's id.
    pub id: u16,
    /// True if its final report arrived.
    pub reported: bool,
    /// Events given to it.
    pub assigned: u64,
    /// Built with every expected source.
    pub complete: u64,
    /// Built with sources missing.
    pub incomplete: u64,
    /// Rejected by its filter.
    pub rejected: u64,
    /// Lost by it or with it.
    pub lost: u64,
    /// Accepted by its sink.
    pub written: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// The part of the time in which it had no free slot.
    pub busy_fraction: f64,
    /// Highest memory use of its events.
    pub memory_peak_bytes: u64,
    /// Time from the trigger to the last fragment.
    pub build_latency_us: Latency,
    /// Time from a grant to its last byte.
    pub grant_delay_us: Latency,
    /// Time from its grants to their data, and its own stages of that.
    pub grant_path_us: GrantPath,
    /// Bound on the error of its latencies where clocks differ, µs.
    pub clock_error_us: f64,
    /// Completions of events that it did not have.
    pub protocol_faults: u64,
}

/// The clock by which latencies were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClockSummary {
    /// True if all hosts share one clock; otherwise latencies are by the supervisor's clock, as
    /// heartbeats tell it.
    pub shared: bool,
    /// The largest bound on the error of any builder's clock offset, µs.
    pub error_us: f64,
}

/// Triggers that were inhibited for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadTimeCause {
    /// The cause in words, which name the builder's sink or the source that held the others up.
    pub cause: String,
    /// Number of inhibited triggers.
    pub inhibited: u64,
}

/// Beginning of the problem in [`RunReport::problems`] by which evb reports a defect of its own:
/// events are neither built nor named.
pub const LEDGER_OPEN: &str = "the ledger does not close";

/// End of the problem that names a builder with a defect.
pub const NOT_ASSIGNED: &str = "that were not assigned to it";

/// The closed ledger of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// The run number.
    pub run: u32,
    /// The operator's notes.
    pub annotation: Annotation,
    /// The epoch of the run.
    pub epoch: u64,
    /// 0: every event accounted for and complete. 1: some incomplete, lost or failed.
    pub exit_code: u8,
    /// The outcome in a sentence.
    pub verdict: String,
    /// Time from the first possible trigger until the last event was settled.
    pub duration_s: f64,
    /// Outcomes of the triggers.
    pub events: EventCounts,
    /// Amounts of data.
    pub bytes: ByteCounts,
    /// Event and data rates.
    pub rates: Rates,
    /// Time from the trigger to the last fragment.
    pub build_latency_us: Latency,
    /// Time from grants to data by stage, over all builders and sources.
    pub grant_path_us: RunPath,
    /// Inhibited / triggered.
    pub dead_time_fraction: f64,
    /// The part of the time in which no builder had a free slot.
    pub busy_fraction: f64,
    /// The causes of inhibited triggers, the most frequent first.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// Faults and repairs in the network.
    pub network: NetworkCounts,
    /// Refused connections, at the supervisor's port and those of the builders.
    pub security: RefusalCounts,
    /// Every source of the run.
    pub sources: Vec<SourceSummary>,
    /// Every builder of the run.
    pub builders: Vec<BuilderSummary>,
    /// The clock by which latencies were measured.
    pub clock: ClockSummary,
    /// Everything that went wrong.
    pub problems: Vec<String>,
    /// Remarkable incidents that cost no event: builders that left and whose events others built,
    /// or sources that were away while no event needed them.
    pub remarks: Vec<String>,
    /// The reason why the run could not begin or go on, if it failed.
    pub failure: Option<String>,
}

impl EventCounts {
    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        assert!(self.open().is_some(), "no more events are settled than triggered: {self:?}");
    }

    /// Returns the triggers that are neither settled nor inhibited: zero in a closed ledger, `None`
    /// if more were settled than triggered.
    pub fn open(&self) -> Option<u64> {
        [self.inhibited, self.complete, self.incomplete, self.rejected, self.lost]
            .iter()
            .try_fold(self.triggered, |open, settled| open.checked_sub(*settled))
    }
}

/// Returns `part / whole`, and zero if `whole` is zero.
pub fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
