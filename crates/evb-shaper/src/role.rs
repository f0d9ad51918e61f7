//! The roles as wholes: each is one machine that holds all behaviour of a source or builder in a
//! run, from the first roster to the last message. Before that,
//! [`Joining`](evb_core::session::Joining) registers it.
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
//! The driver of one moves bytes, time and the sink's results, and decides nothing.

mod paces;
mod source;
mod plan;
mod builder;

pub use builder::{Admitted, BuilderOutput, BuilderRole, Greeting};
pub use paces::Paces;
pub use plan::{BuilderPlan, BuilderRoleConfig};
pub use source::{LanePath, SourceOutput, SourceRole, SourceRoleConfig};

#[cfg(test)]
mod tests;
