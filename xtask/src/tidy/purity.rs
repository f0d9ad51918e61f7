//! Checks that the pure crates use no clock, socket, disk, thread, unseeded randomness, or map
//! whose order differs from run to run. `core::net` is allowed, because unlike `std::net` it
//! contains only addresses.

use super::{
    crates::{Krate, crates},
    syntax::{Named, identifiers, named_paths},
    violation::Violation,
};
use crate::repo::{Repo, RepoFile};

/// The pure crates, which perform no I/O and get the time and the random seed as arguments.
pub(crate) const PURE: [&str; 3] = ["evb-core", "evb-shaper", "evb-sim"];

/// Crates that must wait until absolute times, because a relative sleep drifts and may be a
/// millisecond late.
pub(crate) const NO_TOKIO_SLEEP: [&str; 2] = ["evb-shaper", "evb-net"];

const IMPURE_PATHS: [(&str, &str); 18] = [
    ("std::time::Instant", "time is an argument (`evb_core::time::Instant`)"),
    ("std::time::SystemTime", "time is an argument"),
    ("std::time::UNIX_EPOCH", "time is an argument"),
    ("std::thread", "a machine is driven, it does not run"),
    ("std::net", "sockets live in evb-net"),
    ("std::os", "the operating system lives in evb-net"),
    ("std::fs", "disks live in evb-file"),
    ("std::env", "configuration is an argument"),
    ("std::process", "processes live in evb-daemon"),
    ("std::collections::HashMap", "its order is not deterministic: use BTreeMap"),
    ("std::collections::HashSet", "its order is not deterministic: use BTreeSet"),
    ("std::collections::hash_map", "its order is not deterministic: use BTreeMap"),
    ("std::collections::hash_set", "its order is not deterministic: use BTreeSet"),
    ("std::hash::RandomState", "chance comes from the seed"),
    ("tokio", "async belongs to the edges"),
    ("socket2", "sockets live in evb-net"),
    ("rand::rng", "chance comes from the seed"),
    ("rand::random", "chance comes from the seed"),
];

/// Functions of `rand` and related crates that create random numbers without a given seed.
const UNSEEDED: [&str; 6] = ["thread_rng", "from_entropy", "from_os_rng", "OsRng", "SysRng", "getrandom"];

/// Dependencies that a pure crate must not have.
const IMPURE_CRATES: [&str; 8] =
    ["tokio", "mio", "socket2", "libc", "nix", "rustix", "getrandom", "async-std"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for krate in crates(repo) {
        let pure = PURE.contains(&krate.name.as_str());
        let no_sleep = NO_TOKIO_SLEEP.contains(&krate.name.as_str());
        if pure {
            check_manifest(&krate, &mut found);
        }
        let folder = format!("{}src/", krate.folder);
        for (file, ast) in repo.rust().filter(|(f, _)| f.path.starts_with(&folder) && !f.is_test()) {
            let named = named_paths(ast);
            if pure {
                check_paths(file, &named, &mut found);
                for (ident, line) in identifiers(ast) {
                    if UNSEEDED.contains(&ident.as_str()) {
                        found.push(Violation::new(
                            &file.path,
                            line,
                            format!("`{ident}`: chance comes from the seed"),
                        ));
                    }
                }
            }
            if no_sleep {
                for named in named.iter().filter(|n| n.starts_with("tokio::time::sleep")) {
                    let message = "`tokio::time::sleep`: depart at absolute times, never sleep relative";
                    found.push(Violation::new(&file.path, named.line, message));
                }
            }
        }
    }
    found
}

fn check_manifest(krate: &Krate<'_>, found: &mut Vec<Violation>) {
    for section in ["dependencies", "build-dependencies"] {
        let Some(table) = krate.manifest.get(section).and_then(|t| t.as_table()) else { continue };
        for name in table.keys().filter(|name| IMPURE_CRATES.contains(&name.as_str())) {
            found.push(Violation::new(
                krate.manifest_path,
                0,
                format!("the pure crate `{}` depends on `{name}`", krate.name),
            ));
        }
    }
}

fn check_paths(file: &RepoFile, named: &[Named], found: &mut Vec<Violation>) {
    for named in named {
        let leaves = |prefix: &str| {
            // After `use std::time;`, code can write `time::Instant`, so a path that begins with
            // the end of a forbidden path is forbidden too.
            named.starts_with(prefix)
                || (named.glob && prefix.starts_with(&format!("{}::", named.text())))
                || prefix
                    .split_once("::")
                    .is_some_and(|(_, tail)| tail.contains("::") && named.starts_with(tail))
        };
        if let Some((prefix, reason)) = IMPURE_PATHS.iter().find(|(prefix, _)| leaves(prefix)) {
            found.push(Violation::new(
                &file.path,
                named.line,
                format!("`{prefix}` in a pure crate: {reason}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests;
