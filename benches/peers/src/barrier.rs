//! Synchronizes the role processes, so that they start together and end at the same event.
//!
//! Under the launcher a role writes lines to its stdout and reads the launcher's answers from its
//! stdin:
//!
//! | role's line | launcher's answer |
//! |---|---|
//! | `listening ADDRESS` (builders) | starts the sources |
//! | `ready`: all connections are up | `go NANOSECONDS`: the common start, in Unix time |
//! | `reached EVENT` (sources, at the end of the window) | `until EVENT`: the last event for all |
//! | one line of JSON | |
//!
//! Without a launcher (`launched` is false) a role starts when its connections are up and ends at
//! its own last event.

use crate::role::Work;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::{BufRead, Write};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the nanoseconds of Unix time, the clock that the processes of one host, or of
/// synchronised hosts, share.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The part of a role process that synchronizes with the launcher.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// True if a launcher started this process and talks to it over stdin and stdout.
    pub launched: bool,
}

impl Barrier {
    /// Reports the address on which a builder listens.
    pub fn listening(self, address: &str) -> Result<()> {
        if self.launched {
            return say(&format!("listening {address}"));
        }
        eprintln!("listening on {address}");
        Ok(())
    }

    /// Waits until all roles are ready and the common start time is reached; returns the measuring
    /// window.
    pub fn ready(self, work: &Work) -> Result<Window> {
        let mut start_ns = unix_ns();
        if self.launched {
            say("ready")?;
            start_ns = hear("go")?;
        }
        let wait = Duration::from_nanos(start_ns.saturating_sub(unix_ns()));
        thread::sleep(wait);
        let begin = Instant::now() + Duration::from_secs_f64(work.warmup);
        Ok(Window { start_ns, begin, end: begin + Duration::from_secs_f64(work.seconds) })
    }

    /// Reports that a source has reached `event` at the end of the window, and returns the event up
    /// to which all sources continue.
    pub fn last_event(self, event: u64) -> Result<u64> {
        if !self.launched {
            return Ok(event);
        }
        say(&format!("reached {event}"))?;
        hear("until")
    }

    /// Writes the final report of a role.
    pub fn report(self, report: &impl Serialize) -> Result<()> {
        say(&serde_json::to_string(report)?)
    }
}

/// The start of the run, and the measuring window: only events completed in it count for the rate.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Unix time at which the run starts, in nanoseconds; the same in every role.
    pub start_ns: u64,
    /// Start of the measuring window. Events completed before it do not count, because the queues
    /// are still filling.
    pub begin: Instant,
    /// End of the measuring window. Events completed after it do not count.
    pub end: Instant,
}

fn say(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}

fn hear(word: &str) -> Result<u64> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let Some(number) = line.trim().strip_prefix(word) else {
        bail!("the launcher said {:?} where {word:?} was due", line.trim());
    };
    number.trim().parse().with_context(|| format!("no number behind {word:?}"))
}
