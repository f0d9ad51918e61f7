//! Checks that every relative link in the Markdown files of this repository leads to an existing
//! file, and to an existing heading if it names one.

use super::violation::Violation;
use crate::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in repo.files().iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in targets(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let Some(path) = resolve(&file.path, path) else {
                found.push(Violation::new(
                    &file.path,
                    line,
                    format!("the link `{target}` leaves the repository"),
                ));
                continue;
            };
            if !repo.exists(&path) {
                found.push(Violation::new(&file.path, line, format!("the link `{target}` leads nowhere")));
            } else if path.ends_with(".md")
                && !anchor.is_empty()
                && let Some(other) = repo.get(&path)
                && !anchors(&other.text).iter().any(|a| a == anchor)
            {
                found.push(Violation::new(&file.path, line, format!("`{path}` has no heading `#{anchor}`")));
            }
        }
    }
    found
}

/// Returns the lines of a Markdown text outside of code blocks, with their line numbers.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line.to_owned()));
        }
    }
    lines
}

/// Returns a line of Markdown without its inline code.
pub(super) fn visible(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Returns all link targets of a Markdown text with their line numbers: `[x](target)`, `[x]:
/// target`, and `src=`/`href=` of embedded HTML.
pub(crate) fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let visible = visible(&line);
        for (at, _) in visible.match_indices("](") {
            let rest = &visible[at + 2..];
            found.push((number, rest[..rest.find([')', ' ']).unwrap_or(rest.len())].to_owned()));
        }
        for attribute in ["src=\"", "href=\""] {
            for (at, _) in visible.match_indices(attribute) {
                let rest = &visible[at + attribute.len()..];
                found.push((number, rest[..rest.find('"').unwrap_or(rest.len())].to_owned()));
            }
        }
        if visible.starts_with('[')
            && let Some((_, target)) = visible.split_once("]: ")
        {
            found.push((number, target.split(' ').next().unwrap_or(target).to_owned()));
        }
    }
    found.retain(|(_, target)| !target.is_empty());
    for (_, target) in &mut found {
        *target = target.trim_matches(['<', '>']).to_owned();
    }
    found
}

/// Returns the path to which a link leads, relative to the root; `None` if it leads out of the
/// repository.
pub(crate) fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if link.starts_with('/') {
        parts.clear();
    }
    for part in link.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchors of all headings of a Markdown text, formed as on GitHub: lower case, dashes
/// for spaces, and no punctuation.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
