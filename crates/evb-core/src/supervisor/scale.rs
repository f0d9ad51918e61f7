//! [`WallWatch`]: compares the wall clock with the run's scale of UTC.
//!
//! The scale begins with the supervisor's wall clock at the beginning of the run, which
//! [`Begin`] contains, and goes on with its monotonic clock: no setting of a clock shows in the
//! data.

#[cfg(test)]
mod tests;

use crate::{
    time::{ClockState, Instant, Utc, WallClock},
    wire::control::Begin,
};

/// Difference between the wall clock and the scale that is worth a remark: more than NTP corrects
/// without setting the clock (128 ms, RFC 5905 §10, STEPT).
const REMARKED: u64 = 128_000_000;

/// The last reading of the wall clock, and how far it is from the run's scale.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WallWatch {
    /// The last reading of the wall clock, and its time.
    latest: Option<(WallClock, Instant)>,
    /// Nanoseconds by which the wall clock was ahead of the scale at the last remark.
    remarked: i64,
}

impl WallWatch {
    /// Compares a reading of the wall clock at `now` with the scale of a run that has begun.
    /// Returns a remark if the difference has changed, which happens when the wall clock is set, or
    /// when a supervisor on another host continues the run.
    pub(super) fn compare(
        &mut self,
        reading: WallClock,
        now: Instant,
        begin: Option<&Begin>,
    ) -> Option<String> {
        self.latest = Some((reading, now));
        let scale = begin?.utc(now);
        if !scale.is_known() {
            return None;
        }
        let ahead = reading.utc.as_nanos().wrapping_sub(scale.as_nanos()).cast_signed();
        if ahead.abs_diff(self.remarked) < REMARKED {
            return None;
        }
        self.remarked = ahead;
        let seconds = ahead.unsigned_abs() as f64 / 1e9;
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        Some(format!(
            "the supervisor's wall clock is now {seconds:.3} s {side} the times of this run, which go on without a jump, so its data are right; check the time synchronisation (NTP or PTP) of its host"
        ))
    }

    /// Returns the time of the wall clock at `now`, from its last reading. A run that begins has
    /// this time, and its differences from the wall clock are counted from there.
    pub(super) fn begin(&mut self, now: Instant) -> WallClock {
        self.remarked = 0;
        let Some((reading, then)) = self.latest else {
            return WallClock { utc: Utc::UNKNOWN, state: ClockState::Unknown };
        };
        let since = u64::try_from(now.since(then).as_nanos()).unwrap_or(0);
        WallClock { utc: Utc::from_nanos(reading.utc.as_nanos().saturating_add(since)), ..reading }
    }
}
