//! The work of a role, and its report.

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

/// The work, the same for all roles of a run.
#[derive(Args, Clone, Debug)]
pub struct Work {
    /// Payload bytes of every fragment.
    #[arg(long, default_value_t = 1_000_000)]
    pub size: usize,
    /// Length of the measuring window.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seconds of running before the window.
    #[arg(long, default_value_t = WARMUP)]
    pub warmup: f64,
    /// Triggers per second; without it, as fast as possible.
    #[arg(long)]
    pub rate: Option<f64>,
    /// zeromq: high-water mark of every send and receive queue, in messages.
    #[arg(long, default_value_t = HWM)]
    pub hwm: i32,
    /// zeromq: lowers the high-water mark so that no queue holds more than this many bytes; 0
    /// leaves it.
    #[arg(long, default_value_t = QUEUE_BYTES)]
    pub queue_bytes: usize,
    /// zeromq: a builder gives up when its open events hold more bytes than this.
    #[arg(long, default_value_t = TABLE_BYTES)]
    pub table_bytes: usize,
}

impl Work {
    /// Returns this work, with the defaults for everything else.
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

    /// Rejects work that the programs cannot do.
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

    /// Returns the same work as command line arguments, for the processes of a run.
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

/// One source.
#[derive(Args, Clone, Debug)]
pub struct SourceArguments {
    /// Source id, from 1.
    #[arg(long)]
    pub id: u32,
    /// The builders, in order: event e goes to number (e-1) mod M.
    #[arg(long, value_delimiter = ',', required = true)]
    pub connect: Vec<String>,
    /// Ends after this event, if the window has not ended before.
    #[arg(long, default_value_t = u64::MAX)]
    pub events: u64,
    #[command(flatten)]
    pub work: Work,
    #[arg(long, hide = true)]
    pub launched: bool,
}

/// One builder.
#[derive(Args, Clone, Debug)]
pub struct BuilderArguments {
    /// Builder id, from 1: its place in the sources' --connect.
    #[arg(long, default_value_t = 1)]
    pub id: u32,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long)]
    pub bind: String,
    /// Number of sources of an event.
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
    /// Rejects work that the builders cannot do.
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
    /// Events sent.
    pub events: u64,
}

/// The report of a builder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BuilderReport {
    /// Builder id.
    pub builder: u32,
    /// Events complete within the window.
    pub complete_in_window: u64,
    /// Events that were complete in the end.
    pub complete: u64,
    /// Time at which the last event became complete, in Unix nanoseconds.
    pub last_ns: u64,
    /// Events of which some fragments arrived, but not all.
    pub incomplete: u64,
    /// The most events that were open at one time (zeromq).
    pub max_open_events: u64,
    /// Last fragment minus trigger (zeromq).
    pub latencies: Latencies,
}

/// The triggers of a source: the time of each event, and the end.
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
    /// Creates triggers from the window's start on.
    pub fn new(arguments: &SourceArguments, barrier: Barrier, window: Window) -> Self {
        let period = arguments.work.rate.map(|rate| 1e9 / rate);
        Self { window, barrier, period, event: 0, last: None, limit: arguments.events }
    }

    /// Returns the next event and its trigger time in Unix nanoseconds; `None` at the end. Calls
    /// `before_wait` if it has to wait.
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

    /// Returns the number of events returned so far.
    pub fn events(&self) -> u64 {
        self.event
    }
}
