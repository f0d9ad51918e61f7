//! Reports so far: what a source or builder says about once a second while its run lasts.

mod latencies;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{
    time::Instant,
    wire::control::{Control, Live, Message, RoleReport},
};

pub use latencies::Latencies;

/// The most parts into which peers' first reports are spread over a period, so that they do not come all at once.
const PARTS: u32 = 16;

/// When a peer reports next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportTimer {
    /// `None`: it reports at the end alone.
    period: Option<Duration>,
    next: Instant,
}

impl ReportTimer {
    /// A timer that rings once in each period. `number` is the peer's, by which peers take turns.
    pub(crate) fn new(period: Duration, number: u16, now: Instant) -> Self {
        let part = u32::from(number) % PARTS + 1;
        Self { period: Some(period).filter(|period| !period.is_zero()), next: now + period * part / PARTS }
    }

    /// When it rings, if ever.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.period.map(|_| self.next)
    }

    /// Returns true once when it is time. Reports that could not be sent meanwhile are left out.
    pub(crate) fn ring(&mut self, now: Instant) -> bool {
        let Some(period) = self.period.filter(|_| self.next <= now) else { return false };
        self.next = now + period;
        true
    }
}

/// What a machine cannot know of the process that it runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Processor time of the process so far.
    pub processor: Duration,
    /// Memory of the process, bytes; 0 if unknown.
    pub memory: u64,
    /// Free bytes where the sink writes, and how many there are in all; `None` if unknown.
    pub disk: Option<(u64, u64)>,
    /// TCP segments that a source's kernel sent again.
    pub tcp_retransmits: u64,
}

/// Adds to a report so far what its machine does not know; `facts` is asked for nothing else.
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
    /// How fast a process uses processors, between an earlier report and this one, `apart`; 1 is a core.
    pub(crate) fn processor_since(&self, before: &Self, apart: Duration) -> f64 {
        let used = self.processor_ns.saturating_sub(before.processor_ns) as f64;
        if apart.is_zero() { 0.0 } else { used / apart.as_nanos() as f64 }
    }
}
