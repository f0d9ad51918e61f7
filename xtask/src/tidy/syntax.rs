//! Collects the paths that a Rust file names in `use` declarations, in code and in macro arguments,
//! without tests.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item, UseTree, visit::Visit};

/// A path in a Rust file that has at least two segments or is imported by `use`, with its line
/// number.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// True if the path ends in `*`; the last segment is then the module whose items are imported.
    pub(crate) glob: bool,
}

impl Named {
    pub(crate) fn starts_with(&self, prefix: &str) -> bool {
        let mut own = self.segments.iter();
        prefix.split("::").all(|part| own.next().is_some_and(|s| s == part))
    }

    pub(crate) fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// Returns true if the attributes contain `#[cfg(test)]` (also inside `all(..)`).
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = match &attribute.meta {
            syn::Meta::List(list) if attribute.path().is_ident("cfg") => list.tokens.to_string(),
            _ => return false,
        };
        tokens.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test")
            && !tokens.contains("not")
    })
}

/// Returns the attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Returns all paths that the items of a file name, without test items.
pub(crate) fn named_paths(ast: &syn::File) -> Vec<Named> {
    let mut found = Vec::new();
    for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
        let mut uses = Uses { found: Vec::new() };
        uses.visit_item(item);
        found.append(&mut uses.found);
        if !matches!(item, Item::Use(_)) {
            paths_in(quote(item), &mut found);
        }
    }
    found
}

/// Returns all identifiers in the items of a file with their line numbers, without test items.
pub(crate) fn identifiers(ast: &syn::File) -> Vec<(String, usize)> {
    fn collect(tokens: TokenStream, found: &mut Vec<(String, usize)>) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => found.push((ident.to_string(), ident.span().start().line)),
                TokenTree::Group(group) => collect(group.stream(), found),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
        collect(quote(item), &mut found);
    }
    found
}

/// Flattens the tree of a `use` declaration into single paths.
pub(crate) fn flatten(tree: &UseTree, prefix: &[String], found: &mut Vec<Named>) {
    let with = |ident: &syn::Ident| prefix.iter().cloned().chain([ident.to_string()]).collect::<Vec<_>>();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), found),
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, found)),
        UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            found.push(Named { segments: prefix.to_vec(), line, glob: true });
        }
        UseTree::Name(name) => {
            let segments = if name.ident == "self" { prefix.to_vec() } else { with(&name.ident) };
            found.push(Named { segments, line: name.ident.span().start().line, glob: false });
        }
        UseTree::Rename(rename) => {
            let segments = if rename.ident == "self" { prefix.to_vec() } else { with(&rename.ident) };
            found.push(Named { segments, line: rename.ident.span().start().line, glob: false });
        }
    }
}

struct Uses {
    found: Vec<Named>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        flatten(&item.tree, &[], &mut self.found);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

fn quote(item: &Item) -> TokenStream {
    use quote::ToTokens as _;
    item.to_token_stream()
}

/// Collects all paths with at least two segments in a stream of tokens, including nested groups,
/// which contain macro arguments.
fn paths_in(tokens: TokenStream, found: &mut Vec<Named>) {
    let mut path: Vec<String> = Vec::new();
    let (mut line, mut colons) = (0, 0);
    let mut flush = |path: &mut Vec<String>, line: usize| {
        if path.len() > 1 {
            found.push(Named { segments: std::mem::take(path), line, glob: false });
        }
        path.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    flush(&mut path, line);
                }
                if path.is_empty() {
                    line = ident.span().start().line;
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                flush(&mut path, line);
                colons = 0;
                groups.push(group.stream());
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                flush(&mut path, line);
                colons = 0;
            }
        }
    }
    flush(&mut path, line);
    for group in groups {
        paths_in(group, found);
    }
}
