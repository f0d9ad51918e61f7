//! The kernel's treatment of departure times, pacing rates and token buckets, observed by sending
//! and timing. Each test has a network namespace of its own, so it needs root; where the kernel
//! lacks a queueing discipline, the test reports that and is skipped. `cargo xtask uml --test
//! kernel -- --nocapture` runs them all in a kernel that lacks none.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // an error here is a failed test

#[path = "kernel/auto.rs"]
mod auto;
#[path = "kernel/etf.rs"]
mod etf;
#[path = "kernel/machine.rs"]
mod machine;
#[path = "kernel/path.rs"]
mod path;
#[path = "kernel/place.rs"]
mod place;
#[path = "kernel/rate.rs"]
mod rate;
#[path = "kernel/spacing.rs"]
mod spacing;
#[path = "kernel/sys_namespace.rs"]
mod sys_namespace;
