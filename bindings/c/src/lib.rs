//! The C interface of evb. `include/evb.h` is generated from this crate; `include/evb.hpp` wraps it
//! for C++.
//!
//! Every exported function goes through [`border`], which lets no panic and no forked child pass.
//! The types of the interface have their C names, so that one search finds all uses.

#![allow(non_camel_case_types)]

mod error;
mod border;
mod handle;
mod text;
mod structs;
mod wait;
mod failure;
mod payload;
mod event;
mod outcome;
mod options;
mod readout;
mod sink;
mod source;
mod builder;
mod local;
mod version;
