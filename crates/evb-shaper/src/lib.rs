//! Traffic shaping, which decides **when** bytes may be sent: grant policies at the builder,
//! departure times at the source. The code of this crate is pure: it uses no sockets and reads no
//! clock.
//!
//! The bottleneck of event building is the switch port in front of a builder: when N sources answer
//! at once, their packets meet in one shallow buffer. A builder knows beforehand which data will
//! come, so it can request them in pieces:
//!
//! | `shaping.mode` | a source may send | safe while |
//! |---|---|---|
//! | [`Credit`] | bytes that the builder requests within its budget | budget ≤ port buffer |
//! | [`Window`] | `window` bytes beyond those received | sources × gross window ≤ port buffer |
//! | [`Open`], [`PacedSource`] | all ready bytes, paced by lane and link | Σ rates ≤ port rate |
//! | [`Open`] | all ready bytes, without pacing: the baseline | never |
//!
//! Credit follows the receiver-driven transports (Homa: Montazeri et al., SIGCOMM 2018; SIRD:
//! Prasopoulos et al., NSDI 2025) and the sequential request of the RCNP/Saclay event builder
//! (Nomachi et al.); `Window` follows BaBar's use of the TCP window as a throttle; the token bucket
//! Yasu et al.'s TBF within CBQ. [`BudgetTree`] divides the buffers that builders share. A
//! [`Topology`](topology::Topology) is the tree of switches between sources and builders.
//!
//! This crate computes departure times and never waits for them. A [`PacedSource`] asks a
//! [`SharedLink`], which asks [`EdtBucket`]s:
//!
//! ```text
//!  link ────────── EdtBucket: what the link carries                 LinkPlan
//!   ├─ lanes ───── EdtBucket: the ceiling of all lanes together      LinkPlan
//!   │   ├─ lane ── EdtBucket: the pace of one destination            Pace
//!   │   └─ lane
//!   └─ control ─── charged, never held back
//! ```
//!
//! | method | origin |
//! |---|---|
//! | departure times instead of tokens | Carousel (Saeed et al., 2017); Linux's `fq` since 4.20 |
//! | lanes that share a link | start-time fair queueing (Goyal, Vin & Cheng, SIGCOMM 1996) |
//! | packets that leave together where timers are coarse | Hiraki et al.: [`Clusters`] |
//! | the buffer for a host that is faster than its path | Hiraki et al.: [`sums::busy_time`] |
//! | division of a shared buffer | max-min fairness by progressive filling (Bertsekas & Gallager) |
//! | bytes that meet in a port | network calculus (Cruz, 1991): [`sums`] |
//!
//! Rates are kept exactly (by construction to 10⁻¹⁰; tests check 10⁻⁶ over any mix of packets), and
//! a queue that was idle never begins with a burst: bursts only make up for lateness.
//! `docs/explanation/pacing.md` in the repository compares this with GCRA, which limits messages.

pub mod cost;
pub mod sums;
pub mod topology;
mod budget;
mod charges;
mod queue;
mod credit;
mod window;
mod open;
mod bucket;
mod lateness;
mod pace;
mod clusters;
mod link_plan;
mod pacing;
mod train;
mod shared_link;
mod paced;
mod policy;
mod out_of_order;
pub mod role;

pub use bucket::EdtBucket;
pub use budget::{BudgetGroup, BudgetTree, BufferIndex, BuilderBudget, budgets, part_of_each};
pub use clusters::Clusters;
pub use cost::ByteMeasure;
pub use credit::{Credit, CreditConfig};
pub use lateness::Lateness;
pub use link_plan::LinkPlan;
pub use open::Open;
pub use out_of_order::out_of_order_memory;
pub use pace::Pace;
pub use paced::{Departure, PacedSource, PacingCounters};
pub use pacing::Pacing;
pub use policy::{Policy, Shaping};
pub use shared_link::{Permit, SharedLink};
pub use train::longest_train;
pub use window::Window;

/// The state machine of a builder whose grants are shaped. Both production and the simulator use
/// this type.
pub type ShapedBuilder = evb_core::builder::BuilderCore<Policy>;
