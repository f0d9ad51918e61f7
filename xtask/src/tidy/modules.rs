//! [`ModuleTree`]: the modules of a crate in the order of their declarations, and the resolution of
//! paths to modules.

use std::collections::BTreeMap;

use syn::Item;

use super::{
    crates::Krate,
    syntax::{Named, attributes, flatten, is_test_only},
};
use crate::repo::{Repo, RepoFile};

/// A module: its path in the crate, its items, and its child modules in the order of declaration.
pub(crate) struct Module<'a> {
    pub(crate) path: Vec<String>,
    pub(crate) file: &'a RepoFile,
    pub(crate) items: &'a [Item],
    children: Vec<String>,
    /// Names that `use` declarations import into this module, each with its full path.
    imports: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate without test modules, parents before children.
pub(crate) struct ModuleTree<'a> {
    pub(crate) modules: Vec<Module<'a>>,
}

impl<'a> ModuleTree<'a> {
    pub(crate) fn of(repo: &'a Repo, krate: &Krate<'_>) -> Self {
        let mut tree = Self { modules: Vec::new() };
        if let Some(file) = krate.root_file(repo)
            && let Some(ast) = &file.ast
        {
            tree.add(repo, file, &ast.items, Vec::new(), &format!("{}src/", krate.folder));
        }
        tree
    }

    /// Adds a module and, recursively, its children. `folder` contains the files of the child
    /// modules.
    fn add(
        &mut self,
        repo: &'a Repo,
        file: &'a RepoFile,
        items: &'a [Item],
        path: Vec<String>,
        folder: &str,
    ) {
        let declared = || {
            items.iter().filter_map(|item| match item {
                Item::Mod(module) if !is_test_only(attributes(item)) => Some(module),
                _ => None,
            })
        };
        let children = declared().map(|module| module.ident.to_string()).collect();
        self.modules.push(Module { path: path.clone(), file, items, children, imports: imports(items) });
        for module in declared() {
            let name = module.ident.to_string();
            let below = path.iter().cloned().chain([name.clone()]).collect();
            let inner = format!("{folder}{name}/");
            if let Some((_, items)) = &module.content {
                self.add(repo, file, items, below, &inner);
                continue;
            }
            let own = repo.get(&format!("{folder}{name}.rs")).or_else(|| repo.get(&format!("{inner}mod.rs")));
            if let Some(file) = own
                && let Some(ast) = &file.ast
            {
                self.add(repo, file, &ast.items, below, &inner);
            }
        }
    }

    fn get(&self, path: &[String]) -> Option<&Module<'a>> {
        self.modules.iter().find(|module| module.path == path)
    }

    /// Returns the module that contains the item to which the path `named`, written in module `at`,
    /// leads; `None` if the path leads out of the crate or to no module.
    pub(crate) fn target(&self, at: &[String], named: &Named) -> Option<Vec<String>> {
        let mut here = at.to_vec();
        let mut rest = named.segments.as_slice();
        match rest.first().map(String::as_str) {
            Some("crate") => here.clear(),
            Some("self") => {}
            Some("super") => {
                here.pop();
            }
            Some(first) if self.get(&here)?.children.iter().any(|child| child == first) => {
                return self.descend(here, rest, 0);
            }
            _ => return None,
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|s| s == "super") {
            here.pop();
            rest = &rest[1..];
        }
        self.descend(here, rest, 0)
    }

    /// Follows the path `rest` from the module `here`, through re-exports, to the module that
    /// contains the item.
    pub(crate) fn descend(&self, here: Vec<String>, rest: &[String], hops: usize) -> Option<Vec<String>> {
        let module = self.get(&here)?;
        let Some(first) = rest.first() else { return Some(here) };
        if module.children.contains(first) {
            let below = here.into_iter().chain([first.clone()]).collect();
            return self.descend(below, &rest[1..], hops);
        }
        if hops < 8
            && let Some(behind) = module.imports.get(first)
        {
            let segments = behind.iter().chain(&rest[1..]).cloned().collect();
            let named = Named { segments, line: 0, glob: false };
            // An import from another crate, or one that cannot be resolved, counts as an item of
            // this module.
            return self.target_after(&here, &named, hops + 1).or(Some(here));
        }
        Some(here)
    }

    fn target_after(&self, at: &[String], named: &Named, hops: usize) -> Option<Vec<String>> {
        match named.segments.first().map(String::as_str) {
            Some("crate") => self.descend(Vec::new(), &named.segments[1..], hops),
            Some("self") => self.descend(at.to_vec(), &named.segments[1..], hops),
            Some("super") => {
                self.descend(at[..at.len().saturating_sub(1)].to_vec(), &named.segments[1..], hops)
            }
            Some(first) if self.get(at)?.children.iter().any(|c| c == first) => {
                self.descend(at.to_vec(), &named.segments, hops)
            }
            _ => None,
        }
    }

    /// Returns true if the module `to` is declared above the module `from`, or is its parent or
    /// child; parents and children may use each other.
    pub(crate) fn is_above(&self, from: &[String], to: &[String]) -> bool {
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let (Some(own), Some(other)) = (from.get(common), to.get(common)) else { return true };
        let place = |name: &String| {
            let parent = self.get(&from[..common])?;
            parent.children.iter().position(|child| child == name)
        };
        place(other) < place(own)
    }
}

fn imports(items: &[Item]) -> BTreeMap<String, Vec<String>> {
    let mut found = Vec::new();
    for item in items {
        if let Item::Use(item) = item {
            flatten(&item.tree, &[], &mut found);
        }
    }
    let named = found.into_iter().filter(|named| !named.glob);
    named.filter_map(|named| Some((named.segments.last()?.clone(), named.segments))).collect()
}
