//! Every state machine must have a function `invariants` that checks its state, which tests, the
//! simulator and fuzz targets call.

use syn::{ImplItem, Item, Type};

use super::violation::Violation;
use crate::repo::Repo;

/// State machines, and parts of them with invariants of their own, each with its file.
const MACHINES: [(&str, &str); 19] = [
    ("SupervisorCore", "crates/evb-core/src/supervisor.rs"),
    ("SupervisorRole", "crates/evb-core/src/supervisor/role.rs"),
    ("Keeper", "crates/evb-core/src/supervisor/role/keeper.rs"),
    ("Leader", "crates/evb-core/src/run_control/leader.rs"),
    ("Assigner", "crates/evb-core/src/supervisor/assigner.rs"),
    ("Books", "crates/evb-core/src/supervisor/books.rs"),
    ("Roster", "crates/evb-core/src/supervisor/roster.rs"),
    ("Slots", "crates/evb-core/src/supervisor/slots.rs"),
    ("Outstanding", "crates/evb-core/src/supervisor/outstanding.rs"),
    ("SourceCore", "crates/evb-core/src/source.rs"),
    ("SourceLane", "crates/evb-core/src/source/lane.rs"),
    ("BuilderCore", "crates/evb-core/src/builder.rs"),
    ("Assembly", "crates/evb-core/src/builder/assembly.rs"),
    ("OutgoingLane", "crates/evb-core/src/lane/outgoing.rs"),
    ("IncomingLane", "crates/evb-core/src/lane/incoming.rs"),
    ("LossRecovery", "crates/evb-core/src/lane/recovery.rs"),
    ("EventCounts", "crates/evb-core/src/ledger.rs"),
    ("SourceRole", "crates/evb-shaper/src/role/source.rs"),
    ("BuilderRole", "crates/evb-shaper/src/role/builder.rs"),
];

pub(crate) fn check(repo: &Repo) -> Vec<Violation> {
    let lacks = |(machine, path): &(&str, &str)| {
        let states = repo.get(path).and_then(|file| file.ast.as_ref()).is_some_and(|ast| has(ast, machine));
        (!states).then(|| Violation::new(path, 0, format!("`{machine}` has no `fn invariants(&self)`")))
    };
    MACHINES.iter().filter_map(lacks).collect()
}

/// Returns true if a file defines the function `invariants` of the type `machine`.
fn has(ast: &syn::File, machine: &str) -> bool {
    ast.items.iter().any(|item| {
        let Item::Impl(block) = item else { return false };
        let Type::Path(path) = &*block.self_ty else { return false };
        let is_machine = path.path.segments.last().is_some_and(|last| last.ident == machine);
        let is_invariants =
            |item: &ImplItem| matches!(item, ImplItem::Fn(item) if item.sig.ident == "invariants");
        is_machine && block.trait_.is_none() && block.items.iter().any(is_invariants)
    })
}

#[cfg(test)]
mod tests;
