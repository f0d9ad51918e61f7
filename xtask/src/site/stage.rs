//! Lays out the pages for mdbook: the Markdown files at their places, with all files to which they
//! link, and a table of contents made from the index of the documentation.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result};

use crate::{
    repo::Repo,
    tidy::links::{resolve, targets},
};

/// First page of the website.
const FIRST: &str = "README.md";
/// Index of the documentation, whose sections become those of the table of contents.
const INDEX: &str = "docs/README.md";

/// Writes the pages and what they need into `folder`, and returns the number of pages.
pub(super) fn write(repo: &Repo, root: &Path, folder: &Path) -> Result<usize> {
    let reached = reached(repo);
    for path in &reached {
        let place = folder.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        if root.join(path).is_dir() {
            fs::create_dir_all(&place)?;
            fs::write(place.join("index.html"), listing(repo, path))?;
        } else {
            fs::copy(root.join(path), &place).with_context(|| path.clone())?;
        }
    }
    fs::write(folder.join("SUMMARY.md"), summary(repo, &reached))?;
    Ok(reached.iter().filter(|path| path.ends_with(".md")).count())
}

/// Returns the pages that a reader reaches from the first page, and the other files and folders to
/// which these pages link.
fn reached(repo: &Repo) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![FIRST.to_owned()];
    while let Some(path) = next.pop() {
        if !repo.exists(&path) || !reached.insert(path.clone()) || !path.ends_with(".md") {
            continue;
        }
        let text = repo.get(&path).map_or("", |page| &page.text);
        next.extend(linked(&path, text));
    }
    reached
}

/// Returns the paths to which a page links, in their order.
fn linked(page: &str, text: &str) -> Vec<String> {
    let all = targets(text).into_iter().map(|(_, target)| target);
    let local = all.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    local.filter_map(|target| resolve(page, target.split('#').next().unwrap_or_default())).collect()
}

/// Returns the page that a link to a folder of the source opens: the names of the files in it.
fn listing(repo: &Repo, folder: &str) -> String {
    let inside = format!("{folder}/");
    let names = repo.files().iter().filter_map(|file| file.path.strip_prefix(&inside));
    let items: String = names.map(|name| format!("<li>{name}</li>\n")).collect();
    format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>{folder}</title>\n\
         <p>The folder {folder} of the repository:</p>\n<ul>\n{items}</ul>\n"
    )
}

/// Returns mdbook's table of contents: each section of the index with the pages that it links, then
/// the pages that only other pages link.
fn summary(repo: &Repo, reached: &BTreeSet<String>) -> String {
    let mut listed = BTreeSet::from([FIRST.to_owned(), INDEX.to_owned()]);
    let mut summary = format!("[evb]({FIRST})\n[All pages]({INDEX})\n");
    let mut add = |path: &str, summary: &mut String| {
        if path.ends_with(".md") && reached.contains(path) && listed.insert(path.to_owned()) {
            let title = repo.get(path).and_then(|page| title(&page.text)).unwrap_or(path);
            summary.push_str(&format!("- [{title}]({path})\n"));
        }
    };
    let index = repo.get(INDEX).map_or("", |page| &page.text);
    for section in index.split("\n## ").skip(1) {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let in_list =
            |line: &&str| line.starts_with(|first: char| "* ".contains(first) || first.is_ascii_digit());
        let list: String = text.lines().filter(in_list).map(|line| format!("{line}\n")).collect();
        summary.push_str(&format!("\n# {title}\n\n"));
        linked(INDEX, &list).iter().for_each(|path| add(path, &mut summary));
    }
    let (documentation, others): (Vec<_>, Vec<_>) =
        reached.iter().partition(|path| path.starts_with("docs/"));
    summary.push_str("\n# Other pages\n\n");
    documentation.into_iter().chain(others).for_each(|path| add(path, &mut summary));
    summary
}

/// Returns the title of a page, its first heading.
fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# "))
}

#[cfg(test)]
mod tests;
