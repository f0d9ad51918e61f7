//! Checks that the tests of a module are in a separate file (`foo/tests.rs` for `foo.rs`), so that
//! code and tests can be read separately.

use syn::{ItemMod, visit::Visit};

use super::{syntax::is_test_only, violation::Violation};
use crate::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust().filter(|(file, _)| !file.is_test()) {
        let mut inline = Inline { lines: Vec::new() };
        inline.visit_file(ast);
        let message = "tests inside the file: write `#[cfg(test)] mod tests;` and put them beside it";
        found.extend(inline.lines.into_iter().map(|line| Violation::new(&file.path, line, message)));
    }
    found
}

struct Inline {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for Inline {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let tests = is_test_only(&item.attrs) || item.ident == "tests" || item.ident == "test";
        if tests && item.content.is_some() {
            self.lines.push(item.ident.span().start().line);
        }
        syn::visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests;
