//! The kernel's release, and what follows from it.

#[cfg(test)]
mod tests;

use super::{Fact, text_of};

/// Returns the kernel's release, such as `6.18.44`.
///
/// # Errors
/// Fails if the kernel does not report its release.
pub fn release() -> Fact<String> {
    text_of("/proc/sys/kernel/osrelease")
}

/// Returns true if a real-time thread that needs a whole core keeps the core while no other thread
/// wants it: with the fair server since Linux 6.12 (kernel/sched/deadline.c), or if real-time
/// threads have no time limit. Kernels before 6.12 stop a busy real-time thread for 50 ms of each
/// second (`sched_rt_runtime_us`), even if no other thread waits, which is too long to keep a
/// network port busy.
pub fn is_real_time_smooth() -> bool {
    let is_unlimited = || text_of("/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|limit| limit == "-1");
    release().is_ok_and(|release| is_at_least(&release, (6, 12))) || is_unlimited()
}

/// Returns true if the first two numbers of a release such as `6.18.44-rc1` are at least `version`.
fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= version)
}
