//! Checks that only the module `wire` of `evb-core` uses Protobuf, which encodes messages on the
//! network and in the journal. State machines, drivers and the simulator use plain structures and
//! bytes.

use super::{crates::crates, syntax::named_paths, violation::Violation};
use crate::repo::Repo;

/// Path of the module that may use Protobuf, without the extension; files in this folder may use it
/// too.
const EDGE: &str = "crates/evb-core/src/wire";

/// Crate that may depend on Protobuf crates.
const OWNER: &str = "evb-core";

/// Names of the Protobuf crates.
const PROTOBUF: [&str; 4] = ["prost", "prost_build", "prost_types", "protox"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for krate in crates(repo).iter().filter(|krate| krate.name != OWNER) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(table) = krate.manifest.get(section).and_then(|table| table.as_table()) else {
                continue;
            };
            for name in table.keys().filter(|name| PROTOBUF.contains(&name.replace('-', "_").as_str())) {
                let message = format!("`{}` depends on `{name}`: it is for `{OWNER}` alone", krate.name);
                found.push(Violation::new(krate.manifest_path, 0, message));
            }
        }
    }
    for (file, ast) in repo.rust().filter(|(file, _)| !file.path.starts_with(&format!("{EDGE}/"))) {
        for named in named_paths(ast) {
            if named.segments.first().is_some_and(|first| PROTOBUF.contains(&first.as_str())) {
                let message =
                    format!("`{}`: only `{EDGE}` names Protobuf; use `wire::encoding`", named.text());
                found.push(Violation::new(&file.path, named.line, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
