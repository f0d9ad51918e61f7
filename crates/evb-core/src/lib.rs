//! The state machines and basic types of the evb event builder. The machines have no sockets and no
//! clocks, and get random numbers only from a seed.
//!
//! The table lists the modules in reading order. A module uses only modules above it:
//!
//! | module | has |
//! |---|---|
//! | [`rng`] | random numbers from a seed |
//! | [`id`], [`time`], [`units`], [`set`] | ids, times, quantities and sets, as types |
//! | [`fragment`], [`event`] | the input and the output |
//! | [`framing`] | the frames in which boards send fragments |
//! | [`flow`] | the packets of a capture that a source uses |
//! | [`wire`] | messages and records as bytes, with every check |
//! | [`alignment`] | whether the fragments of an event belong together |
//! | [`grant`], [`lane`] | the byte stream from a source to a builder, its counters and policies |
//! | [`session`] | a role's place in the run, the connections of its lanes, and who may open it |
//! | [`source`], [`builder`] | the machines of the two ends |
//! | [`trigger`], [`ledger`], [`supervisor`] | triggers, decisions, and the outcome of events |
//! | [`run_control`] | the states of a system, and the commands that each state allows |
//!
//! Every machine has the same interface: `new`, inputs `push` / `handle_*` that take `now`,
//! `handle_timeout(now)`, `next_timeout()`, and one output `poll(now)`, which is called until it
//! returns `None`.

pub mod rng;
pub mod id;
pub mod time;
pub mod units;
pub mod quantities;
pub mod transport;
pub mod offload;
pub mod times;
pub mod index;
pub mod set;
pub mod ranges;
pub mod fragment;
pub mod framing;
pub mod flow;
pub mod event;
mod counter_table;
pub mod wire;
pub mod live;
pub mod alignment;
pub mod grant;
pub mod lane;
pub mod session;
pub mod source;
pub mod builder;
pub mod trigger;
pub mod ledger;
pub mod supervisor;
pub mod run_control;
