//! Sockets, the clock and timers of the evb event builder: **how** bytes move. This is the only
//! crate with `unsafe` code.

mod ancillary;
mod progress;
mod sys_time;
mod sys_tcp;
mod sys_read;
mod sys_cpu;
mod sys_ethtool;
mod sys_path;
#[cfg(target_os = "linux")]
mod sys_option;
mod sys_txtime;
mod sys_user;
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
