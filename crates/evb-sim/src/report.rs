//! [`SimReport`]: the result of a simulated run, in numbers and as a table.

use core::{fmt, time::Duration};

use evb_core::{
    lane::RecoveryCounters,
    ledger::RunReport,
    transport::Transport,
    units::{Bytes, Rate},
};

use crate::network::{DatagramFates, NodeReport};

/// Counters and recovery times of datagrams on lanes; all are zero if lanes use TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramSummary {
    /// Counters of the simulated network.
    pub counts: DatagramFates,
    /// Counters of the builders' loss recovery.
    pub recovery: RecoveryCounters,
    /// Datagrams that repeated announcements.
    pub repeated: u64,
    /// Lost datagrams whose lane bytes arrived after all.
    pub recovered: u64,
    /// Median of the time from a loss to the arrival of the same lane bytes.
    pub recovery_p50: Duration,
    /// 99th percentile of the time from a loss to the arrival of the same lane bytes.
    pub recovery_p99: Duration,
    /// Longest time from a loss to the arrival of the same lane bytes.
    pub recovery_max: Duration,
}

/// The result of a simulated run. Counters of the network cover the whole run; the goodput is the
/// average from the first trigger to the last event.
#[derive(Clone, Debug, PartialEq)]
pub struct SimReport {
    /// Transport of the lanes.
    pub transport: Transport,
    /// Name of the shaping mode (`shaping.mode` in a configuration).
    pub mode: &'static str,
    /// Number of sources.
    pub sources: u16,
    /// Number of builders.
    pub builders: u16,
    /// Largest number of events outstanding per builder.
    pub slots: u32,
    /// The seed that reproduces the run.
    pub seed: u64,
    /// The supervisor's closed ledger, which agrees with the events that reached the sinks.
    pub run: RunReport,
    /// Events that could not be complete, because a source had no fragment for them.
    pub silenced: u64,
    /// Rate of the payload that reached the sinks.
    pub goodput: Rate,
    /// Rate of the payload of each source that reached the sinks.
    pub source_rates: Vec<Rate>,
    /// Rate of the payload that reached the sink of each builder.
    pub builder_rates: Vec<Rate>,
    /// Rate of the buffer bytes that the sources sent, without bare acknowledgements.
    pub sent: Rate,
    /// Payload rate that the links of all builders and the trunks together can carry.
    pub capacity: Rate,
    /// Median of the time from the trigger to the last fragment of a complete event.
    pub latency_p50: Duration,
    /// 99th percentile of the time from the trigger to the last fragment of a complete event.
    pub latency_p99: Duration,
    /// Longest time from the trigger to the last fragment of a complete event.
    pub latency_max: Duration,
    /// Frames dropped because the queue of a builder's switch port was full.
    pub builder_port_drops: u64,
    /// Frames dropped because the queue of a source's or the supervisor's switch port was full.
    pub other_port_drops: u64,
    /// Frames dropped because the queue of a trunk was full.
    pub trunk_drops: u64,
    /// The ports to the builders, and both directions of each trunk.
    pub nodes: Vec<NodeReport>,
    /// Largest number of bytes queued at a builder's switch port.
    pub builder_port_peak: Bytes,
    /// Frames lost at random.
    pub lost_frames: u64,
    /// Number of retransmissions: segments of streams, ranges of lane bytes, and datagrams of
    /// announcements.
    pub retransmits: u64,
    /// Number of retransmission timeouts of streams and of lanes.
    pub timeouts: u64,
    /// Counters and recovery times of the lanes' datagrams.
    pub datagrams: DatagramSummary,
    /// Largest number of buffer bytes that a builder had granted and not received.
    pub outstanding_peak: Bytes,
    /// Median of the time from a grant to its last byte, as the builders' policies measure it.
    pub grant_delay: Duration,
    /// Largest payload memory that a builder used.
    pub memory_peak: Bytes,
    /// The builder's guaranteed limit on its payload memory.
    pub memory_bound: Bytes,
    /// Duration of the run in simulated time.
    pub duration: Duration,
    /// Number of frames that hosts sent, with acknowledgements and control messages.
    pub frames: u64,
    /// Number of simulation steps.
    pub happenings: u64,
}

