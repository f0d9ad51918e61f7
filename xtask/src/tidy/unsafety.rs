//! Checks that unsafe code occurs only in `evb-net`, in `evb-crc` and in the bindings.

use proc_macro2::{TokenStream, TokenTree};

use super::violation::Violation;
use crate::repo::Repo;

/// Folders and files in which unsafe code is allowed; `evb-crc` uses vector instructions, the
/// programs under `benches/peers` are thin wrappers of other projects' libraries, the C bindings
/// take pointers from C programs, and the Python package maps event files into memory.
const ALLOWED: [&str; 6] = [
    "crates/evb-net/",
    "crates/evb-crc/src/avx512.rs",
    "crates/evb-crc/src/pclmulqdq.rs",
    "benches/peers/",
    "bindings/c/",
    "bindings/python/src/sys_map.rs",
];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, _) in
        repo.rust().filter(|(file, _)| !ALLOWED.iter().any(|folder| file.path.starts_with(folder)))
    {
        let tokens: TokenStream = file.text.parse().unwrap_or_default();
        let mut lines = Vec::new();
        collect(tokens, &mut lines);
        found.extend(
            lines.into_iter().map(|line| Violation::new(&file.path, line, "`unsafe` belongs to evb-net")),
        );
    }
    found
}

fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "unsafe" => lines.push(ident.span().start().line),
            TokenTree::Group(group) => collect(group.stream(), lines),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
