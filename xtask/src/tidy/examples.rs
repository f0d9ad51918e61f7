//! Checks that every entry point that a program can name through the crate evb has an example in
//! its documentation: traits, and types with a constructor, at the type or at the constructor.
//! Rustdoc compiles these examples, and runs them unless they need other processes.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens as _;
use syn::{
    Attribute, Expr, ExprLit, Ident, ImplItem, ImplItemFn, Item, ItemImpl, Lit, Meta, ReturnType, Type,
    Visibility, parse::ParseStream, parse::Parser as _,
};

use super::{
    crates::crates,
    modules::{Module, ModuleTree},
    syntax::{Named, attributes, flatten, is_test_only},
    violation::Violation,
};
use crate::repo::Repo;

/// The crate whose entry points must have examples. It re-exports items of other crates.
const FACADE: &str = "evb";

/// Attributes of a code block that rustdoc compiles. A block without attributes is Rust, too.
const COMPILED: [&str; 4] = ["rust", "no_run", "compile_fail", "should_panic"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let trees: BTreeMap<_, _> =
        crates(repo).iter().map(|krate| (krate.ident(), ModuleTree::of(repo, krate))).collect();
    let constructors = trees.iter().map(|(krate, tree)| (krate.as_str(), constructors(tree))).collect();
    let mut walk = Walk { trees: &trees, constructors, seen: BTreeSet::new(), found: BTreeSet::new() };
    walk.visit(FACADE, &[], None);
    walk.found.into_iter().collect()
}

/// A walk over the public items of [`FACADE`], through its re-exports.
struct Walk<'a> {
    trees: &'a BTreeMap<String, ModuleTree<'a>>,
    /// The types of each crate that have a public constructor, and whether one has an example.
    constructors: BTreeMap<&'a str, BTreeMap<String, bool>>,
    /// Crate and path of every module that was visited, and of every single item.
    seen: BTreeSet<(String, Vec<String>)>,
    found: BTreeSet<Violation>,
}

impl<'a> Walk<'a> {
    /// Visits the public items of a module, or only the item with the given name.
    fn visit(&mut self, krate: &str, path: &[String], only: Option<&str>) {
        let key = path.iter().map(String::as_str).chain(only).map(str::to_owned).collect();
        let is_new = self.seen.insert((krate.to_owned(), key));
        let Some(module) = self.get(krate, path).filter(|_| is_new) else { return };
        for item in module.items.iter().filter(|item| !is_left_out(attributes(item))) {
            match item {
                Item::Mod(child) if only.is_none() && is_public(&child.vis) => {
                    self.visit(krate, &[path, &[child.ident.to_string()]].concat(), None);
                }
                Item::Use(item) if is_public(&item.vis) => {
                    let mut names = Vec::new();
                    flatten(&item.tree, &[], &mut names);
                    names.retain(|named| only.is_none() || named.segments.last().map(String::as_str) == only);
                    names.iter().for_each(|named| self.follow(krate, path, named));
                }
                _ => {}
            }
            if let Some((ident, docs)) = declared(item)
                && only.is_none_or(|only| ident == only)
                && !has_example(&docs)
                && !self.needs_none(krate, item, &ident)
            {
                let message = format!("the entry point `{ident}` has no example: add one to its doc comment");
                self.found.insert(Violation::new(&module.file.path, ident.span().start().line, message));
            }
        }
    }

    /// Returns true for a type that no constructor makes, or one with an example of its own.
    fn needs_none(&self, krate: &str, item: &Item, ident: &Ident) -> bool {
        match item {
            Item::Trait(_) | Item::Macro(_) => false,
            _ => {
                let of_crate = self.constructors.get(krate);
                of_crate.and_then(|all| all.get(&ident.to_string())).is_none_or(|has_example| *has_example)
            }
        }
    }

