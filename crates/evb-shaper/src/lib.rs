//! **When** bytes may go: grant policies at the builder, departure times at the source. Pure: no
//! socket, no clock.
//!
//! The bottleneck of event building is the switch port in front of a builder: N sources answer at
//! once into one shallow buffer. A builder knows beforehand which data will come, so it can request
//! them in pieces:
//!
//! | `shaping.mode` | a source may send | safe while |
//! |---|---|---|
//! | [`Credit`] | what the builder's byte budget lets it ask for | budget ≤ port buffer |
//! | [`Window`] | `window` beyond its bytes received | sources × gross window ≤ port buffer |
//! | [`Open`], [`PacedSource`] | all ready bytes, paced by lane and link | Σ rates ≤ port rate |
//! | [`Open`] | all that is ready: the baseline | never |
//!
//! Credit follows the receiver-driven transports (Homa: Montazeri et al., SIGCOMM 2018; SIRD:
//! Prasopoulos et al., NSDI 2025) and the sequential request of the RCNP/Saclay event builder
//! (Nomachi et al.); `Window` follows BaBar's use of the TCP window as a throttle; the token bucket
//! Yasu et al.'s TBF within CBQ. [`BudgetTree`] divides the buffers that builders share.
//!
//! Departures are computed as times, never waited for. A [`PacedSource`] asks a [`ClassTree`],
//! which asks [`EdtBucket`]s:
//!
//! ```text
//!  link ────────── EdtBucket: what the link carries            guarantees, ceilings, priorities,
//!   ├─ data ────── guarantee, ceiling                          borrowing: LinkPlan
//!   │   ├─ lane ── EdtBucket: the pace of one destination          Pace
//!   │   └─ lane
//!   ├─ control ─── charged, never held back
//!   └─ monitoring
//! ```
//!
//! | what | from |
//! |---|---|
//! | departure times instead of tokens | Carousel (Saeed et al., 2017); Linux's `fq` since 4.20 |
//! | classes that share a link | CBQ (Floyd & Jacobson, ToN 3(4), 1995), by HTB's rules (Devera) |
//! | lanes that share a class | start-time fair queueing (Goyal, Vin & Cheng, SIGCOMM 1996) |
//! | packets that leave together where timers are coarse | clustered packet spacing: [`Clusters`] |
//! | a shared buffer's division | max-min fairness by progressive filling (Bertsekas & Gallager) |
//! | what meets in a port | network calculus (Cruz, 1991): [`sums`] |
//!
//! No rate is rounded (10⁻⁶ over any mix of packets is tested, 10⁻¹⁰ by construction), and an idle
//! queue never begins with a burst: bursts only make up for lateness. `docs/explanation/pacing.md`
//! in the repository compares this with GCRA, which limits messages.

pub mod cost;
pub mod sums;
mod charges;
mod credit;
mod window;
mod open;
mod bucket;
mod lateness;
mod pace;
mod clusters;
mod link;
mod budget;
mod pacing;
mod train;
mod tree;
mod paced;
mod policy;
mod out_of_order;
pub mod role;

pub use bucket::EdtBucket;
pub use budget::{BudgetTree, BufferIndex};
pub use clusters::Clusters;
pub use cost::ByteMeasure;
pub use credit::{Credit, CreditConfig};
pub use lateness::Lateness;
pub use link::{CONTROL_CLASS, Class, LinkPlan, LinkPlanError};
pub use open::Open;
pub use pace::Pace;
pub use paced::{Departure, PacedSource, PacingCounters};
pub use pacing::Pacing;
pub use policy::{Policy, Shaping};
pub use train::longest_train;
pub use tree::{ClassTree, Permit};
pub use window::Window;

/// A builder whose grants are shaped: what production and simulator drive.
pub type ShapedBuilder = evb_core::builder::BuilderCore<Policy>;
