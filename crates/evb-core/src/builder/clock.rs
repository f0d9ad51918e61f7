//! Estimate of the offset between the supervisor's clock and the builder's, from echoed heartbeats.

use core::time::Duration;

use crate::{time::Instant, wire::control::Heartbeat};

/// An estimate of the clock offset as in NTP (RFC 5905, §8): half of the shortest round trip bounds
/// its error.
/// Requirements: docs/reference/protocol.md CTRL-6.
#[derive(Debug)]
pub(super) struct PeerClock {
    shared: bool,
    /// The builder's clock minus the supervisor's, in ns.
    offset: i64,
    best_round_trip: Option<Duration>,
    last: Option<(u64, Instant)>,
}

impl PeerClock {
    pub(super) fn new(shared: bool) -> Self {
        Self { shared, offset: 0, best_round_trip: None, last: None }
    }

    /// Updates the estimate by a heartbeat from the supervisor.
    pub(super) fn handle(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.last = Some((heartbeat.sent_ns, now));
        if self.shared || heartbeat.echo_ns == 0 {
            return;
        }
        // The time of the heartbeat that is echoed, and the time for which the supervisor held it.
        let sent = Instant::from_nanos(heartbeat.echo_ns.saturating_add(heartbeat.echo_delay_ns));
        let round_trip = now.since(sent);
        // Clocks drift, so an old estimate gets worse: 1 µs is added to the best round trip with
        // each heartbeat, until a newer sample is as good.
        let best = self.best_round_trip.map(|best| best + Duration::from_micros(1));
        if best.is_none_or(|best| round_trip <= best) {
            // The answer took half of the round trip, so this is what the supervisor's clock shows
            // now.
            let supervisor_now = heartbeat.sent_ns.saturating_add(round_trip.as_nanos() as u64 / 2);
            self.offset = now.as_nanos().wrapping_sub(supervisor_now) as i64;
            self.best_round_trip = Some(round_trip);
        } else {
            self.best_round_trip = best;
        }
    }

    /// Returns a heartbeat to send.
    pub(super) fn heartbeat(&self, now: Instant) -> Heartbeat {
        Heartbeat::echoing(self.last, now)
    }

    /// Converts an instant on the supervisor's clock to one on the builder's clock. An instant
    /// before the boot of this host becomes the zero of its clock.
    pub(super) fn ours(&self, theirs_ns: u64) -> Instant {
        Instant::from_nanos(theirs_ns).shifted(self.offset).max(Instant::ZERO)
    }

    /// Returns the largest possible error of the instants that [`Self::ours`] returns.
    pub(super) fn error(&self) -> Duration {
        if self.shared { Duration::ZERO } else { self.best_round_trip.unwrap_or(Duration::MAX) / 2 }
    }
}
