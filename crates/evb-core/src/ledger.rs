//! [`RunReport`]: what became of a run, when its ledger is closed. Its field names are those of `evbd run --summary`.

mod percentiles;
mod grant_path;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::wire::control::{RefusalReport, SourceReport};

pub use grant_path::{AnswerPath, DerivedRest, GrantPath, RunPath};
pub use percentiles::{Latency, Percentiles, Spread};

/// What became of the run's triggers. Closed, triggered = inhibited + complete + incomplete + rejected + lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// Triggers, and with them event ids.
    pub triggered: u64,
    /// Triggers for which there was no slot: dead time.
    pub inhibited: u64,
    /// Given to a builder.
    pub assigned: u64,
    /// Built with every expected source.
    pub complete: u64,
    /// Built with sources missing.
    pub incomplete: u64,
    /// Lost with cause and culprit, see [`RunReport::problems`].
    pub lost: u64,
    /// Rejected by a filter.
    pub rejected: u64,
    /// Accepted by a sink, as the builders report.
    pub written: u64,
}

/// What people say of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotation {
    /// What kind of run it is, as `physics` or `calibration`; empty if nobody said.
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

/// How fast it went, from the first trigger to the last completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Complete and incomplete events per second.
    pub events_per_s: f64,
    /// Their payload, bytes per second.
    pub payload_bytes_per_s: f64,
}

/// What the network did to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkCounts {
    /// Segments that the kernel sent again.
    pub tcp_retransmits: u64,
    /// Data that evb sent again.
    pub resends: u64,
    /// Fragments that came twice.
    pub duplicates: u64,
    /// Fragments that came after their event was closed.
    pub late: u64,
    /// Fragments whose checksum did not fit.
    pub crc_errors: u64,
    /// Of lanes that go by datagrams.
    pub datagrams: DatagramCounts,
}

/// Connections that were turned away, or that ended by bytes that no peer has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusalCounts {
    /// All of them.
    pub refused: u64,
    /// Of another protocol.
    pub foreign: u64,
    /// Without a key, with another one, or with one where there is none.
    pub keys: u64,
    /// That said what makes no sense.
    pub malformed: u64,
    /// That said nothing in time, or went away in the middle.
    pub silent: u64,
    /// Peers that did not belong there.
    pub unwelcome: u64,
    /// Closed unread: too many of that address failed, or were under way.
    pub limited: u64,
    /// That brought bytes without the right tag: handshakes, and connections that had been let in.
    pub forged: u64,
}

impl RefusalCounts {
    /// Adds what one listener counted.
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

/// What became of datagrams on their way to the builders; all zero over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramCounts {
    /// Datagrams of sources that came.
    pub received: u64,
    /// That never came, by their sequence.
    pub absent: u64,
    /// Lane bytes declared lost.
    pub lost_bytes: u64,
    /// Ranges that builders asked for again.
    pub resends: u64,
    /// How often a loss was found by a timer, and not by what came later.
    pub timeouts: u64,
    /// That came after they had been declared lost: asked for again too early.
    pub late_after_loss: u64,
    /// That brought nothing new.
    pub duplicates: u64,
    /// With a wrong checksum. Like those below, of builders as a whole and not of one source.
    pub damaged: u64,
    /// Not of this protocol.
    pub foreign: u64,
    /// Of another epoch, or of a connection that was gone.
    pub stale: u64,
    /// Of a lane by what they say, but without the tag of its source. Only where peers share a key.
    pub forged: u64,
    /// With the right tag, but not for the first time. Only where peers share a key.
    pub replayed: u64,
    /// Dropped by builders' own kernels because they were not read in time.
    pub receive_drops: u64,
    /// Trains dropped by sources' own kernels: no memory, no room in the device's queue, too late for their time.
    pub send_drops: u64,
    /// Trains that sources' kernels did not cut into datagrams (`UDP_SEGMENT`).
    pub segmentation_refused: u64,
    /// Datagrams that were sent one by one because of that.
    pub uncut: u64,
    /// How long losses took to be repaired: from when the bytes before arrived, or the lost ones were permitted, until they
    /// were here. One for each datagram that was sent again and needed. These times too are of builders
    /// as a whole.
    pub recovery_us: Spread,
    /// From a permission to the first datagram that answers it.
    pub round_trip_us: Spread,
}

