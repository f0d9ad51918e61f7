//! The one place where the operating system's clock is read.

#[cfg(test)]
mod tests;

use evb_core::time::{ClockState, Instant, Utc, WallClock};

use crate::sys_time;

/// Returns the time of the monotonic clock (`CLOCK_MONOTONIC`), which all processes of a host
/// share.
pub fn now() -> Instant {
    Instant::from_nanos(sys_time::monotonic_nanos())
}

/// Returns the microseconds since 1970. The wall clock can be set, so it must not be used to
/// measure durations; it serves to give each start of a supervisor a new epoch number.
pub fn wall_clock_micros() -> u64 {
    sys_time::realtime_nanos() / 1_000
}

/// Reads the wall clock (`CLOCK_REALTIME`) at the time `now` of the monotonic clock, and asks the
/// kernel whether it is synchronised.
pub fn wall_clock(now: Instant) -> WallClock {
    let utc = Utc::from_nanos(now.shifted(ahead_of_ours(sys_time::realtime_nanos)).as_nanos());
    let state = match sys_time::is_synchronised() {
        Some(true) => ClockState::Synchronised,
        Some(false) => ClockState::Unsynchronised,
        None => ClockState::Unknown,
    };
    WallClock { utc, state }
}

/// Returns the nanoseconds to add to a time of `CLOCK_REALTIME` to get the same time on [`now`]'s
/// clock. The offset changes when `CLOCK_REALTIME` is set.
pub(crate) fn from_realtime() -> i64 {
    -ahead_of_ours(sys_time::realtime_nanos)
}

/// Returns the nanoseconds to add to a time of [`now`]'s clock to get the same time of `CLOCK_TAI`.
pub(crate) fn to_tai() -> i64 {
    ahead_of_ours(sys_time::tai_nanos)
}

/// Returns the nanoseconds by which the clock that `read` reads is ahead of the monotonic clock.
/// Each of three readings is taken between two readings of the monotonic clock, and the reading
/// with the shortest such interval counts.
fn ahead_of_ours(read: impl Fn() -> u64) -> i64 {
    let reading = || {
        let (before, other, after) = (sys_time::monotonic_nanos(), read(), sys_time::monotonic_nanos());
        let width = after.saturating_sub(before);
        (width, other.wrapping_sub(before + width / 2).cast_signed())
    };
    [reading(), reading(), reading()].into_iter().min().map_or(0, |(_, ahead)| ahead)
}
