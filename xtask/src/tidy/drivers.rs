//! Drivers of the state machines only move bytes, time and sink results, and make no decisions.
//! This check finds drivers that name other wire types than an opaque message, are too long, or
//! read the clock twice.

use super::{
    syntax::{identifiers, named_paths},
    violation::Violation,
};
use crate::repo::Repo;

/// Files of the drivers: each contains the main loop of a role.
const DRIVERS: [&str; 3] = ["src/source/driver.rs", "src/builder/driver.rs", "src/supervisor/driver.rs"];

/// Largest number of lines of a driver.
const LINES: usize = 200;

/// Wire types that a driver may name, because it passes their values on without reading them.
const OPAQUE: [&str; 2] = ["evb_core::wire::control::Control", "evb_core::wire::journal::Entry"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust().filter(|(file, _)| DRIVERS.contains(&file.path.as_str())) {
        let lines = file.text.lines().count();
        if lines > LINES {
            let message =
                format!("{lines} lines; a driver has at most {LINES}: what decides belongs to the machine");
            found.push(Violation::new(&file.path, 0, message));
        }
        for named in named_paths(ast) {
            if named.starts_with("evb_core::wire") && !OPAQUE.contains(&named.text().as_str()) {
                let message =
                    format!("`{}`: a driver carries messages, the machine reads them", named.text());
                found.push(Violation::new(&file.path, named.line, message));
            }
        }
        let reads: Vec<usize> = named_paths(ast)
            .iter()
            .filter(|named| named.text() == "clock::now")
            .map(|named| named.line)
            .collect();
        for line in reads.iter().skip(1) {
            let message = "the clock is read once in a turn: pass `now` on";
            found.push(Violation::new(&file.path, *line, message));
        }
        for (ident, line) in identifiers(ast) {
            if ident == "Message" {
                let message = "`Message`: the machine says what a message is";
                found.push(Violation::new(&file.path, line, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
