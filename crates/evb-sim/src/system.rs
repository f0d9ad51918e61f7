//! Whole systems: supervisor, sources, builders, sinks and journals, on a network and on disks that fail, in virtual time.
//!
//! Where [`crate::Scenario`] asks how much a network carries, this asks what becomes of each event whatever dies. The machines are
//! those of production, unchanged, and so are the bytes between them; processes are killed and started anew, hosts are cut off,
//! connections reset, disks hang. Everything is drawn from a seed: equal seeds give equal traces.
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

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of everything that happened.
    pub hash: u64,
    /// What happened, summed up.
    pub counts: Counts,
    /// The first check that failed.
    pub failure: Option<Failure>,
    /// What happened, for people; only where it is wanted.
    pub lines: Vec<String>,
}

/// Runs a scenario to its end, or to the first check that fails. A panic is one; whoever does not want it printed sets a hook.
pub fn run(scenario: &Scenario, is_read: bool) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(scenario, Trace::new(is_read)).turn()));
    match outcome {
        Ok((counts, trace, failure)) => {
            Outcome { hash: trace.hash(), counts, failure, lines: trace.into_lines() }
        }
        Err(panic) => Outcome { failure: Some(Failure::of_panic(&*panic)), ..Outcome::default() },
    }
}
