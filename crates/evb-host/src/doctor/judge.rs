//! Derives findings from facts. Nothing is read or measured here, so that the same facts always
//! give the same verdicts.

mod host;
mod memory;
mod sockets;
mod device;
mod queues;
mod paths;
mod grant_path;
mod budget;
#[cfg(test)]
mod tests;

use super::{facts::Facts, finding::Finding};

/// Returns all findings in the order of the output.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = host::findings(facts);
    findings.push(memory::finding(facts));
    findings.extend(sockets::findings(facts));
    for device in &facts.devices {
        findings.extend(device::findings(device, facts.demand.as_ref()));
        findings.extend(queues::findings(device, facts.demand.as_ref()));
    }
    findings.extend(paths::findings(facts));
    findings.push(grant_path::finding(facts));
    findings.push(budget::finding(facts));
    findings
}

/// Returns the JSON object that `evbd check --path` reads; `None` if the time from a grant to its
/// data was not measured.
pub(super) fn grant_path(findings: &[Finding]) -> Option<&serde_json::Value> {
    let found = findings.iter().find(|finding| finding.name == grant_path::NAME && !finding.unavailable)?;
    Some(&found.data)
}

/// Formats a time with three significant digits: `870 ns`, `23.4 µs`, `1.02 ms`.
fn brief(time: std::time::Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match time.as_nanos() {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (nanos / 1e3, "µs"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}
