//! Sockets, the clock and timers of the evb event builder: **how** bytes move. This is the only
//! crate with `unsafe` code.
//!
//! Two features are on by default: `security` has the keys by which peers authenticate each other,
//! `udp` has lanes over datagrams.

// Without keys there are no protected connections, and without datagrams no lanes over them, so the
// code that handles them is unreachable.
#![cfg_attr(
    not(all(feature = "security", feature = "udp")),
    allow(dead_code, unreachable_code, unused_variables, unused_mut, unused_imports)
)]

mod ancillary;
mod progress;
mod sys_time;
mod sys_tcp;
mod sys_read;
mod sys_cpu;
mod sys_signals;
mod sys_fork;
mod sys_ethtool;
mod sys_path;
#[cfg(target_os = "linux")]
mod sys_option;
mod sys_txtime;
pub mod clock;
mod stamps;
pub mod timer;
pub mod host;
pub mod class;
mod congestion;
pub mod resolve;
pub mod security;
pub mod handshake;
pub mod multicast;
pub mod pacing;
mod sys_udp;
pub mod udp;
pub mod lane;
pub mod control;
