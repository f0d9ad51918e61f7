//! The pure machines and the vocabulary of the evb event builder: **what** happens, with no socket, clock or chance.
//!
//! In reading order, a module knows only those above it:
//!
//! | module | has |
//! |---|---|
//! | [`id`], [`time`], [`units`], [`set`] | who, when, how much, which sources or lanes: types instead of bare numbers |
//! | [`rng`] | chance as a value, from a seed |
//! | [`fragment`], [`event`] | what goes in and what comes out |
//! | [`wire`] | both as bytes, with every check |
//! | [`grant`], [`lane`] | the byte stream from one source to one builder, its counters, and what a shaper is |
//! | [`session`] | a role's place in the run, the connections of its lanes, and who may open one |
//! | [`source`], [`builder`] | the machines of the two ends |
//! | [`trigger`], [`ledger`], [`supervisor`] | when events happen, what became of them, and who decides |
//! | [`run_control`] | the states of a system, and what may be asked of it in which |
//!
//! Every machine has the same shape: `new`, inputs `push` / `handle_*` that take `now`, `handle_timeout(now)`,
//! `next_timeout()`, and one door out, `poll(now)`, called until it answers `None`.

pub mod undo;
pub mod id;
pub mod time;
pub mod units;
pub mod times;
pub mod index;
pub mod set;
pub mod ranges;
pub mod rng;
pub mod fragment;
pub mod event;
pub mod wire;
pub mod live;
pub mod grant;
pub mod lane;
pub mod session;
pub mod source;
pub mod builder;
pub mod trigger;
pub mod ledger;
pub mod supervisor;
pub mod run_control;
