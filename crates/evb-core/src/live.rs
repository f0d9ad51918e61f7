//! Periodic reports of sources and builders: about one per second while the run lasts.

mod latencies;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{
    time::Instant,
    wire::control::{Control, Live, Message, RoleReport},
};

pub use latencies::Latencies;

/// Number of parts of a period over which the first reports of peers are spread, so that they do
/// not arrive all at once.
const PARTS: u32 = 16;

/// Least interval of rare heartbeats. They are on the grid ([`on_grid`]), and a report goes with
/// the rare heartbeat before it.
pub(crate) const RARE: Duration = Duration::from_secs(1);

/// Number of sources up to which each sends a heartbeat in each period. With more sources, the
/// heartbeats of sources are rarer, and those of builders are on the grid ([`on_grid`]).
pub(crate) const FEW_HEARTBEATS: usize = 64;

/// Grid of the heartbeats that all peers of a process send at the same times.
const GRID: Duration = Duration::from_millis(250);

/// Returns the last time of the grid within `interval` after `now`, for the next heartbeat. All
/// peers of a process share the grid, so that hundreds of them share a wake-up, and so do their
/// messages at the supervisor.
pub(crate) fn on_grid(now: Instant, interval: Duration) -> Instant {
    let grid = interval.min(GRID).as_nanos().max(1) as u64;
    Instant::from_nanos((now + interval).as_nanos() / grid * grid)
}

/// The timer of a peer's periodic reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportTimer {
    /// Interval of periodic reports; `None` if the peer sends only the final report.
    period: Option<Duration>,
    next: Instant,
}

impl ReportTimer {
    /// Returns a timer that expires once in each period. The first expiry depends on `number`, so
    /// that peers report one after the other.
    pub(crate) fn new(period: Duration, number: u16, now: Instant) -> Self {
        let part = u32::from(number) % PARTS + 1;
        Self { period: Some(period).filter(|period| !period.is_zero()), next: now + period * part / PARTS }
    }

    /// Returns the time at which the timer expires next; `None` if the peer sends no periodic
    /// reports.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.period.map(|_| self.next)
    }

    /// Returns true once per period when a report is due. If the peer's next heartbeat is far, a
    /// report that would be due before it is due now, so that it shares a wake-up and a packet with
    /// the heartbeat that has just been sent. Reports that could not be sent in the meantime are
    /// skipped.
    pub(crate) fn ring(&mut self, heartbeat: Instant, now: Instant) -> bool {
        let Some(period) = self.period else { return false };
        let until_heartbeat = heartbeat.since(now);
        // A shorter period has a report of its own between two heartbeats.
        let joins = (RARE..=period).contains(&until_heartbeat) && self.next < heartbeat;
        if self.next > now && !joins {
            return false;
        }
        self.next = now + period;
        true
    }
}

/// Facts about a process that its role's state machine cannot know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Processor time of the process so far.
    pub processor: Duration,
    /// Memory of the process in bytes; 0 if unknown.
    pub memory: u64,
    /// Free and total bytes of the file system that the sink writes to; `None` if unknown.
    pub disk: Option<(u64, u64)>,
    /// TCP segments that the source's kernel has sent again.
    pub tcp_retransmits: u64,
}

/// Adds the host's facts to a periodic report. `facts` is called only if the message is such a
/// report.
pub fn complete_live(message: &mut Control, facts: impl FnOnce() -> HostFacts) {
    let Some(Message::Report(report)) = &mut message.message else { return };
    let Some(live) = &mut report.live else { return };
    let HostFacts { processor, memory, disk, tcp_retransmits } = facts();
    live.processor_ns = u64::try_from(processor.as_nanos()).unwrap_or(u64::MAX);
    live.memory_bytes = memory;
    (live.disk_free_bytes, live.disk_bytes) = disk.unwrap_or_default();
    if let Some(RoleReport::Source(source)) = &mut report.report {
        source.tcp_retransmits = tcp_retransmits;
    }
}

impl Live {
    /// Returns the mean number of cores that a process used between the report `before` and this
    /// one. `apart` is the time between them.
    pub(crate) fn processor_since(&self, before: &Self, apart: Duration) -> f64 {
        let used = self.processor_ns.saturating_sub(before.processor_ns) as f64;
        if apart.is_zero() { 0.0 } else { used / apart.as_nanos() as f64 }
    }
}

/// Returns how long ago something happened last, for an interim report: at least 1 ns, and 0 if it
/// never happened.
pub(crate) fn nanos_since(last: Option<Instant>, now: Instant) -> u64 {
    let nanos = last.map_or(0, |last| now.since(last).as_nanos().max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Returns how long ago it happened, in seconds, if the report with [`nanos_since`] is that old;
/// `None` if it never happened.
pub(crate) fn seconds_since(nanos: u64, report_age: f64) -> Option<f64> {
    (nanos > 0).then(|| Duration::from_nanos(nanos).as_secs_f64() + report_age)
}
