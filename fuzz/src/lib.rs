//! The checks of the fuzz targets. A target in `fuzz_targets/` is a few lines: it plants its seeds
//! and hands its input to one function here, which panics if a promise is broken.
//!
//! A new decoder gets a module with `check` and `seeds`, a file in `fuzz_targets/`, and a `[[bin]]`
//! in `Cargo.toml`:
//!
//! * For **bytes**: `check(&[u8])`. What is decoded is encoded again and must be the same bytes, or
//!   mean the same ([`records`], [`control`]). `seeds` returns valid examples, which the fuzzer
//!   cannot guess.
//! * For **events**: `run(Vec<Step>)` with an `Arbitrary` step ([`lane_builder`], [`lane_source`],
//!   [`lane_datagrams`]). A model beside the machine knows what an honest peer would send next, so
//!   that steps get far, and checks what must hold.

pub mod script;
pub mod seeds;
pub mod records;
pub mod control;
pub mod handshake;
pub mod secured;
pub mod lane_builder;
pub mod lane_source;
pub mod lane_stream;
pub mod datagrams;
pub mod lane_datagrams;
pub mod supervisor;
pub mod journal;
pub mod event_file;
pub mod km3net;
pub mod front_end;
pub mod triggers;
pub mod units;
pub mod config;
pub mod probes;
