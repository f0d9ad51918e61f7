//! The result of one run of one program.

use crate::latency::LatencySummary;
use serde::Serialize;
use std::fmt;

/// The result of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `plain`, `zeromq` or `evb`.
    pub program: String,
    /// Source processes.
    pub sources: u32,
    /// Builder processes.
    pub builders: u32,
    /// Payload bytes per fragment.
    pub size: usize,
    /// Length of the window.
    pub seconds: f64,
    /// Complete events ÷ window.
    pub events_per_s: f64,
    /// All complete events ÷ time from the start to the last of them, filling and draining
    /// included, so that no backlog can improve or worsen it. evbd's own rates are of this kind.
    pub events_per_s_overall: f64,
    /// The payload of complete events ÷ window.
    pub payload_bytes_per_s: f64,
    /// Events that were complete in the end, including those after the window.
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
    /// The most open events in any builder, if the program has a table of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_events: Option<u64>,
    /// Last fragment minus trigger, if the program measures it.
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
