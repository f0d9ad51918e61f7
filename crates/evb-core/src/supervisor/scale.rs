//! [`Scale`]: the run's scale of UTC. It begins with the supervisor's wall clock at the start of the
//! run and goes on with its monotonic clock, so no setting of a clock shows in the data.

#[cfg(test)]
mod tests;

use super::nonsense::{Nonsense, nonsense};
use crate::{
    time::{ClockState, Instant, Utc, WallClock},
    wire::journal::RunScale,
};

/// Difference between the wall clock and the scale that is worth a remark: more than NTP corrects
/// without setting the clock (128 ms, RFC 5905 §10, STEPT).
const REMARKED: u64 = 128_000_000;

/// The run's scale of UTC, and the wall clock with which it is compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Scale {
    /// UTC of the zero of the supervisor's clock by the last reading of the wall clock; `None`
    /// before the first reading.
    wall: Option<Zero>,
    clock: ClockState,
    begun: Option<Begun>,
}

/// UTC of the zero of the supervisor's monotonic clock, in nanoseconds. The number wraps around,
/// because the zero of another host's clock may lie before 1970 on this scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Zero(u64);

/// The scale of a run that has started.
#[derive(Clone, Copy, Debug)]
struct Begun {
    zero: Zero,
    /// Start of the run.
    at: Utc,
    /// State of the wall clock at the start of the run.
    clock: ClockState,
    /// Nanoseconds by which the wall clock was ahead of the scale at the last remark.
    remarked: i64,
}

impl Zero {
    fn utc(self, at: Instant) -> Utc {
        Utc::from_nanos(self.0.wrapping_add(at.as_nanos()))
    }
}

impl Scale {
    /// Compares a reading of the wall clock at `now` with the scale. Returns a remark if the
    /// difference has changed, which happens when the wall clock is set, or when a supervisor on
    /// another host continues the run.
    pub(super) fn compare(&mut self, reading: WallClock, now: Instant) -> Option<String> {
        let wall = Zero(reading.utc.as_nanos().wrapping_sub(now.as_nanos()));
        (self.wall, self.clock) = (Some(wall), reading.state);
        let begun = self.begun.as_mut()?;
        let ahead = wall.0.wrapping_sub(begun.zero.0).cast_signed();
        if ahead.abs_diff(begun.remarked) < REMARKED {
            return None;
        }
        begun.remarked = ahead;
        let seconds = ahead.unsigned_abs() as f64 / 1e9;
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        Some(format!(
            "the supervisor's wall clock is now {seconds:.3} s {side} the times of this run, which go on from the run's start without a jump"
        ))
    }

    /// Begins the scale with the wall clock, when the run begins or begins once more.
    pub(super) fn begin(&mut self, now: Instant) {
        let begun = |zero: Zero| Begun { zero, at: zero.utc(now), clock: self.clock, remarked: 0 };
        self.begun = self.wall.map(begun);
    }

    /// Returns the scale for the journal; `None` if the run has not started or no wall clock was
    /// read.
    pub(super) fn entry(&self) -> Option<RunScale> {
        self.begun.map(|begun| RunScale {
            utc_zero_ns: begun.zero.0,
            begun_utc_ns: begun.at.as_nanos(),
            clock_state: begun.clock.code().into(),
        })
    }

    /// Restores the scale from the journal.
    pub(super) fn recall(&mut self, scale: Option<&RunScale>) -> Result<(), Nonsense> {
        let Some(scale) = scale else { return Ok(()) };
        let at = Utc::from_nanos(scale.begun_utc_ns);
        if !at.is_known() {
            return nonsense("the run's scale of UTC has no beginning");
        }
        let clock = ClockState::from_code(u8::try_from(scale.clock_state).unwrap_or(0));
        self.begun = Some(Begun { zero: Zero(scale.utc_zero_ns), at, clock, remarked: 0 });
        Ok(())
    }

    /// Continues the scale on a clock that is `nanos` ahead of the one before.
    pub(super) fn shift(&mut self, nanos: i64) {
        if let Some(begun) = &mut self.begun {
            begun.zero = Zero(begun.zero.0.wrapping_sub(nanos.cast_unsigned()));
        }
    }

    /// Returns the UTC of the zero of the supervisor's clock, for assignments; zero if unknown.
    pub(super) fn utc_zero_ns(&self) -> u64 {
        self.begun.map_or(0, |begun| begun.zero.0)
    }

    /// Returns the UTC of that instant; unknown before the start of the run.
    pub(super) fn utc(&self, at: Instant) -> Utc {
        self.begun.map_or(Utc::UNKNOWN, |begun| begun.zero.utc(at))
    }

    /// Returns the start of the run, and whether the wall clock was synchronised then.
    pub(super) fn begun(&self) -> (Utc, ClockState) {
        self.begun.map_or((Utc::UNKNOWN, ClockState::Unknown), |begun| (begun.at, begun.clock))
    }
}
