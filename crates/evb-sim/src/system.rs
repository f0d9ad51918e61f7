//! Whole systems: supervisor, sources, builders, sinks and journals, on a network and on disks that
//! fail, in virtual time.
//!
//! [`crate::Scenario`] measures how much a network carries; this module checks the fate of each
//! event, whatever fails. The machines are those of production, unchanged, and so are the bytes
//! between them. Processes are killed and restarted, hosts are cut off, connections reset, disks
//! hang. Everything is drawn from a seed: equal seeds give equal traces.
//!
//! ```
//! use evb_sim::system::{Scenario, run};
//!
//! let outcome = run(&Scenario::of_seed(1, None), false);
//! assert_eq!(outcome.failure, None);
//! assert_eq!(outcome.hash, run(&Scenario::of_seed(1, None), false).hash);
//! ```

mod trace;
mod weather;
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

pub use counts::Counts;
pub use disk::DiskState;
pub use failure::{Check, Failure};
pub use fault::{Fault, Planned};
pub use scenario::{End, Pushes, Scenario};
pub use shrink::shrink;
pub use weather::Weather;

use trace::Trace;
use world::World;

/// The outcome of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The hash of everything that happened.
    pub hash: u64,
    /// Totals of what happened.
    pub counts: Counts,
    /// The first check that failed.
    pub failure: Option<Failure>,
    /// A log for people; empty unless it was requested.
    pub lines: Vec<String>,
}

/// Runs a scenario to its end, or to the first check that fails. A panic counts as a failed check;
/// a caller that does not want it printed sets a hook.
pub fn run(scenario: &Scenario, is_read: bool) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(scenario, Trace::new(is_read)).turn()));
    match outcome {
        Ok((counts, trace, failure)) => {
            Outcome { hash: trace.hash(), counts, failure, lines: trace.into_lines() }
        }
        Err(panic) => Outcome { failure: Some(Failure::of_panic(&*panic)), ..Outcome::default() },
    }
}
