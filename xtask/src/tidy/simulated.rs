//! Checks that the simulator, which models the environment of evb, defines no constants of the
//! protocol. Times, sizes and counts in a role's behaviour must come from evb-core. If the
//! simulator had a copy of a constant, tests would check the copy while production uses the
//! original.

use syn::{Item, Type, visit::Visit};

use super::{
    syntax::{attributes, is_test_only},
    violation::Violation,
};
use crate::repo::Repo;

const SIMULATOR: &str = "crates/evb-sim/src/";

/// Modules that may define constants, with their submodules: they model kernels, links, disks,
/// readout, operators and faults, which are not part of evb, or limit the simulation.
const WORLD: [&str; 16] = [
    "boards",
    "hosts",
    "link",
    "network",
    "pipe",
    "run",
    "switch",
    "transport",
    "workload",
    "system/disk",
    "system/network",
    "system/scenario",
    "system/shrink",
    "system/trace",
    "system/conditions",
    "system/world",
];

/// Types that represent a quantity, such as a time or a size.
const QUANTITIES: [&str; 9] =
    ["Duration", "Instant", "Bytes", "Rate", "Frequency", "usize", "u16", "u32", "u64"];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, ast) in repo.rust().filter(|(file, _)| !file.is_test() && is_no_world(&file.path)) {
        let mut quantities = Quantities { found: Vec::new() };
        ast.items
            .iter()
            .filter(|item| !is_test_only(attributes(item)))
            .for_each(|i| quantities.visit_item(i));
        found.extend(quantities.found.into_iter().map(|(name, line)| {
            let message = format!(
                "`{name}`: what a role goes by is in evb-core; what the world is, in a module of `WORLD`"
            );
            Violation::new(&file.path, line, message)
        }));
    }
    found
}

fn is_no_world(path: &str) -> bool {
    let module = path.strip_prefix(SIMULATOR).and_then(|path| path.strip_suffix(".rs"));
    let within = |module: &str, world: &str| module == world || module.starts_with(&format!("{world}/"));
    module.is_some_and(|module| !WORLD.iter().any(|world| within(module, world)))
}

/// Names of constants whose type is a quantity, with their line numbers.
struct Quantities {
    found: Vec<(String, usize)>,
}

impl Quantities {
    fn look(&mut self, name: &syn::Ident, kind: &Type) {
        let Type::Path(path) = kind else { return };
        if path
            .path
            .segments
            .last()
            .is_some_and(|last| QUANTITIES.iter().any(|quantity| last.ident == quantity))
        {
            self.found.push((name.to_string(), name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Quantities {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Const(constant) = item {
            self.look(&constant.ident, &constant.ty);
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item_const(&mut self, constant: &'ast syn::ImplItemConst) {
        self.look(&constant.ident, &constant.ty);
    }
}

#[cfg(test)]
mod tests;