/// One source's part, by its own report and those of the builders.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceSummary {
    /// Its id.
    pub id: u16,
    /// Whether its final report came.
    pub reported: bool,
    /// Fragments pushed.
    pub pushed: u64,
    /// Their payload.
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
    /// Its fragments that came too late.
    pub late: u64,
    /// Its fragments that came twice, or were pushed twice.
    pub duplicate: u64,
    /// Its fragments that nobody expected.
    pub unexpected: u64,
    /// What it did not take from readout: too large, or too far ahead of the run.
    pub refused: u64,
    /// Its fragments whose checksum did not fit.
    pub crc_errors: u64,
    /// How often it was last, and so completed the event.
    pub last: u64,
    /// By how much on average after the one before, µs.
    pub last_by_mean_us: f64,
    /// Fragments dropped because their event was inhibited.
    pub inhibited: u64,
    /// Fragments dropped because their event was closed without it.
    pub closed: u64,
    /// Fragments that it still held at the end.
    pub uncommitted: u64,
    /// Segments that its kernel sent again.
    pub tcp_retransmits: u64,
    /// Data that it sent again.
    pub resends: u64,
    /// What became of its datagrams.
    pub datagrams: DatagramCounts,
    /// How often its lanes were stalled.
    pub stalls: u64,
    /// How often its lanes were connected anew.
    pub reconnects: u64,
    /// The most that its backlog held.
    pub backlog_peak_bytes: u64,
    /// How well it kept its rates.
    pub pacing: PacingSummary,
    /// Its part of the way from a grant to its data.
    pub grant_path_us: AnswerPath,
    /// How long it was down.
    pub down_s: f64,
    /// Events that were assigned while it was down.
    pub events_without: u64,
}

/// How well a source kept the rates of its lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PacingSummary {
    /// Trains of bytes that it sent.
    pub departures: u64,
    /// How late those left that had to wait for their time, µs: the median.
    pub late_p50_us: f64,
    /// The 99th percentile.
    pub late_p99_us: f64,
    /// The latest.
    pub late_max_us: f64,
    /// Lateness beyond what bursts pay for, s: for so long a lane's rate was lost.
    pub forfeited_s: f64,
}

impl PacingSummary {
    /// As a source reports it.
    pub fn of(own: &SourceReport) -> Self {
        Self {
            departures: own.departures,
            late_p50_us: own.late_p50_ns as f64 / 1e3,
            late_p99_us: own.late_p99_ns as f64 / 1e3,
            late_max_us: own.late_max_ns as f64 / 1e3,
            forfeited_s: own.forfeited_ns as f64 / 1e9,
        }
    }

    /// Of two sources, the worse in everything.
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

/// One builder's part, by its own report, and as the supervisor counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BuilderSummary {
    /// Its id.
    pub id: u16,
    /// Whether its final report came.
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
    /// The most memory that its events took.
    pub memory_peak_bytes: u64,
    /// Trigger to last fragment.
    pub build_latency_us: Latency,
    /// Grant to last byte.
    pub grant_delay_us: Latency,
    /// From its grants to their data, and its own part of that.
    pub grant_path_us: GrantPath,
    /// Bound on the error of its latencies where clocks differ, µs.
    pub clock_error_us: f64,
    /// Completions of events that it did not have.
    pub protocol_faults: u64,
}

/// By which clock latencies were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClockSummary {
    /// All hosts share one clock; otherwise latencies are by the supervisor's clock, as heartbeats tell it.
    pub shared: bool,
    /// The largest bound on the error of any builder's clock offset, µs.
    pub error_us: f64,
}

/// Triggers that were inhibited for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadTimeCause {
    /// In words; it names the builder's sink, or the source, that held the others up.
    pub cause: String,
    /// How many triggers.
    pub inhibited: u64,
}

/// What became of a run: the closed ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// The run number.
    pub run: u32,
    /// What people said of it.
    pub annotation: Annotation,
    /// The life of that run.
    pub epoch: u64,
    /// 0: every event accounted for and complete. 1: some incomplete, lost or failed.
    pub exit_code: u8,
    /// The outcome in a sentence.
    pub verdict: String,
    /// From when triggers could come until the last event was settled.
    pub duration_s: f64,
    /// What became of the triggers.
    pub events: EventCounts,
    /// Amounts of data.
    pub bytes: ByteCounts,
    /// How fast it went.
    pub rates: Rates,
    /// Trigger to last fragment.
    pub build_latency_us: Latency,
    /// Grant to data by stage, over all builders and sources.
    pub grant_path_us: RunPath,
    /// Inhibited / triggered.
    pub dead_time_fraction: f64,
    /// The part of the time in which no builder had a free slot.
    pub busy_fraction: f64,
    /// What the inhibited triggers are put down to, the most frequent cause first.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// What the network did.
    pub network: NetworkCounts,
    /// Who was turned away, at the supervisor's port and those of the builders.
    pub security: RefusalCounts,
    /// Every source of the run.
    pub sources: Vec<SourceSummary>,
    /// Every builder of the run.
    pub builders: Vec<BuilderSummary>,
    /// By which clock latencies were measured.
    pub clock: ClockSummary,
    /// Everything that was not as it should be.
    pub problems: Vec<String>,
    /// What happened and cost nothing: builders that left, and whose events others built; sources that were away while no event
    /// needed them.
    pub remarks: Vec<String>,
    /// Why the run could not begin, or could not go on, if that was so.
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

    /// What is neither settled nor inhibited; zero when the ledger is closed, `None` if more was settled than triggered.
    pub fn open(&self) -> Option<u64> {
        [self.inhibited, self.complete, self.incomplete, self.rejected, self.lost]
            .iter()
            .try_fold(self.triggered, |open, settled| open.checked_sub(*settled))
    }
}

/// `part / whole`, and zero of nothing.
pub fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
