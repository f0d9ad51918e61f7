//! Checks the lengths of files and functions; a function should fit on a screen.

use syn::{Block, visit::Visit};

use super::{
    syntax::{attributes, is_test_only},
    violation::Violation,
};
use crate::repo::Repo;

/// Largest length of a file, in lines, without exception.
const WALL: usize = 800;
/// Length, in lines, above which a file must state a reason: one of its first 30 lines must start
/// with [`REASON`].
const WANTS_REASON: usize = 500;
/// Largest allowed median length of all source files, in lines.
const MEDIAN: usize = 200;
/// Largest number of lines between the braces of a function.
const FUNCTION: usize = 70;

const REASON: &str = "// tidy: long because ";

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust() {
        let lines = file.text.lines().count();
        let reason =
            file.text.lines().take(30).any(|line| line.strip_prefix(REASON).is_some_and(|r| r.len() > 10));
        if lines > WALL {
            found.push(Violation::new(
                &file.path,
                0,
                format!("{lines} lines; {WALL} is the wall: split it by noun"),
            ));
        } else if lines > WANTS_REASON && !reason && !file.is_test() {
            let message =
                format!("{lines} lines; above {WANTS_REASON}, a line near the top says `{REASON}<reason>`");
            found.push(Violation::new(&file.path, 0, message));
        }
        if !file.is_test() {
            let mut functions = Functions { path: &file.path, found: &mut found };
            for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
                functions.visit_item(item);
            }
        }
    }
    let median = median(&sources(repo));
    if median >= MEDIAN {
        found.push(Violation::new(
            "src",
            0,
            format!("the median source file has {median} lines; the limit is {MEDIAN}"),
        ));
    }
    found
}

/// Returns a line of text with the number, the median length and the total length of all source
/// files.
pub(crate) fn summary(repo: &Repo) -> String {
    let lines = sources(repo);
    let (longest, total) = (lines.last().copied().unwrap_or(0), lines.iter().sum::<usize>());
    format!(
        "source files {}: median {} lines, longest {longest}, together {total}",
        lines.len(),
        median(&lines)
    )
}

/// Returns the lengths of all source files in lines, shortest first.
fn sources(repo: &Repo) -> Vec<usize> {
    let mut lines: Vec<usize> =
        repo.files().iter().filter(|file| file.is_source()).map(|file| file.text.lines().count()).collect();
    lines.sort_unstable();
    lines
}

fn median(sorted: &[usize]) -> usize {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

struct Functions<'a> {
    path: &'a str,
    found: &'a mut Vec<Violation>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &syn::Ident, body: &Block) {
        let braces = body.brace_token.span;
        let lines = braces.close().end().line.saturating_sub(braces.open().start().line + 1);
        if lines > FUNCTION {
            let message = format!("`{name}` has {lines} lines between its braces; the limit is {FUNCTION}");
            self.found.push(Violation::new(self.path, name.span().start().line, message));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig.ident, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig.ident, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.measure(&item.sig.ident, body);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests;
