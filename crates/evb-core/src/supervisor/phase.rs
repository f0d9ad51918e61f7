//! [`Phase`]: the phase of a run, and the phase's time limit.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The supervisor waits for peers to register and to connect their lanes.
    Gathering {
        until: Instant,
    },
    /// All peers have registered, and prepare for the first event.
    Beginning {
        until: Instant,
    },
    Running {
        until: Option<Instant>,
    },
    /// The supervisor continues another supervisor's run, and waits for the peers of that run.
    Recovering {
        until: Instant,
    },
    /// The run takes no more triggers, and its outstanding events are settled.
    Draining {
        until: Instant,
        /// Time of the last line in the log that says what the drain waits for.
        told: Instant,
    },
    /// The supervisor waits for the final reports of peers.
    Reporting {
        until: Instant,
    },
    Ended,
}

impl Phase {
    /// Returns true before the run takes triggers for the first time.
    pub(super) fn is_gathering(self) -> bool {
        matches!(self, Self::Gathering { .. } | Self::Beginning { .. })
    }

    pub(super) fn is_beginning(self) -> bool {
        matches!(self, Self::Beginning { .. })
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

    /// Returns true if the run may take triggers, now or after recovery.
    pub(super) fn is_triggering(self) -> bool {
        self.is_running() || self.is_recovering()
    }

    /// Returns true if events are assigned or settled in this phase, or will be after recovery.
    pub(super) fn is_under_way(self) -> bool {
        self.is_triggering() || self.is_draining()
    }

    /// Returns true if builders may get events in this phase: new events, or those of a lost
    /// builder.
    pub(super) fn is_settling(self) -> bool {
        self.is_running() || self.is_draining()
    }

    /// Extends the time limit of a drain so that it does not end before `at_least`.
    pub(super) fn drain_until(&mut self, at_least: Instant) {
        if let Self::Draining { until, .. } = self {
            *until = at_least.max(*until);
        }
    }

    /// Extends the time limit of the phase by `time`. The duration of a run is not extended.
    pub(super) fn put_off(&mut self, time: Duration) {
        match self {
            Self::Gathering { until }
            | Self::Beginning { until }
            | Self::Recovering { until }
            | Self::Draining { until, .. }
            | Self::Reporting { until } => *until += time,
            Self::Running { .. } | Self::Ended => {}
        }
    }
}