    /// Visits the item, or all items of the module, to which a `use` in the module `at` leads.
    fn follow(&mut self, krate: &str, at: &[String], named: &Named) {
        let (Some(first), Some(name)) = (named.segments.first(), named.segments.last()) else { return };
        let (krate, path) = match self.trees.get(first) {
            Some(tree) => (first.as_str(), tree.descend(Vec::new(), &named.segments[1..], 0)),
            None => (krate, self.trees.get(krate).and_then(|tree| tree.target(at, named))),
        };
        let Some(path) = path else { return };
        let is_module = path.last().map_or(named.segments.len() == 1, |last| last == name);
        let is_whole = named.glob || is_module && self.is_public_module(krate, &path);
        self.visit(krate, &path, Some(name.as_str()).filter(|_| !is_whole));
    }

    fn get(&self, krate: &str, path: &[String]) -> Option<&'a Module<'a>> {
        self.trees.get(krate)?.modules.iter().find(|module| module.path == path)
    }

    fn is_public_module(&self, krate: &str, path: &[String]) -> bool {
        let Some((name, parent)) = path.split_last() else { return true };
        let is_it = |item: &Item| matches!(item, Item::Mod(m) if m.ident == name && is_public(&m.vis));
        self.get(krate, parent).is_some_and(|parent| parent.items.iter().any(is_it))
    }
}

/// Returns the types with a public constructor: a function without `self` that returns the type.
/// The value is true if one of its constructors has an example.
fn constructors(tree: &ModuleTree<'_>) -> BTreeMap<String, bool> {
    let mut all = BTreeMap::new();
    for item in tree.modules.iter().flat_map(|module| module.items.iter()) {
        let Item::Impl(block @ ItemImpl { trait_: None, .. }) = item else { continue };
        let Type::Path(path) = &*block.self_ty else { continue };
        let Some(name) = path.path.segments.last().map(|segment| segment.ident.to_string()) else { continue };
        for function in block.items.iter().filter_map(|item| constructor(item, &name)) {
            *all.entry(name.clone()).or_default() |= has_example(&function.attrs);
        }
    }
    all
}

/// Returns the item if it is a public function that makes a value of the type without having one.
fn constructor<'a>(item: &'a ImplItem, name: &str) -> Option<&'a ImplItemFn> {
    let ImplItem::Fn(function) = item else { return None };
    let ReturnType::Type(_, returned) = &function.sig.output else { return None };
    let returned = returned.to_token_stream().to_string();
    let makes_it = returned.split(' ').any(|word| word == "Self" || word == name);
    (makes_it && function.sig.receiver().is_none() && is_public(&function.vis)).then_some(function)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns true for items of tests, and for those that only fuzz targets see.
fn is_left_out(attributes: &[Attribute]) -> bool {
    is_test_only(attributes) || attributes.iter().any(|attribute| {
        matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "feature = \"fuzzing\"")
    })
}

/// Returns the name and the attributes of the public type that an item declares, directly or as the
/// first argument of a macro, such as `id! { /// … EventId(u64) }`.
fn declared(item: &Item) -> Option<(Ident, Vec<Attribute>)> {
    let first = |input: ParseStream<'_>| {
        let docs = input.call(Attribute::parse_outer)?;
        let ident = input.parse::<Ident>()?;
        input.parse::<proc_macro2::TokenStream>().map(|_| (ident, docs))
    };
    let is_type = |ident: &Ident| ident.to_string().starts_with(char::is_uppercase);
    let (visibility, ident) = match item {
        Item::Struct(i) => (&i.vis, &i.ident),
        Item::Enum(i) => (&i.vis, &i.ident),
        Item::Trait(i) => (&i.vis, &i.ident),
        Item::Type(i) => (&i.vis, &i.ident),
        Item::Macro(i) => {
            return first.parse2(i.mac.tokens.clone()).ok().filter(|(ident, _)| is_type(ident));
        }
        _ => return None,
    };
    is_public(visibility).then(|| (ident.clone(), attributes(item).to_vec()))
}

/// Returns true if a doc comment has a code block that rustdoc compiles.
fn has_example(attributes: &[Attribute]) -> bool {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let docs: Vec<String> = lines
        .filter_map(|line| match &line.meta.require_name_value().ok()?.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        })
        .collect();
    let fences = docs.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("```"));
    let mut openings = fences.step_by(2).map(|words| words.split(',').map(str::trim));
    openings.any(|mut words| words.all(|word| word.is_empty() || COMPILED.contains(&word)))
}

#[cfg(test)]
mod tests;
