//! The one place where the operating system's clock is read.

#[cfg(test)]
mod tests;

use evb_core::time::Instant;

use crate::sys_time;

/// The host's monotonic clock (`CLOCK_MONOTONIC`), which every process of a host shares.
pub fn now() -> Instant {
    Instant::from_nanos(sys_time::monotonic_nanos())
}

/// Returns microseconds since 1970: fresh for every start of a supervisor, hence good for an epoch,
/// but never for measuring time.
pub fn wall_clock_micros() -> u64 {
    sys_time::realtime_nanos() / 1_000
}

/// Returns the offset that turns a time of `CLOCK_REALTIME` into [`now`]'s clock. It changes when
/// the clock is set.
pub(crate) fn from_realtime() -> i64 {
    -ahead_of_ours(sys_time::realtime_nanos)
}

/// Returns the offset that turns a time of [`now`]'s clock into `CLOCK_TAI`.
pub(crate) fn to_tai() -> i64 {
    ahead_of_ours(sys_time::tai_nanos)
}

/// Returns the lead of another clock over the monotonic one: of three readings, each between two of
/// ours, the one that was disturbed least.
fn ahead_of_ours(read: impl Fn() -> u64) -> i64 {
    let reading = || {
        let (before, other, after) = (sys_time::monotonic_nanos(), read(), sys_time::monotonic_nanos());
        let width = after.saturating_sub(before);
        (width, other.wrapping_sub(before + width / 2).cast_signed())
    };
    [reading(), reading(), reading()].into_iter().min().map_or(0, |(_, ahead)| ahead)
}
