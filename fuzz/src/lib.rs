//! The checks of the fuzz targets. A target in `fuzz_targets/` has only a few lines: it writes its
//! seed corpus and passes its input to a function of this crate, which panics if a property is
//! violated.
//!
//! A fuzz target for a new decoder consists of a module with `check` and `seeds`, a file in
//! `fuzz_targets/`, and a `[[bin]]` in `Cargo.toml`:
//!
//! * For **bytes**: `check(&[u8])`. The function `check` encodes a decoded value again, which must
//!   give the same bytes, or mean the same ([`records`], [`control`]). `seeds` returns valid
//!   examples of inputs, which the fuzzer cannot guess.
//! * For **events**: `run(Vec<Step>)` with an `Arbitrary` step ([`lane_builder`], [`lane_source`],
//!   [`lane_datagrams`], [`alignment`], [`filter_answers`]). A model of an honest peer decides what
//!   the state machine receives next, so that inputs reach deep states, and checks the machine's
//!   outputs.

pub mod script;
pub mod seeds;
pub mod checksum;
pub mod records;
pub mod control;
pub mod handshake;
pub mod secured;
pub mod lane_builder;
pub mod lane_source;
pub mod lane_stream;
pub mod datagrams;
pub mod lane_datagrams;
pub mod alignment;
pub mod supervisor;
pub mod journal;
pub mod event_file;
pub mod km3net;
pub mod front_end;
pub mod board_datagrams;
pub mod stream_frames;
pub mod capture;
pub mod triggers;
pub mod filter_answers;
pub mod acknowledgements;
pub mod units;
pub mod config;
pub mod probes;
