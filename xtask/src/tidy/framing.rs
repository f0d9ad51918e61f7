//! Checks that only evb-core frames the bytes of lanes. If a driver or the simulator read or wrote
//! records and datagrams itself, the seeds would test another framing than the one in production.

use super::{syntax::identifiers, violation::Violation};
use crate::repo::Repo;

/// Folders of the drivers and of the simulator.
const DRIVERS: [&str; 3] = ["crates/evb-net/src/", "crates/evb-sim/src/", "src/"];

/// Files that may read the headers of datagrams: the search for a path sends probes without a lane,
/// tags are computed from sequence numbers, and the simulated network counts which bytes it loses.
const EXCEPT: [&str; 3] = [
    "crates/evb-net/src/lane/datagrams/path.rs",
    "crates/evb-net/src/security/datagrams.rs",
    "crates/evb-sim/src/network/datagrams.rs",
];

/// Names of `evb_core::wire` by which records and datagrams are read and written.
const FRAMING: [&str; 8] = [
    "RecordHeader",
    "RECORD_HEADER",
    "next_record",
    "decode_range",
    "ANNOUNCEMENT",
    "COMMIT_RANGE",
    "DatagramHeader",
    "DATAGRAM_HEADER",
];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust().filter(|(file, _)| !file.is_test() && is_driver(&file.path)) {
        for (name, line) in identifiers(ast) {
            if FRAMING.contains(&name.as_str()) {
                let message = format!("`{name}`: the machines of evb-core frame a lane, drivers move bytes");
                found.push(Violation::new(&file.path, line, message));
            }
        }
    }
    found
}

fn is_driver(path: &str) -> bool {
    DRIVERS.iter().any(|folder| path.starts_with(folder)) && !EXCEPT.contains(&path)
}

#[cfg(test)]
mod tests;
