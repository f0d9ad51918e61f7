//! Checks of the coding rules of this project. Every check takes the repository and returns its
//! findings.

mod violation;
mod syntax;
mod crates;
mod modules;
mod graph;
mod order;
pub(crate) mod purity;
mod clippy_files;
mod size;
mod impls;
mod drivers;
mod protobuf;
mod indices;
mod simulated;
mod framing;
mod invariants;
mod names;
mod examples;
mod unsafety;
mod apart;
mod private_paths;
mod citations;
pub(crate) mod links;
mod promises;
mod words;
mod numbers;
mod subjects;
mod studies;

use anyhow::Result;

use self::violation::Violation;
use crate::repo::Repo;

/// Name and function of a check.
type Check = (&'static str, fn(&Repo) -> Vec<Violation>);

const CHECKS: [Check; 24] = [
    ("crate graph", graph::check),
    ("import order", order::check),
    ("pure crates", purity::check),
    ("clippy.toml files", clippy_files::check),
    ("file and function sizes", size::check),
    ("functions by type", impls::check),
    ("drivers decide nothing", drivers::check),
    ("Protobuf on the wire only", protobuf::check),
    ("machines state invariants", invariants::check),
    ("indices have types", indices::check),
    ("simulator has no protocol", simulated::check),
    ("framing by machines only", framing::check),
    ("names", names::check),
    ("examples", examples::check),
    ("unsafe only in evb-net", unsafety::check),
    ("tests in sibling files", apart::check),
    ("no private paths", private_paths::check),
    ("protocol citations", citations::check),
    ("Markdown links", links::check),
    ("promises have tests", promises::check),
    ("plain words", words::check),
    ("numbers have sources", numbers::check),
    ("commit subjects", subjects::check),
    ("studies of the papers", studies::check),
];

/// Runs every check on this repository, and prints a table with the findings. Returns true if no
/// check has a finding.
pub(crate) fn run(bless: bool) -> Result<bool> {
    let root = checkout::root();
    if bless {
        clippy_files::write(&root)?;
    }
    let repo = Repo::load(&root)?;
    let mut found = 0;
    for (name, check) in CHECKS {
        let findings = check(&repo);
        println!(
            "{:<26} {}",
            name,
            if findings.is_empty() { "ok".into() } else { format!("{} found", findings.len()) }
        );
        for finding in &findings {
            println!("  {finding}");
        }
        found += findings.len();
    }
    println!("{}", size::summary(&repo));
    Ok(found == 0)
}

#[cfg(test)]
mod tests;
