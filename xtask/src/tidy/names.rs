//! Finds names of types and modules that have no meaning or an ambiguous one, and names that
//! several types of the shipped crates share.

use std::collections::BTreeMap;

use syn::{Ident, ImplItem, Item, Type, visit::Visit};

use super::{
    syntax::{attributes, is_test_only},
    violation::Violation,
};
use crate::repo::Repo;

/// Words that a type's name must not contain.
const EMPTY_WORDS: [&str; 4] = ["Manager", "Handler", "Context", "Info"];
/// Words that must not be the whole name of a type.
const ALONE: [&str; 3] = ["Packet", "Frame", "Buffer"];
/// Words that must not be the name of a module.
const EMPTY_MODULES: [&str; 9] =
    ["util", "utils", "common", "misc", "helpers", "manager", "handler", "context", "info"];

/// Words of everyday speech that must not be the name of a module of a shipped crate: they say
/// nothing of what is inside.
const EVERYDAY: [&str; 16] = [
    "course", "due", "house", "later", "letters", "looks", "news", "own", "parts", "place", "places",
    "point", "points", "say", "weather", "words",
];
/// Folders of the shipped crates.
const SHIPPED: [&str; 9] = [
    "src/",
    "crates/evb-config/src/",
    "crates/evb-core/src/",
    "crates/evb-crc/src/",
    "crates/evb-daemon/src/",
    "crates/evb-file/src/",
    "crates/evb-host/src/",
    "crates/evb-net/src/",
    "crates/evb-shaper/src/",
];
/// Largest number of types of the shipped crates with one name: a machine's type and its message,
/// or a section of the configuration and what it configures.
const NAMESAKES: usize = 2;
/// Names that each role has a type of.
const OF_EACH_ROLE: [&str; 2] = ["Driver", "Output"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust() {
        let mut names = Names { path: &file.path, found: &mut found };
        for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
            names.visit_item(item);
        }
    }
    found.extend(shared(repo));
    found
}

/// Returns the names that too many types of the shipped crates share.
fn shared(repo: &Repo) -> impl Iterator<Item = Violation> {
    let mut homes: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    let shipped = |path: &str| SHIPPED.iter().any(|folder| path.starts_with(folder));
    for (file, ast) in repo.rust().filter(|(file, _)| file.is_source() && shipped(&file.path)) {
        for item in ast.items.iter().filter(|item| !is_test_only(attributes(item))) {
            let ident = match item {
                Item::Struct(i) => &i.ident,
                Item::Enum(i) => &i.ident,
                Item::Trait(i) => &i.ident,
                _ => continue,
            };
            homes.entry(ident.to_string()).or_default().push((&file.path, ident.span().start().line));
        }
    }
    homes.retain(|name, homes| homes.len() > NAMESAKES && !OF_EACH_ROLE.contains(&name.as_str()));
    homes.into_iter().map(|(name, homes)| {
        let places: Vec<&str> = homes.iter().map(|(path, _)| *path).collect();
        let message = format!(
            "{} types are called `{name}` ({}): give each a noun of its own",
            homes.len(),
            places.join(", ")
        );
        Violation::new(homes[0].0, homes[0].1, message)
    })
}

struct Names<'a> {
    path: &'a str,
    found: &'a mut Vec<Violation>,
}

impl Names<'_> {
    fn refuse(&mut self, name: &Ident, reason: &str) {
        self.found.push(Violation::new(
            self.path,
            name.span().start().line,
            format!("the name `{name}`: {reason}"),
        ));
    }

    fn judge_type(&mut self, name: &Ident) {
        let text = name.to_string();
        if let Some(word) = words(&text).into_iter().find(|word| EMPTY_WORDS.contains(&word.as_str())) {
            self.refuse(name, &format!("`{word}` says nothing; say what it does"));
        } else if ALONE.contains(&text.as_str()) {
            self.refuse(name, "of what? say it");
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(i) => self.judge_type(&i.ident),
            Item::Enum(i) => self.judge_type(&i.ident),
            Item::Trait(i) => self.judge_type(&i.ident),
            Item::Type(i) => self.judge_type(&i.ident),
            Item::Union(i) => self.judge_type(&i.ident),
            Item::Mod(i)
                if EVERYDAY.contains(&i.ident.to_string().as_str())
                    && SHIPPED.iter().any(|folder| self.path.starts_with(folder)) =>
            {
                self.refuse(&i.ident, "a module's name says what is inside");
            }
            Item::Mod(i) if EMPTY_MODULES.contains(&i.ident.to_string().as_str()) => {
                self.refuse(&i.ident, "a module is called after its noun");
            }
            Item::Impl(i) => {
                // A type `…Builder` must be a builder of events; a function `build` shows that it
                // follows the builder pattern instead.
                let builds =
                    i.items.iter().any(|item| matches!(item, ImplItem::Fn(f) if f.sig.ident == "build"));
                if let Type::Path(path) = &*i.self_ty
                    && let Some(last) = path.path.segments.last()
                    && builds
                    && last.ident.to_string().ends_with("Builder")
                {
                    self.refuse(&last.ident, "`…Builder` is the builder of events, never the pattern");
                }
            }
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }
}

/// Returns the words of a name in camel case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    words
}

#[cfg(test)]
mod tests;
