//! Checks that the README and the pages say where their numbers come from: a section that states a
//! rate, a time or a share, or that shows a picture, names a measurement, a simulation, a
//! calculation, a default or a published source.

#[cfg(test)]
mod tests;

use super::{links::visible, violation::Violation};
use crate::repo::{Repo, RepoFile};

/// Units of quantities that must have a source.
const UNITS: [&str; 14] = [
    "Gbit/s",
    "Mbit/s",
    "kbit/s",
    "GB/s",
    "MB/s",
    "events/s",
    "s/GB",
    "ns",
    "µs",
    "ms",
    "minutes",
    "instructions",
    "%",
    "×",
];

/// Words and links that say where the numbers of a section come from.
const SOURCES: [&str; 14] = [
    "measur",
    "simulat",
    "calculat",
    "comput",
    "counted",
    "screenshot",
    "the lab",
    "cargo xtask",
    "evb-bench",
    "benchmarks.md",
    "default",
    "the paper",
    "data sheet",
    "rfc",
];

/// Pages that define the numbers which they state, such as time limits.
const DEFINITIONS: [&str; 8] = [
    "docs/reference/configuration.md",
    "docs/reference/file-format-1.md",
    "docs/reference/file-format.md",
    "docs/reference/front-end.md",
    "docs/reference/limits.md",
    "docs/reference/operation.md",
    "docs/reference/protocol.md",
    "docs/reference/run-control.md",
];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let is_page = |file: &&RepoFile| {
        let path = file.path.as_str();
        (path == "README.md" || path.starts_with("docs/") && path.ends_with(".md"))
            && !DEFINITIONS.contains(&path)
    };
    repo.files().iter().filter(is_page).flat_map(of_page).collect()
}

/// A section of a page, from one heading to the next.
#[derive(Default)]
struct Section {
    /// First line with a number or a picture, and what stands there.
    stated: Option<(usize, String)>,
    has_source: bool,
}

fn of_page(file: &RepoFile) -> Vec<Violation> {
    let (mut sections, mut section, mut in_code) = (Vec::new(), Section::default(), false);
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if !in_code && line.starts_with('#') {
            sections.push(std::mem::take(&mut section));
        }
        let lower = line.to_lowercase();
        section.has_source |= SOURCES.iter().any(|source| lower.contains(source));
        if !in_code && section.stated.is_none() {
            section.stated = stated(line).map(|what| (index + 1, what));
        }
    }
    sections.push(section);
    let unfounded = sections.into_iter().filter(|section| !section.has_source);
    unfounded
        .filter_map(|section| section.stated)
        .map(|(line, what)| {
            let message = format!(
                "`{what}` has no source: say in its section where it was measured or simulated, how it is calculated, or whose it is"
            );
            Violation::new(&file.path, line, message)
        })
        .collect()
}

/// Returns the first quantity or picture of a line, outside of inline code.
fn stated(line: &str) -> Option<String> {
    let visible = visible(line);
    if visible.contains("![") || visible.contains("<img") {
        return Some("a picture".to_owned());
    }
    let words: Vec<&str> =
        visible.split([' ', '(', ')', '|', '[', ']']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find_map(|pair| {
        let unit = pair[1].trim_end_matches(['.', ',', ';', ':', '*']);
        let number = pair[0].trim_start_matches(['*', '−', '<', '≥', '≤']);
        (number.starts_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit))
            .then(|| format!("{number} {unit}"))
    })
}
