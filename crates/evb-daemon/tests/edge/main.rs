//! Sloppy and hostile front ends at the real `evbd`, over TCP and Unix sockets. Every payload
//! carries its own run and event.
#![allow(clippy::unwrap_used)] // an error here is a failed test

#[path = "../owed/mod.rs"]
mod owed;
#[path = "../signals/mod.rs"]
mod signals;
mod board;
mod boards;
mod hooks;
mod boundary;
mod cabling;
mod captures;
mod counters;
mod examples;
mod first_readouts;
mod front_end;
mod hosts;
mod library;
mod rates;
mod readouts;
mod run_hooks;
mod run_records;
mod record_checks;
mod run_endings;
mod run_stated;
mod schedules;
mod detector;
mod misaligned;
mod owing;
mod packets;

mod system;
mod unused;
