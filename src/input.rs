//! Where fragments come from, other than a program's own readout: made up, replayed, or sent by front-end processes.

mod pattern;
mod generator;
mod check;
pub mod km3net;
mod replay;

pub use check::{CheckContent, ContentCheck, WrongContent};
pub use generator::{FragmentSize, Generator};
pub use replay::{Replay, ReplayError};
