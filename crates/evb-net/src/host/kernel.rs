//! The kernel's release, and what follows from it.

#[cfg(test)]
mod tests;

use super::{Fact, text_of};

/// Its release, such as `6.18.44`.
///
/// # Errors
/// It does not say.
pub fn release() -> Fact<String> {
    text_of("/proc/sys/kernel/osrelease")
}

/// Returns true if a real-time thread that needs a whole core gets it while no other thread wants
/// it: with the fair server of Linux 6.12 (kernel/sched/deadline.c), or without any limit. Earlier
/// kernels stop such a thread for 50 ms of each second (`sched_rt_runtime_us`), even if no other
/// waits: too long for a port to stay full.
pub fn is_real_time_smooth() -> bool {
    let is_unlimited = || text_of("/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|limit| limit == "-1");
    release().is_ok_and(|release| is_at_least(&release, (6, 12))) || is_unlimited()
}

/// Returns true if a release such as `6.18.44-rc1` is at least that version, by its first two
/// numbers.
fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= version)
}
