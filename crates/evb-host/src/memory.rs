//! The memory that this process may use.

use std::fs;

use evb_core::units::Bytes;

#[cfg(test)]
mod tests;

/// Returns the machine's memory, or the control group's limit if it is smaller; `None` if
/// `/proc/meminfo` cannot be read.
pub fn machine_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let group =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    match (machine, group.map(Bytes::new)) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

/// Parses the line `MemTotal:  16384 kB`, whose kB are 1024 bytes (proc_meminfo(5)).
fn mem_total(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::kib)
}
