//! The roles of source and builder. Each role is one state machine with all behaviour of a source
//! or builder in a run, from the first roster to the last message. Before the first roster,
//! [`Joining`](evb_core::session::Joining) registers the process with the supervisor.
//!
//! ```text
//!   supervisor: Heard ──────────────►┌────────────┐─► Dial, Close     connections to make or drop
//!   lanes: up, down, records ───────►│ SourceRole │─► Send, Report    to the supervisor
//!   readout: push; time ────────────►└────────────┘─► Announce        records for a builder's lane
//!                                      take_wanted, poll_departure, gather: calls of the driver
//!
//!   supervisor: Heard ──────────────►┌─────────────┐─► Dial, Close, Send, Report
//!   lanes: hello, up, down, records ►│ BuilderRole │─► Lane               records for its source
//!   sink: written, rejected, failed ►└─────────────┘─► Event, ExpectEnd  to the sink
//! ```
//!
//! The driver of a role passes on bytes, the time and the sink's results, and makes no decisions of
//! its own.

mod paces;
mod run_stage;
mod source;
mod plan;
mod builder;

use evb_core::quantities::split_remedy;

pub use builder::{Admitted, BuilderOutput, BuilderRole, Greeting};
pub use paces::Paces;
pub use plan::{BuilderPlan, BuilderRoleConfig};
pub use run_stage::RunStage;
pub use source::{LanePath, SourceOutput, SourceRole, SourceRoleConfig};

#[cfg(test)]
mod tests;

/// Returns the cause for which the lane to a peer is down, and advice if the cause has no remedy.
fn with_advice(cause: &dyn core::fmt::Display, named: &str) -> (String, String) {
    let cause = cause.to_string();
    let advice = match split_remedy(&cause).1 {
        Some(_) => String::new(),
        None => {
            format!("; if this lasts, check that {named} runs, and the network and firewalls on the way")
        }
    };
    (cause, advice)
}
