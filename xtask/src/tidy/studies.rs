//! Checks the pages of the studies: every figure of the papers is listed, every command exists, and
//! the generated parts agree with the stored results.

use std::collections::BTreeMap;

use anyhow::Result;
use studies::{
    PAGES,
    catalog::{CATALOG, Catalog, all_figures},
    page,
    result::{RESULTS, Stored},
};
use syn::Item;

use super::violation::Violation;
use crate::repo::{Repo, RepoFile};

/// Index of the studies, which has a row for every figure.
const INDEX: &str = "docs/studies/README.md";

/// Enums of clap whose variants are the commands after these words.
const COMMANDS: [(&str, &str, &str); 3] = [
    ("evbd", "crates/evb-daemon/src/cli.rs", "Command"),
    ("evb-bench", "crates/evb-bench/src/lib.rs", "Command"),
    ("cargo xtask lab", "lab/src/lab.rs", "Scenario"),
];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let Some(text) = repo.get(CATALOG).map(|file| &file.text) else { return Vec::new() };
    let read = Catalog::read(text).and_then(|catalog| Ok((catalog, stored(repo)?)));
    match read {
        Ok((catalog, stored)) => {
            let mut found = listed(repo, &catalog);
            found.extend(commands(repo, &catalog));
            found.extend(results(&catalog, &stored));
            found.extend(pages(repo).flat_map(|file| generated(file, &catalog, &stored)));
            found.extend(unused(repo, &catalog));
            found
        }
        Err(error) => vec![Violation::new(CATALOG, 0, format!("{error:#}"))],
    }
}

fn stored(repo: &Repo) -> Result<Stored> {
    Stored::of(repo.files().iter().map(|file| (&*file.path, &*file.text)))
}

fn pages(repo: &Repo) -> impl Iterator<Item = &RepoFile> {
    repo.files().iter().filter(|file| file.path.starts_with(PAGES) && file.path.ends_with(".md"))
}

/// Checks that the catalog and the index have every figure of the papers once.
fn listed(repo: &Repo, catalog: &Catalog) -> Vec<Violation> {
    let mut found = Vec::new();
    let all = all_figures();
    for id in &all {
        let times = catalog.figures.iter().filter(|figure| figure.id == *id).count();
        if times != 1 {
            found.push(Violation::new(
                CATALOG,
                0,
                format!("the figure `{id}` is listed {times} times, not once"),
            ));
        }
    }
    let index = repo.get(INDEX).map_or("", |file| &file.text);
    for figure in &catalog.figures {
        if !all.contains(&figure.id) {
            found.push(Violation::new(CATALOG, 0, format!("the papers have no figure `{}`", figure.id)));
        }
        let row = format!("| [{}]({}) |", figure.name(), figure.section);
        if !index.contains(&row) {
            found.push(Violation::new(
                INDEX,
                0,
                format!("no row begins with `{row}`: `cargo xtask studies --fill`"),
            ));
        }
    }
    found
}

/// Checks that the commands of the catalog and of the pages exist.
fn commands(repo: &Repo, catalog: &Catalog) -> Vec<Violation> {
    let known: BTreeMap<&str, Vec<String>> =
        COMMANDS.iter().map(|(words, path, name)| (*words, variants(repo.get(path), name))).collect();
    let lines = catalog.studies.iter().flat_map(|study| [study.full.as_str(), study.quick.as_str()]);
    let on_pages =
        pages(repo).flat_map(|file| (1..).zip(file.text.lines()).map(|(at, line)| (&*file.path, at, line)));
    let all = lines.map(|line| (CATALOG, 0, line)).chain(on_pages);
    let mut found = Vec::new();
    for (path, number, line) in all {
        let words = COMMANDS.iter().rev().find_map(|(words, ..)| Some((*words, after(line, words)?)));
        if let Some((words, next)) = words
            && !known[words].iter().any(|command| command == next)
        {
            found.push(Violation::new(path, number, format!("there is no command `{words} {next}`")));
        }
    }
    found
}

/// Returns the word that follows these words at the beginning of a command line.
fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let next = line.strip_prefix(words)?.strip_prefix(' ')?.split_whitespace().next()?;
    Some(next.trim_end_matches('`'))
}

/// Returns the commands that clap makes of the variants of an enum.
fn variants(file: Option<&RepoFile>, name: &str) -> Vec<String> {
    let items = file.and_then(|file| file.ast.as_ref()).map_or(&[][..], |ast| &ast.items);
    let of = items.iter().find_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(item),
        _ => None,
    });
    let variants = of.into_iter().flat_map(|item| &item.variants);
    variants.map(|variant| kebab(&variant.ident.to_string())).collect()
}

/// Returns the name of a command for the name of a variant, such as `probe-buffer` for
/// `ProbeBuffer`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Checks that each stored result belongs to a study, and was measured with the study's command.
fn results(catalog: &Catalog, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in stored.names() {
        let path = format!("{RESULTS}/{name}.csv");
        match (catalog.study(name), stored.get(name)) {
            (Some(study), Some(kept)) if kept.about("command") != Some(&study.full) => {
                let message =
                    format!("measured with another command than `{}`: run the study again", study.full);
                found.push(Violation::new(&path, 0, message));
            }
            (Some(_), _) => {}
            (None, _) => found.push(Violation::new(&path, 0, "no study has this name")),
        }
    }
    found
}

/// Checks that the generated parts of a page agree with the stored results.
fn generated(file: &RepoFile, catalog: &Catalog, stored: &Stored) -> Option<Violation> {
    match page::filled(&file.text, catalog, stored) {
        Ok(text) if text == file.text => None,
        Ok(_) => {
            let message = "the generated parts do not agree with the results: `cargo xtask studies --fill`";
            Some(Violation::new(&file.path, 0, message))
        }
        Err(error) => Some(Violation::new(&file.path, 0, format!("{error:#}"))),
    }
}

/// Checks that each block of the catalog is on exactly one page.
fn unused(repo: &Repo, catalog: &Catalog) -> Vec<Violation> {
    let names: Vec<&str> = pages(repo).flat_map(|file| file.text.lines()).filter_map(page::name_of).collect();
    let wrong = catalog.blocks().filter_map(|(_, block)| {
        let times = names.iter().filter(|name| **name == block.name).count();
        let message = format!("the block `{}` is on the pages {times} times, not once", block.name);
        (times != 1).then(|| Violation::new(CATALOG, 0, message))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests;
