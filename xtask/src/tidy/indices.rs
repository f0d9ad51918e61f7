//! Checks that indices of lanes, slots, classes and builders have types of their own
//! (`evb_core::index`), so that they cannot be confused: no field, parameter or result such as
//! `lane` may be a `usize`.

use quote::ToTokens as _;
use syn::{Field, FnArg, Pat, ReturnType, Type, visit::Visit};

use super::{syntax::is_test_only, violation::Violation};
use crate::repo::Repo;

/// Names of the things whose indices have a type of their own.
const INDEXED: [&str; 4] = ["lane", "slot", "class", "builder"];

/// Folders in which the rule holds, because their code identifies lanes, slots, classes and
/// builders by index.
const FOLDERS: [&str; 5] =
    ["crates/evb-core/src/", "crates/evb-shaper/src/", "crates/evb-net/src/", "crates/evb-sim/src/", "src/"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    let concerned = |path: &str| FOLDERS.iter().any(|folder| path.starts_with(folder));
    for (file, ast) in repo.rust().filter(|(file, _)| concerned(&file.path) && !file.is_test()) {
        let mut bare = Bare { found: Vec::new() };
        bare.visit_file(ast);
        found.extend(bare.found.into_iter().map(|(name, line)| {
            let message = format!("`{name}` is a bare number: give it its type of `evb_core::index`");
            Violation::new(&file.path, line, message)
        }));
    }
    found
}

/// Names of values of type `usize` that should have an index type, with their line numbers.
struct Bare {
    found: Vec<(String, usize)>,
}

impl Bare {
    fn look(&mut self, name: &syn::Ident, kind: &Type) {
        if is_indexed(&name.to_string()) && is_bare(kind) {
            self.found.push((name.to_string(), name.span().start().line));
        }
    }

    fn look_at(&mut self, signature: &syn::Signature) {
        if let ReturnType::Type(_, kind) = &signature.output {
            self.look(&signature.ident, kind);
        }
    }
}

impl<'ast> Visit<'ast> for Bare {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if let Some(name) = &field.ident {
            self.look(name, &field.ty);
        }
    }

    fn visit_fn_arg(&mut self, argument: &'ast FnArg) {
        if let FnArg::Typed(argument) = argument {
            self.visit_pat_type(argument);
        }
    }

    /// Visits a parameter or variable with a stated type, in functions, closures and `let`.
    fn visit_pat_type(&mut self, pattern: &'ast syn::PatType) {
        if let Pat::Ident(name) = &*pattern.pat {
            self.look(&name.ident, &pattern.ty);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.look_at(signature);
        syn::visit::visit_signature(self, signature);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        let name = syn::Ident::new(&variant.ident.to_string().to_lowercase(), variant.ident.span());
        let fields = variant.fields.iter().filter(|field| field.ident.is_none());
        fields.for_each(|field| self.look(&name, &field.ty));
        syn::visit::visit_variant(self, variant);
    }
}

/// Returns true for the name of an index, such as `lane`, `a_lane`, `lane_of` and `lane_index`, but
/// not for `lane_count`.
fn is_indexed(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let name = name.strip_suffix("_index").or_else(|| name.strip_suffix("_of")).unwrap_or(name);
    INDEXED.iter().any(|indexed| name == *indexed || name.ends_with(&format!("_{indexed}")))
}

/// Returns true for the type `usize`, and for references, options, lists and results of `usize`.
fn is_bare(kind: &Type) -> bool {
    let text = kind.to_token_stream().to_string().replace(' ', "");
    let text = text.trim_start_matches("&mut").trim_start_matches('&');
    let inner = ["Option<", "Vec<", "[", "Result<"].iter().find_map(|outer| text.strip_prefix(outer));
    inner.unwrap_or(text).split([',', ';', '>', ']']).next() == Some("usize")
}

#[cfg(test)]
mod tests;
