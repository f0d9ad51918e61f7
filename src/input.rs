//! Where fragments come from, other than a program's own readout: made up, replayed, or sent by front-end processes.

mod pattern;
mod generator;
mod check;

pub use check::{CheckContent, ContentCheck, WrongContent};
pub use generator::{FragmentSize, Generator};
