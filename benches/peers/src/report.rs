//! The result of one benchmark run of one program.

use crate::latency::LatencySummary;
use serde::Serialize;
use std::fmt;

/// The result of one run of a program on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the program: `plain`, `zeromq` or `evb`.
    pub program: String,
    /// Number of source processes.
    pub sources: u32,
    /// Number of builder processes.
    pub builders: u32,
    /// Payload bytes per fragment.
    pub size: usize,
    /// Length of the measuring window, in seconds.
    pub seconds: f64,
    /// Events that became complete in the measuring window, divided by its length.
    pub events_per_s: f64,
    /// Number of all complete events, divided by the time from the start of the run to the
    /// completion of the last event. The time includes filling and draining the queues, so that a
    /// backlog cannot distort this rate. evbd computes the rates in its run summary in the same
    /// way: over the whole run, with filling and draining.
    pub events_per_s_overall: f64,
    /// Payload bytes of the events that became complete in the measuring window, divided by its
    /// length.
    pub payload_bytes_per_s: f64,
    /// Events that were complete at the end of the run, including those completed after the
    /// measuring window.
    pub complete: u64,
    /// Events that were sent and never became complete.
    pub incomplete: u64,
    /// The largest resident memory of any process.
    pub peak_rss_bytes_max: u64,
    /// Processor time of all processes, user and system.
    pub cpu_seconds: f64,
    /// Packets that the ports of the lab's switch dropped during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Largest number of events that were open in a builder at one time, if the program counts open
    /// events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_events: Option<u64>,
    /// Time from the trigger of an event to the arrival of its last fragment, if the program
    /// measures this latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, sources, builders, size, .. } = self;
        write!(
            f,
            "{program:<7} {sources}x{builders} {size:>9} B: {:>11.1} events/s {:>7.3} Gbit/s, overall {:.1} events/s, {} complete, {} incomplete, \
             peak RSS {:.0} MB, CPU {:.2} s",
            self.events_per_s,
            self.payload_bytes_per_s * 8e-9,
            self.events_per_s_overall,
            self.complete,
            self.incomplete,
            self.peak_rss_bytes_max as f64 / 1e6,
            self.cpu_seconds,
        )?;
        if let Some(drops) = self.drops {
            write!(f, ", {drops} drops")?;
        }
        if let Some(latency) = self.latency_us {
            let open = self.max_open_events.unwrap_or_default();
            write!(
                f,
                ", open {open}, p50 {:.0} p99 {:.0} p99.9 {:.0} µs",
                latency.p50, latency.p99, latency.p999
            )?;
        }
        Ok(())
    }
}
