//! [`WallClockReader`]: passes readings of the wall clock to the supervisor's state machine.

use std::time::Duration;

use evb_core::{supervisor::SupervisorRole, time::Instant};
use evb_net::clock;

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(1);

/// Reads the wall clock about once a second. No timer is necessary for that, because heartbeats
/// wake the supervisor's task.
#[derive(Debug, Default)]
pub(super) struct WallClockReader {
    due: Instant,
}

impl WallClockReader {
    /// Passes a reading to the state machine if the last one is old enough.
    pub(super) fn feed(&mut self, role: &mut SupervisorRole, now: Instant) {
        if now >= self.due {
            self.due = now + PERIOD;
            role.run_mut().handle_wall_clock(clock::wall_clock(now), now);
        }
    }
}
