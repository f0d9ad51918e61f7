//! The work of a source or builder process, and its report.

use crate::barrier::{Barrier, Window, unix_ns};
use crate::latency::Latencies;
use crate::payload::STAMP_LENGTH;
use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds in which queues and sockets fill: until then sources run ahead of each other and few
/// events are complete.
const WARMUP: f64 = 1.0;
const HWM: i32 = 1000;
const QUEUE_BYTES: usize = 64 << 20;
const TABLE_BYTES: usize = 4 << 30;

/// Parameters of a run, the same for all its processes.
#[derive(Args, Clone, Debug)]
pub struct Work {
    /// Payload bytes of every fragment.
    #[arg(long, default_value_t = 1_000_000)]
    pub size: usize,
    /// Length of the measuring window, in seconds.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Time for which the run is warmed up before the measuring window, in seconds.
    #[arg(long, default_value_t = WARMUP)]
    pub warmup: f64,
    /// Triggers per second; by default, sources trigger as fast as possible.
    #[arg(long)]
    pub rate: Option<f64>,
    /// zeromq only: high-water mark of every send and receive queue, in messages.
    #[arg(long, default_value_t = HWM)]
    pub hwm: i32,
    /// zeromq only: largest number of bytes in a queue; the high-water mark is lowered accordingly.
    /// With 0, the high-water mark is not lowered.
    #[arg(long, default_value_t = QUEUE_BYTES)]
    pub queue_bytes: usize,
    /// zeromq only: largest number of bytes in the open events of a builder; the builder fails if
    /// they hold more.
    #[arg(long, default_value_t = TABLE_BYTES)]
    pub table_bytes: usize,
}

impl Work {
    /// Returns work with this fragment size and window length, and the default of every other
    /// parameter.
    pub fn of(size: usize, seconds: f64) -> Self {
        Self {
            size,
            seconds,
            warmup: WARMUP,
            rate: None,
            hwm: HWM,
            queue_bytes: QUEUE_BYTES,
            table_bytes: TABLE_BYTES,
        }
    }

    /// Rejects parameters that the programs do not support.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.size >= STAMP_LENGTH,
            "--size {} is less than the stamp of {STAMP_LENGTH} bytes",
            self.size
        );
        ensure!(self.size <= 1 << 30, "--size {} is more than 1 GiB", self.size);
        ensure!(self.seconds.is_finite() && self.seconds > 0.0, "--seconds must be positive");
        ensure!(self.warmup.is_finite() && self.warmup >= 0.0, "--warmup must not be negative");
        ensure!(self.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "--rate must be positive");
        ensure!(self.hwm > 0, "--hwm must be positive");
        Ok(())
    }

    /// Returns the parameters as command line arguments, for the processes of a run.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        add("size", self.size.to_string());
        add("seconds", self.seconds.to_string());
        add("warmup", self.warmup.to_string());
        add("hwm", self.hwm.to_string());
        add("queue-bytes", self.queue_bytes.to_string());
        add("table-bytes", self.table_bytes.to_string());
        if let Some(rate) = self.rate {
            add("rate", rate.to_string());
        }
        arguments
    }
}

/// Command line arguments of a source process.
#[derive(Args, Clone, Debug)]
pub struct SourceArguments {
    /// Source id, from 1.
    #[arg(long)]
    pub id: u32,
    /// Addresses of the M builders, in order: event e goes to builder (e-1) mod M, counted from 0.
    #[arg(long, value_delimiter = ',', required = true)]
    pub connect: Vec<String>,
    /// Last event that the source sends, if the measuring window does not end earlier.
    #[arg(long, default_value_t = u64::MAX)]
    pub events: u64,
    #[command(flatten)]
    pub work: Work,
    #[arg(long, hide = true)]
    pub launched: bool,
}

/// Command line arguments of a builder process.
#[derive(Args, Clone, Debug)]
pub struct BuilderArguments {
    /// Builder id, from 1: the position of this builder in the --connect list of the sources.
    #[arg(long, default_value_t = 1)]
    pub id: u32,
    /// Address to listen on; with port 0, the operating system chooses a free port.
    #[arg(long)]
    pub bind: String,
    /// Number of sources that send a fragment of every event.
    #[arg(long)]
    pub sources: u32,
    /// Number of builders.
    #[arg(long, default_value_t = 1)]
    pub builders: u32,
    #[command(flatten)]
    pub work: Work,
    #[arg(long, hide = true)]
    pub launched: bool,
}

impl BuilderArguments {
    /// Rejects arguments that a builder does not support.
    pub fn check(&self) -> Result<()> {
        self.work.check()?;
        ensure!((1..=64).contains(&self.sources), "--sources must be 1 to 64");
        ensure!(
            (1..=self.builders).contains(&self.id),
            "--id {} is not one of {} builders",
            self.id,
            self.builders
        );
        Ok(())
    }
}

/// The report of a source.
#[derive(Debug, Serialize, Deserialize)]
pub struct SourceReport {
    /// Source id.
    pub source: u32,
    /// Number of events of which the source has sent a fragment.
    pub events: u64,
}

/// The report of a builder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BuilderReport {
    /// Builder id.
    pub builder: u32,
    /// Number of events that became complete within the measuring window.
    pub complete_in_window: u64,
    /// Number of events that were complete at the end of the run.
    pub complete: u64,
    /// Time at which the last event became complete, in Unix nanoseconds.
    pub last_ns: u64,
    /// Number of events of which some, but not all fragments arrived.
    pub incomplete: u64,
    /// Largest number of events that were open at one time (zeromq only).
    pub max_open_events: u64,
    /// Latencies from the trigger of an event to the arrival of its last fragment (zeromq only).
    pub latencies: Latencies,
}

/// The triggers of a source: they determine the time of each event, and the last event.
#[derive(Debug)]
pub struct Triggers {
    window: Window,
    barrier: Barrier,
    period: Option<f64>,
    event: u64,
    last: Option<u64>,
    limit: u64,
}

impl Triggers {
    /// Creates the triggers of a source for a run with this measuring window.
    pub fn new(arguments: &SourceArguments, barrier: Barrier, window: Window) -> Self {
        let period = arguments.work.rate.map(|rate| 1e9 / rate);
        Self { window, barrier, period, event: 0, last: None, limit: arguments.events }
    }

    /// Returns the next event and its trigger time in Unix nanoseconds; `None` after the last
    /// event. Calls `before_wait` if the next trigger is not due yet.
    pub fn next(&mut self, mut before_wait: impl FnMut() -> Result<()>) -> Result<Option<(u64, u64)>> {
        if self.last.is_none() && (self.event == self.limit || Instant::now() >= self.window.end) {
            before_wait()?;
            self.last = Some(self.barrier.last_event(self.event)?);
        }
        if self.last.is_some_and(|last| self.event >= last) {
            return Ok(None);
        }
        self.event += 1;
        let Some(period) = self.period else {
            return Ok(Some((self.event, unix_ns())));
        };
        let due = self.window.start_ns + ((self.event - 1) as f64 * period) as u64;
        let wait = due.saturating_sub(unix_ns());
        if wait > 0 {
            before_wait()?;
            thread::sleep(Duration::from_nanos(wait));
        }
        Ok(Some((self.event, due)))
    }

    /// Returns the number of events that have been triggered so far.
    pub fn events(&self) -> u64 {
        self.event
    }
}
