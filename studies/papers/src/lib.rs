//! The scenarios of the lab that reproduce what papers measured, each on a network like the
//! paper's. `docs/studies` compares the results; `cargo xtask lab` runs the scenarios.
#![allow(missing_docs)] // The lab alone uses them; names and types say the rest.

pub mod provisioned;
pub mod twin;
pub mod office;
pub mod hotspot;
pub mod atlas;
pub mod babar;
pub mod traffic;
pub mod rcnp;
pub mod qos;
pub mod mixed;
pub mod pipe;
pub mod stream;
