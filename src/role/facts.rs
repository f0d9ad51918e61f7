//! Facts about this process for a role's report.

use std::time::Duration;

use evb_core::live::HostFacts;

/// Returns processor time and memory of this process; a call takes some microseconds.
pub(crate) fn of_process() -> HostFacts {
    HostFacts { processor: processor_time(), memory: resident().unwrap_or_default(), ..HostFacts::default() }
}

fn processor_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = |nanos: i64| u32::try_from(nanos).unwrap_or_default();
    u64::try_from(spent.tv_sec).map_or(Duration::ZERO, |secs| Duration::new(secs, nanos(spent.tv_nsec)))
}

/// Returns the resident memory: the second number of /proc/self/statm, in pages (proc(5)).
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests;
