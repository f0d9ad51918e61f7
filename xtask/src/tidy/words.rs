//! Checks that comments and Markdown pages use plain language, which an engineer understands at the
//! first reading.

use studies::page::name_of;

use super::violation::Violation;
use crate::repo::{Repo, RepoFile};

/// Largest length of a comment line, in columns.
const COLUMNS: usize = 100;

/// Largest length of a Markdown page outside of `docs/reference`, in lines that people write: those
/// of generated blocks do not count.
const PAGE: usize = 300;

/// Banned words and phrases, because they are unidiomatic, archaic or poetic; CONTRIBUTING.md says
/// what to write instead.
const BANNED: [&str; 22] = [
    "of before",
    "anew",
    "put down to",
    "whoever",
    "whomever",
    "to be had",
    "nevertheless",
    "thereof",
    "therein",
    "hereby",
    "how manieth",
    "in the mean",
    "is of no use",
    "not of use",
    "lament",
    "homes",
    "knocks",
    "unmake",
    "nobody's",
    "somebody's",
    "let go of",
    "lets go of",
];

/// Words that begin a clause which is no sentence. The documentation of an item must not begin with
/// them, but with a noun phrase or a verb.
const CLAUSE: [&str; 8] = ["What", "How", "Whether", "Where", "When", "Why", "Who", "Which"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in repo.files() {
        if file.path.ends_with(".rs") {
            comments(file, &mut found);
        } else if file.path.ends_with(".md") {
            page(file, &mut found);
        }
    }
    found
}

fn comments(file: &RepoFile, found: &mut Vec<Violation>) {
    let mut was_doc = false;
    for (index, line) in file.text.lines().enumerate() {
        let text = line.trim_start();
        let is_doc = text.starts_with("///");
        if let Some(words) = text.strip_prefix("//") {
            let words = words.trim_start_matches(['/', '!']).trim_start();
            let columns = line.chars().count();
            let complaint = if is_doc && !was_doc && is_bare_clause(words) {
                Some("a bare clause: write a noun phrase, or begin with a verb (\"Returns …\")".to_owned())
            } else if columns > COLUMNS && words.contains(' ') {
                Some(format!("a comment line of {columns} columns; {COLUMNS} are the most"))
            } else {
                banned(words).map(|turn| format!("\"{turn}\": say it plainly"))
            };
            found.extend(complaint.map(|message| Violation::new(&file.path, index + 1, message)));
        }
        was_doc = is_doc;
    }
}

/// Returns the number of lines outside of generated blocks.
fn written_lines(text: &str) -> usize {
    let mut in_block = false;
    let is_written = |line: &&str| {
        let is_end = line.starts_with("<!-- end: ");
        in_block = name_of(line).is_some() || (in_block && !is_end);
        !in_block && !is_end
    };
    text.lines().filter(is_written).count()
}

fn page(file: &RepoFile, found: &mut Vec<Violation>) {
    let lines = written_lines(&file.text);
    let is_page = file.path.starts_with("docs/") && !file.path.starts_with("docs/reference/");
    if is_page && lines > PAGE {
        found.push(Violation::new(&file.path, 0, format!("{lines} lines; a page has at most {PAGE}")));
    }
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && let Some(turn) = banned(line) {
            found.push(Violation::new(&file.path, index + 1, format!("\"{turn}\": say it plainly")));
        }
    }
}

/// Returns true if a text begins with a bare clause, such as "What a source knows"; false for a
/// question, such as "What does a source know?".
fn is_bare_clause(words: &str) -> bool {
    let first = words.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    CLAUSE.contains(&first) && !words.contains('?')
}

/// Returns the first banned phrase in a line, outside of code.
fn banned(line: &str) -> Option<&'static str> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    BANNED.into_iter().find(|turn| {
        prose.match_indices(turn).any(|(at, _)| {
            let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            is_edge(prose[..at].chars().next_back()) && is_edge(prose[at + turn.len()..].chars().next())
        })
    })
}

#[cfg(test)]
mod tests;
