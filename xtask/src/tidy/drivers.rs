//! Drivers move bytes, time and sink results, and decide nothing: they name no wire type but an
//! opaque message, stay short, and read the clock once in a turn.

use super::{
    finding::Finding,
    syntax::{identifiers, named_paths},
};
use crate::repo::Repo;

/// The files that contain a role's turn.
const DRIVERS: [&str; 3] = ["src/source/driver.rs", "src/builder/driver.rs", "src/supervisor/driver.rs"];

/// The most lines of a driver.
const LINES: usize = 200;

/// Wire types that a driver may name, without looking into them.
const OPAQUE: [&str; 2] = ["evb_core::wire::control::Control", "evb_core::wire::journal::Entry"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust().filter(|(file, _)| DRIVERS.contains(&file.path.as_str())) {
        let lines = file.text.lines().count();
        if lines > LINES {
            let message =
                format!("{lines} lines; a driver has at most {LINES}: what decides belongs to the machine");
            found.push(Finding::new(&file.path, 0, message));
        }
        for named in named_paths(ast) {
            if named.starts_with("evb_core::wire") && !OPAQUE.contains(&named.text().as_str()) {
                let message =
                    format!("`{}`: a driver carries messages, the machine reads them", named.text());
                found.push(Finding::new(&file.path, named.line, message));
            }
        }
        let reads: Vec<usize> = named_paths(ast)
            .iter()
            .filter(|named| named.text() == "clock::now")
            .map(|named| named.line)
            .collect();
        for line in reads.iter().skip(1) {
            let message = "the clock is read once in a turn: pass `now` on";
            found.push(Finding::new(&file.path, *line, message));
        }
        for (ident, line) in identifiers(ast) {
            if ident == "Message" {
                let message = "`Message`: the machine says what a message is";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