impl SimReport {
    /// The columns of [`Self::row`].
    pub const HEADER: &'static str = "sources builders mode          slots  goodput Mbit/s  of wire    drops   resent      p50 ms      p99 ms   queue kB";

    /// Formats the run as a line under [`Self::HEADER`].
    pub fn row(&self) -> String {
        format!(
            "{:>7} {:>8} {:<12} {:>6} {:>15.1} {:>7.1}% {:>8} {:>8} {:>11.3} {:>11.3} {:>10.1}",
            self.sources,
            self.builders,
            self.mode,
            self.slots,
            self.goodput.bits_per_second() as f64 / 1e6,
            self.utilisation() * 100.0,
            self.builder_port_drops,
            self.retransmits,
            self.latency_p50.as_secs_f64() * 1e3,
            self.latency_p99.as_secs_f64() * 1e3,
            self.builder_port_peak.count() as f64 / 1e3,
        )
    }

    /// Returns goodput / capacity.
    pub fn utilisation(&self) -> f64 {
        self.goodput.bits_per_second() as f64 / self.capacity.bits_per_second().max(1) as f64
    }
}

impl fmt::Display for DatagramSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DatagramFates { sent, duplicated, delayed, damaged, refused, .. } = self.counts;
        let RecoveryCounters { resends, timeouts, late_after_loss, duplicates, .. } = self.recovery;
        write!(
            f,
            "{sent} ({duplicated} twice, {delayed} late, {damaged} damaged, {refused} refused); {resends} ranges again \
             ({timeouts} timeouts, {late_after_loss} too early, {duplicates} duplicates), {} announcements again; recovery p50 {:?}, \
             p99 {:?}, max {:?}",
            self.repeated, self.recovery_p50, self.recovery_p99, self.recovery_max,
        )
    }
}

/// Formats the run as a table of two columns.
impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = &self.run.events;
        let ms = |duration: Duration| format!("{:.3} ms", duration.as_secs_f64() * 1e3);
        let rows = [
            ("system", format!("{} sources, {} builders, {} slots", self.sources, self.builders, self.slots)),
            ("shaping", format!("{} (seed {})", self.mode, self.seed)),
            ("events triggered", events.triggered.to_string()),
            ("  inhibited", events.inhibited.to_string()),
            ("  complete", events.complete.to_string()),
            ("  incomplete", events.incomplete.to_string()),
            ("  lost", events.lost.to_string()),
            ("goodput", format!("{} ({:.1} % of the wire)", self.goodput, self.utilisation() * 100.0)),
            ("build latency p50", ms(self.latency_p50)),
            ("build latency p99", ms(self.latency_p99)),
            ("build latency max", ms(self.latency_max)),
            ("drops at builders' ports", self.builder_port_drops.to_string()),
            ("drops at other ports", self.other_port_drops.to_string()),
            ("longest queue", self.builder_port_peak.to_string()),
            ("frames lost by chance", self.lost_frames.to_string()),
            ("sent again", format!("{} ({} timeouts)", self.retransmits, self.timeouts)),
            ("datagrams", self.datagrams.to_string()),
            ("outstanding at most", self.outstanding_peak.to_string()),
            ("grant to last byte", ms(self.grant_delay)),
            ("builder memory at most", format!("{} of {}", self.memory_peak, self.memory_bound)),
            ("virtual time", format!("{:.6} s", self.duration.as_secs_f64())),
        ];
        rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:<26}{value}"))?;
        self.nodes.iter().filter(|node| node.is_trunk).try_for_each(|node| {
            let NodeReport { name, rate, buffer, peak, drops, bytes, .. } = node;
            let name = format!("trunk {name}");
            writeln!(f, "{name:<26}{bytes} at {rate}, {drops} drops, queue {peak} of {buffer}")
        })
    }
}
