//! Checks which crates may depend on which. `evb-core` contains the protocol, `evb-shaper` decides
//! when data are sent, `evb-net` sends them, and `evb-daemon` starts the roles on their hosts.

use toml::Table;

use super::{crates::crates, violation::Violation};
use crate::repo::Repo;

/// Names of the crates of this workspace, each with all evb crates that it may depend on. A crate
/// that is not listed must not exist.
const ALLOWED: [(&str, &[&str]); 21] = [
    ("evb-crc", &[]),
    ("evb-core", &["evb-crc"]),
    ("evb-shaper", &["evb-core"]),
    ("evb-net", &["evb-core"]),
    ("evb-file", &["evb-core"]),
    ("evb", &["evb-core", "evb-shaper", "evb-net", "evb-file"]),
    ("evb-sim", &["evb-core", "evb-shaper"]),
    ("evb-config", &["evb-core", "evb-shaper", "evb-file"]),
    ("evb-host", &["evb-config", "evb-core", "evb-shaper", "evb-net"]),
    // A program of its own, which runs whole systems in its process by evbd's library.
    (
        "evb-bench",
        &["evb", "evb-config", "evb-host", "evb-daemon", "evb-core", "evb-shaper", "evb-net", "evb-sim"],
    ),
    ("evb-daemon", &["evb", "evb-config", "evb-host", "evb-core", "evb-shaper", "evb-net", "evb-file"]),
    // What the programs that check this repository share; xtask is not to wait for evb's crates.
    ("checkout", &[]),
    ("release", &["checkout"]),
    ("studies", &["checkout"]),
    ("xtask", &["checkout", "release", "studies"]),
    // The base takes the transports of lanes from evb-net.
    ("lab-base", &["evb-net"]),
    // They write event files for readers in other languages.
    ("bindings-checks", &["checkout", "lab-base", "evb-core", "evb-file"]),
    ("dist-checks", &["checkout", "lab-base"]),
    // They need evb-bench for figures and tables, evb-sim to compare their networks with the
    // simulator's, and evb for builders whose filters take time.
    ("papers", &["lab-base", "evb", "evb-bench", "evb-core", "evb-net", "evb-sim"]),
    // The lab needs evb-bench for figures and tables, evb-net to send trains of datagrams for its
    // calibration, and evb-file to look for what builders owe, as the tests of evbd do.
    (
        "lab",
        &[
            "checkout",
            "lab-base",
            "bindings-checks",
            "dist-checks",
            "papers",
            "evb-bench",
            "evb-core",
            "evb-file",
            "evb-net",
        ],
    ),
    ("evb-needs", &[]),
];

/// The crate from which the tests of every crate may ask what they need of the machine.
const FOR_ALL_TESTS: &str = "evb-needs";

/// Additional dependencies of tests: those of the crate `evb` create incast tables with the
/// simulator.
const ALLOWED_IN_TESTS: [(&str, &str); 1] = [("evb", "evb-sim")];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for krate in crates(repo) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == krate.name) else {
            let message =
                format!("the crate `{}` has no place in the graph; give it one in tidy/graph.rs", krate.name);
            found.push(Violation::new(krate.manifest_path, 0, message));
            continue;
        };
        for (dependency, in_tests) in dependencies(&krate.manifest) {
            let tests_may = in_tests
                && (dependency == FOR_ALL_TESTS
                    || ALLOWED_IN_TESTS.contains(&(krate.name.as_str(), dependency.as_str())));
            let ours = ALLOWED.iter().any(|(name, _)| *name == dependency) || dependency.starts_with("evb");
            if ours && !tests_may && !allowed.contains(&dependency.as_str()) {
                let message = format!("`{}` must not depend on `{dependency}`", krate.name);
                found.push(Violation::new(krate.manifest_path, 0, message));
            }
        }
    }
    found
}

/// Returns the package names of all dependencies in a manifest, each with true if only tests use
/// it.
fn dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(|t| t.as_table()) {
        tables.extend(targets.values().filter_map(|t| t.as_table()));
    }
    let mut found = Vec::new();
    for (kind, in_tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        for table in tables.iter().filter_map(|t| t.get(kind)?.as_table()) {
            for (key, value) in table {
                let package = value.get("package").and_then(|p| p.as_str()).unwrap_or(key);
                found.push((package.to_owned(), in_tests));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
