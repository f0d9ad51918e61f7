//! Simulation of whole systems in simulated time: supervisor, sources, builders, sinks and
//! journals, on a network and disks with faults.
//!
//! [`crate::Scenario`] measures the performance of a network; this module checks that no event is
//! lost, duplicated or damaged without a reason when components fail. The state machines and the
//! wire format are those of production, unchanged. Processes are killed and restarted, hosts are
//! cut off, connections reset, disks hang. A seed determines all random choices: equal seeds give
//! equal traces.
//!
//! ```
//! use evb_sim::system::{Scenario, run};
//!
//! let outcome = run(&Scenario::of_seed(1, None), false);
//! assert_eq!(outcome.failure, None);
//! assert_eq!(outcome.hash, run(&Scenario::of_seed(1, None), false).hash);
//! ```

mod trace;
mod conditions;
mod network;
mod disk;
mod failure;
mod fault;
mod counts;
mod greeting;
mod scenario;
mod host;
mod check;
mod world;
mod shrink;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use crate::boards::{Board, Boards, Slip};
pub use conditions::Conditions;
pub use counts::Counts;
pub use disk::DiskState;
pub use failure::{Check, Failure};
pub use fault::{Fault, Planned};
pub use scenario::{End, Pushes, Scenario};
pub use shrink::shrink;

use trace::Trace;
use world::World;

/// The outcome of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Hash of all steps of the simulation.
    pub hash: u64,
    /// Total counts of events, faults and other actions.
    pub counts: Counts,
    /// The first check that failed.
    pub failure: Option<Failure>,
    /// Readable log of the simulation; empty unless it was requested.
    pub lines: Vec<String>,
}

/// Runs a scenario to its end, or to the first check that fails; `is_read` requests a log. A panic
/// counts as a failed check. To keep the panic message from being printed, a caller can set a panic
/// hook.
pub fn run(scenario: &Scenario, is_read: bool) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(scenario, Trace::new(is_read)).turn()));
    match outcome {
        Ok((counts, trace, failure)) => {
            Outcome { hash: trace.hash(), counts, failure, lines: trace.into_lines() }
        }
        Err(panic) => Outcome { failure: Some(Failure::of_panic(&*panic)), ..Outcome::default() },
    }
}
