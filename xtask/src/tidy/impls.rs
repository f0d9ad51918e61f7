//! Limits the size of types: the inherent `impl` blocks of a type must be in few files, and must
//! not have too many lines.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, Type, spanned::Spanned as _};

use super::{
    syntax::{attributes, is_test_only},
    violation::Violation,
};
use crate::repo::Repo;

/// Largest number of files that may contain inherent `impl` blocks of one type.
const FILES: usize = 3;
/// Largest number of lines of all inherent `impl` blocks of one type together.
const LINES: usize = 700;

#[derive(Default)]
struct Extent<'a> {
    files: BTreeSet<&'a str>,
    lines: usize,
}

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let sources = || repo.rust().filter(|(file, _)| file.is_source());
    let mut definitions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (file, ast) in sources() {
        for name in ast.items.iter().filter_map(defined) {
            definitions.entry(name).or_default().push(&file.path);
        }
    }
    let mut extents: BTreeMap<(String, &str), Extent<'_>> = BTreeMap::new();
    for (file, ast) in sources() {
        for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
            let Item::Impl(block) = item else { continue };
            let Some(name) = implemented(block) else { continue };
            let homes = definitions.get(&name).map(Vec::as_slice).unwrap_or_default();
            let home = homes.iter().copied().max_by_key(|home| shared(home, &file.path));
            let extent = extents.entry((name, home.unwrap_or(&file.path))).or_default();
            extent.files.insert(&file.path);
            let span = block.span();
            extent.lines += span.end().line - span.start().line + 1;
        }
    }
    let mut found = Vec::new();
    for ((name, home), extent) in extents {
        if extent.files.len() > FILES {
            let files = extent.files.iter().copied().collect::<Vec<_>>().join(", ");
            let message = format!(
                "`{name}` has functions in {} files ({files}); {FILES} is the limit: make a part of it a type of its own",
                extent.files.len()
            );
            found.push(Violation::new(home, 0, message));
        }
        if extent.lines > LINES {
            let message =
                format!("the functions of `{name}` take {} lines; {LINES} is the limit", extent.lines);
            found.push(Violation::new(home, 0, message));
        }
    }
    found
}

/// Returns the name of the struct or enum that an item defines; `None` for another item.
fn defined(item: &Item) -> Option<String> {
    match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

/// Returns the name of the type of an inherent `impl` block; `None` for a trait implementation.
fn implemented(block: &syn::ItemImpl) -> Option<String> {
    let Type::Path(path) = &*block.self_ty else { return None };
    if block.trait_.is_some() {
        return None;
    }
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// Returns the number of bytes that two paths share at their beginning.
fn shared(one: &str, other: &str) -> usize {
    one.trim_end_matches(".rs").bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests;
