//! The memory that this process may use.

use std::fs;

use evb_core::units::Bytes;

use crate::control_groups::memory_limit;

#[cfg(test)]
mod tests;

/// Returns the machine's memory, or the smallest limit of the process's control groups if that is
/// less; `None` if the kernel tells neither.
pub fn machine_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    machine.into_iter().chain(memory_limit()).min()
}

/// Parses the line `MemTotal:  16384 kB`, whose kB are 1024 bytes (proc_meminfo(5)).
fn mem_total(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::kib)
}
