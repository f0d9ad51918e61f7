//! Checks that commit subjects are short imperative sentences, such as "Let a lone lane hold the
//! whole budget".

use std::process::Command;

use super::violation::Violation;
use crate::repo::Repo;

/// Commit after which subjects must obey this rule; earlier commits are not checked.
const SINCE: &str = "f1494c1";

/// Largest length of a subject, in columns.
const COLUMNS: usize = 72;

/// First words that show that a subject is no imperative sentence.
const SUBJECTS: [&str; 22] = [
    "A", "All", "An", "Each", "Every", "How", "It", "Its", "No", "One", "The", "Their", "There", "They",
    "This", "Two", "What", "When", "Where", "Whether", "Which", "Who",
];

pub(crate) fn check(_: &Repo) -> Vec<Violation> {
    let range = format!("{SINCE}..HEAD");
    let log =
        Command::new("git").args(["log", "--format=%h %s", &range]).current_dir(checkout::root()).output();
    // If git cannot run, there are no commits to check.
    let Ok(log) = log else { return Vec::new() };
    let text = String::from_utf8_lossy(&log.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .flat_map(|(hash, subject)| judge(hash, subject))
        .collect()
}

fn judge(hash: &str, subject: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let columns = subject.chars().count();
    if columns > COLUMNS {
        found.push(Violation::new(
            hash,
            0,
            format!("a subject of {columns} columns; {COLUMNS} are the most"),
        ));
    }
    let first = subject.split(' ').next().unwrap_or_default();
    if SUBJECTS.contains(&first) {
        found.push(Violation::new(hash, 0, format!("a subject begins with a verb, not with `{first}`")));
    }
    found
}

#[cfg(test)]
mod tests;
