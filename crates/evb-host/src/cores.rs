//! The processor cores of this host.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use evb_net::host::{Fact, Unavailable, text_of};

use crate::control_groups::processor_limit;

/// The cores of this host, and the cores that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores {
    /// Cores that are online.
    pub online: Fact<BTreeSet<usize>>,
    /// Cores on which this process may run (`taskset`, cpusets).
    pub allowed: Fact<BTreeSet<usize>>,
    /// Cores that the scheduler uses only for threads that request them (`isolcpus`).
    pub isolated: Fact<BTreeSet<usize>>,
    /// Processor time that the control groups grant, in units of whole cores; `None`: not limited.
    pub quota: Option<f64>,
}

/// Reads the cores of this host from the kernel.
pub fn cores() -> Cores {
    let system =
        |name: &str| text_of(format!("/sys/devices/system/cpu/{name}")).and_then(|text| ranges(&text));
    let allowed = text_of("/proc/self/status").and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.ok_or_else(|| Unavailable::new("/proc/self/status lists no cores; see whether /proc is mounted"))
            .and_then(ranges)
    });
    Cores { online: system("online"), allowed, isolated: system("isolated"), quota: processor_limit() }
}

/// Returns the distinct frequency governors (`scaling_governor`) of these cores.
///
/// # Errors
/// The kernel does not set the cores' frequency, because the host of a virtual machine or the
/// firmware sets it.
pub fn governors(cores: &BTreeSet<usize>) -> Fact<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for core in cores {
        match text_of(format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")) {
            Ok(governor) => found.insert(governor),
            Err(_) => {
                return Err(Unavailable::new(format!(
                    "the kernel does not set core {core}'s frequency (a virtual machine's host does, or the firmware): nothing can be done here"
                )));
            }
        };
    }
    if found.is_empty() {
        Err(Unavailable::new(
            "the kernel lists no core that this process may use; report this as a fault of evb",
        ))
    } else {
        Ok(found)
    }
}

/// Parses a set of cores as the kernel writes it, such as `0-3,8`; an empty text is an empty set.
fn ranges(text: &str) -> Fact<BTreeSet<usize>> {
    /// Largest number of cores that Linux supports (`CONFIG_NR_CPUS`).
    const MOST: usize = 8192;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < MOST).then_some(first..=last)
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ranges: Option<Vec<_>> = parts.map(range).collect();
    match ranges {
        Some(ranges) => Ok(ranges.into_iter().flatten().collect()),
        None => Err(Unavailable::new(format!(
            "the kernel gave `{}` as its list of cores; report this as a fault of evb",
            text.trim()
        ))),
    }
}
