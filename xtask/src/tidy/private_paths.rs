//! Checks that no file contains a path of the machine on which it was written.

use super::violation::Violation;
use crate::repo::Repo;

/// Private folders; their names are split so that this file passes its own check.
const PRIVATE: [&str; 3] = [concat!("/", "work"), concat!("/", "root"), concat!("/", "home")];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in repo.files() {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(private) = PRIVATE.iter().find(|private| names(line, private)) {
                found.push(Violation::new(
                    &file.path,
                    index + 1,
                    format!("names the private path `{private}`"),
                ));
            }
        }
    }
    found
}

/// Returns true if the line contains `private` as the beginning of an absolute path, and not within
/// a longer path or word.
fn names(line: &str, private: &str) -> bool {
    line.match_indices(private).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + private.len()..].chars().next();
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '*' | '~');
        !before.is_some_and(inside) && !after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    })
}

#[cfg(test)]
mod tests;
