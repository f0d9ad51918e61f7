//! Checks that the page of promises names existing tests for its promises, and that it has exactly
//! the queues of the page about limits.

use super::violation::Violation;
use crate::repo::Repo;

/// Page with a table of promises and tests for each page that makes promises.
const PAGE: &str = "docs/reference/promises.md";

/// Page with a table of queues. The first two cells of a row are the place and the queue.
const LIMITS: &str = "docs/reference/limits.md";

/// Link to [`LIMITS`] in the heading of the section of [`PAGE`] about queues.
const LIMITS_LINK: &str = "(limits.md)";

/// Words in place of a test where a promise has no test.
const NONE: &str = "none yet";

/// Folder of the fuzz targets; a fuzz target is named by its file alone.
const FUZZ_TARGETS: &str = "fuzz/fuzz_targets/";

/// Row of a table, without its header: the line number, the heading above it, and the cells.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    heading: &'a str,
    cells: Vec<&'a str>,
}

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let Some(page) = repo.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "the page is missing")];
    };
    let rows = rows(&page.text);
    let mut found = Vec::new();
    for row in &rows {
        found.extend(faults(repo, row).into_iter().map(|fault| Violation::new(PAGE, row.line, fault)));
    }
    found.extend(queues(repo, &rows));
    found
}

/// Returns the rows of all tables of a Markdown text, without the headers.
fn rows(text: &str) -> Vec<Row<'_>> {
    let (mut found, mut heading, mut position) = (Vec::new(), "", 0);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            heading = line;
        }
        position = if line.starts_with('|') { position + 1 } else { 0 };
        // The first two lines of a table are the header and the line below it.
        if position > 2 {
            let cells = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            found.push(Row { line: index + 1, heading, cells });
        }
    }
    found
}

/// Returns the faults of the last cell of a row, which names tests.
fn faults(repo: &Repo, row: &Row<'_>) -> Vec<String> {
    let [_, cell] = row.cells[..] else {
        return vec!["a row has a promise and its tests, and no further cells".to_owned()];
    };
    let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    match (cell, tests.is_empty()) {
        (NONE, _) => Vec::new(),
        (_, true) => vec![format!("a promise without a test: name one, or write `{NONE}`")],
        (_, false) => tests.into_iter().filter_map(|test| fault(repo, test)).collect(),
    }
}

/// Returns the fault of the name of a test, which is `file: function` or the file of a fuzz target.
fn fault(repo: &Repo, test: &str) -> Option<String> {
    let (path, function) = test.split_once(": ").unwrap_or((test, ""));
    let Some(file) = repo.get(path) else { return Some(format!("the file `{path}` does not exist")) };
    if function.is_empty() {
        let is_target = path.starts_with(FUZZ_TARGETS);
        return (!is_target).then(|| format!("`{path}` is no fuzz target: name a function of the file"));
    }
    (!defines(&file.text, function)).then(|| format!("`{path}` has no function `{function}`"))
}

/// Returns true if a text in Rust or Python defines a function.
fn defines(text: &str, function: &str) -> bool {
    ["fn ", "def "].iter().any(|keyword| {
        text.match_indices(keyword).any(|(at, _)| {
            let after = text[at + keyword.len()..].strip_prefix(function);
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    })
}

/// Returns the differences between the queues of [`LIMITS`] and of its section of [`PAGE`], whose
/// promises are named `place: queue`.
fn queues(repo: &Repo, promised: &[Row<'_>]) -> Vec<Violation> {
    let stated = repo.get(LIMITS).map(|file| rows(&file.text)).unwrap_or_default();
    let name = |row: &Row<'_>| row.cells.get(..2).map(|cells| cells.join(": ")).unwrap_or_default();
    let stated: Vec<(usize, String)> = stated.iter().map(|row| (row.line, name(row))).collect();
    let promised: Vec<(usize, &str)> = promised
        .iter()
        .filter(|row| row.heading.contains(LIMITS_LINK))
        .map(|row| (row.line, row.cells.first().copied().unwrap_or_default()))
        .collect();
    let absent = stated.iter().filter(|(_, queue)| !promised.iter().any(|(_, other)| other == queue));
    let absent =
        absent.map(|(line, queue)| Violation::new(LIMITS, *line, format!("{PAGE} has no row \"{queue}\"")));
    let stale = promised.iter().filter(|(_, queue)| !stated.iter().any(|(_, other)| other == queue));
    let stale = stale.map(|(line, queue)| {
        Violation::new(PAGE, *line, format!("\"{queue}\" is not the place and queue of a row of {LIMITS}"))
    });
    absent.chain(stale).collect()
}

#[cfg(test)]
mod tests;
