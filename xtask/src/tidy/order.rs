//! Checks the order of modules: a module may import only from modules declared above it, so that a
//! crate can be read from top to bottom. The three roles (source, builder, supervisor) must not
//! import each other, because they communicate by network messages only.

use std::collections::BTreeMap;

use super::{
    crates::crates,
    modules::{Module, ModuleTree},
    syntax::{Named, attributes, flatten, is_test_only, named_paths},
    violation::Violation,
};
use crate::repo::Repo;

const ROLES: [&str; 3] = ["source", "builder", "supervisor"];

/// Crates in which a top-level module with the name of a role implements this role.
const CRATES_OF_ROLES: [&str; 3] = ["evb_core", "evb_shaper", "evb"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let trees: BTreeMap<String, ModuleTree<'_>> =
        crates(repo).iter().map(|krate| (krate.ident(), ModuleTree::of(repo, krate))).collect();
    let mut found = Vec::new();
    for (krate, tree) in &trees {
        for module in &tree.modules {
            for named in paths_of(module) {
                if let Some(to) = tree.target(&module.path, &named) {
                    judge(krate, tree, module, &named, &to, &mut found);
                } else if let Some((other, to)) = elsewhere(&trees, &named)
                    && let Some((own, theirs)) = two_roles(krate, &module.path, other, &to)
                {
                    let message = format!("the role {own} imports the role {theirs} (`{}`)", named.text());
                    found.push(Violation::new(&module.file.path, named.line, message));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn judge(
    krate: &str,
    tree: &ModuleTree<'_>,
    module: &Module<'_>,
    named: &Named,
    to: &[String],
    found: &mut Vec<Violation>,
) {
    let message = if let Some((own, theirs)) = two_roles(krate, &module.path, krate, to) {
        format!("the role {own} imports the role {theirs} (`{}`)", named.text())
    } else if !tree.is_above(&module.path, to) {
        format!(
            "`{}` is declared below `{}`: move it up, or the import out",
            to.join("::"),
            module.path.join("::")
        )
    } else {
        return;
    };
    found.push(Violation::new(&module.file.path, named.line, message));
}

/// Returns the crate and the module to which a path into another evb crate leads.
fn elsewhere<'t>(
    trees: &'t BTreeMap<String, ModuleTree<'_>>,
    named: &Named,
) -> Option<(&'t str, Vec<String>)> {
    let (name, tree) = trees.get_key_value(named.segments.first()?)?;
    Some((name, tree.descend(Vec::new(), &named.segments[1..], 0)?))
}

/// Returns the roles of the importing and of the imported module, if they belong to different
/// roles.
fn two_roles<'p>(
    from_crate: &str,
    from: &'p [String],
    to_crate: &str,
    to: &'p [String],
) -> Option<(&'p str, &'p str)> {
    let role = |krate: &str, path: &'p [String]| {
        let first = path.first()?.as_str();
        (CRATES_OF_ROLES.contains(&krate) && ROLES.contains(&first)).then_some(first)
    };
    let (own, theirs) = (role(from_crate, from)?, role(to_crate, to)?);
    (own != theirs).then_some((own, theirs))
}

/// Returns the paths that a module names. The items of an inline module are left out, because they
/// belong to the inner module.
fn paths_of(module: &Module<'_>) -> Vec<Named> {
    let mut found = Vec::new();
    for item in module.items.iter().filter(|item| !is_test_only(attributes(item))) {
        match item {
            syn::Item::Mod(_) => {}
            syn::Item::Use(item) => flatten(&item.tree, &[], &mut found),
            item => found.extend(named_paths(&syn::File {
                shebang: None,
                attrs: Vec::new(),
                items: vec![item.clone()],
            })),
        }
    }
    found
}

#[cfg(test)]
mod tests;
