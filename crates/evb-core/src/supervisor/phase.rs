//! [`Phase`]: the phase of the run, and its time limit.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for peers to register and to connect their lanes.
    Gathering {
        until: Instant,
    },
    Running {
        until: Option<Instant>,
    },
    /// Waits for the peers of a run that another supervisor began.
    Recovering {
        until: Instant,
    },
    /// Takes no more triggers, and settles what is outstanding.
    Draining {
        until: Instant,
    },
    /// Waits for final reports.
    Reporting {
        until: Instant,
    },
    Ended,
}

impl Phase {
    pub(super) fn is_gathering(self) -> bool {
        matches!(self, Self::Gathering { .. })
    }

    pub(super) fn is_running(self) -> bool {
        matches!(self, Self::Running { .. })
    }

    pub(super) fn is_recovering(self) -> bool {
        matches!(self, Self::Recovering { .. })
    }

    pub(super) fn is_draining(self) -> bool {
        matches!(self, Self::Draining { .. })
    }

    pub(super) fn is_reporting(self) -> bool {
        matches!(self, Self::Reporting { .. })
    }

    /// Returns true if triggers may come: now, or when peers are back.
    pub(super) fn is_triggering(self) -> bool {
        self.is_running() || self.is_recovering()
    }

    /// Returns true if events are assigned or settled, or will be.
    pub(super) fn is_under_way(self) -> bool {
        self.is_triggering() || self.is_draining()
    }

    /// Returns true if builders may be given events: new ones, or those of a lost builder.
    pub(super) fn is_settling(self) -> bool {
        self.is_running() || self.is_draining()
    }

    /// Puts off the drain's end at least to that time.
    pub(super) fn drain_until(&mut self, at_least: Instant) {
        if let Self::Draining { until } = self {
            *until = at_least.max(*until);
        }
    }

    /// Puts off the phase's time limit; the run's duration does not change.
    pub(super) fn put_off(&mut self, time: Duration) {
        match self {
            Self::Gathering { until }
            | Self::Recovering { until }
            | Self::Draining { until }
            | Self::Reporting { until } => *until += time,
            Self::Running { .. } | Self::Ended => {}
        }
    }
}
