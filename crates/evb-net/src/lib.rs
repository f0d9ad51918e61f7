//! Sockets, the clock and timers of the evb event builder: **how** bytes move. The only crate with `unsafe` code.

mod sys_time;
mod sys_tcp;
mod sys_cpu;
mod sys_ethtool;
mod sys_path;
mod sys_txtime;
pub mod clock;
pub mod timer;
pub mod host;
pub mod class;
pub mod resolve;
pub mod handshake;
pub mod control;
pub mod multicast;
pub mod lane;
pub mod pacing;
