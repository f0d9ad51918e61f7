//! Comments cite requirements of the protocol by document path and ids (see [`DOCUMENT`]); this
//! check finds citations of ids that the document does not have.

use super::violation::Violation;
use crate::repo::Repo;

const DOCUMENT: &str = "docs/reference/protocol.md";

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let stated = repo.get(DOCUMENT).map(|file| ids(&file.text)).unwrap_or_default();
    let mut found = Vec::new();
    // The tests of `xtask` contain deliberately wrong citations, so its files are skipped.
    for (file, _) in repo.rust().filter(|(file, _)| !file.path.starts_with("xtask/")) {
        for (index, line) in file.text.lines().enumerate() {
            for cited in citations(line).into_iter().filter(|cited| !stated.contains(cited)) {
                found.push(Violation::new(
                    &file.path,
                    index + 1,
                    format!("cites {cited}, which {DOCUMENT} does not state"),
                ));
            }
        }
    }
    found
}

/// Returns the ids that follow the path of the document in a line, such as `LANE-3` or `LANE-3,
/// LANE-4`.
fn citations(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(DOCUMENT) {
        let after = &line[at + DOCUMENT.len()..];
        for word in after.split([' ', ',']).skip_while(|word| word.is_empty()) {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            if is_id(word) {
                found.push(word.to_owned());
            } else if !matches!(word, "" | "and") {
                break;
            }
        }
    }
    found
}

/// Returns all words of the text that have the form of a requirement's id.
fn ids(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| is_id(word)).map(ToOwned::to_owned).collect()
}

fn is_id(word: &str) -> bool {
    word.rsplit_once('-').is_some_and(|(name, number)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_uppercase() || c == '-')
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
