//! The pure machines and the vocabulary of the evb event builder: **what** happens, with no socket, clock or chance.

pub mod id;
pub mod time;
pub mod units;
pub mod rng;
pub mod fragment;
pub mod event;
pub mod wire;
