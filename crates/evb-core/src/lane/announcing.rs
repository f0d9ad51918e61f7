//! [`Announcing`]: when a source says what waits to be announced on a lane (docs/protocol.md LANE-6).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::OutgoingLane;
use crate::{id::SourceId, time::Instant};

/// How long an announcement may wait for others at most, while the builder has enough announced bytes to grant. The grant by
/// which it has no longer enough wakes the source and ends the wait, so that this costs no throughput; each wake-up before does.
const WITHIN: Duration = Duration::from_millis(20);

/// How many announced bytes that are not granted are enough at least, whatever a turn is.
pub(crate) const ENOUGH: u64 = 8 << 10;

/// So few announcements do not wait on a stream: the port counts their packet like the smallest one.
pub(crate) const FEW: usize = 4;

/// How many announcements a packet of 1500 B holds.
const PACKETFUL: usize = 59;

/// When announcements of one lane are due. Nothing is charged to the port for them, and all sources hear of a decision at once:
/// while the builder has enough, each waits for another time.
#[derive(Clone, Debug)]
pub(crate) struct Announcing {
    within: Duration,
    at: Option<Instant>,
}

impl Announcing {
    /// For a lane of that source, where none may wait for longer than `most`.
    pub(crate) fn new(source: SourceId, most: Duration) -> Self {
        // Multiples of the golden ratio, less whole ones, lie far apart, however many there are.
        let part = u64::from(source.number().wrapping_mul(40_503));
        let half = WITHIN.min(most).as_nanos() as u64 / 2;
        Self { within: Duration::from_nanos(half + half * part / (1 << 16)), at: None }
    }

    /// Whether the builder has little to grant on that lane. A builder that could take more would have granted it; with two turns
    /// it has something to grant here while the next announcement is on its way.
    pub(crate) fn is_short(lane: &OutgoingLane) -> bool {
        lane.announced().saturating_sub(lane.granted()) < enough(lane)
    }

    /// Whether what waits is to be announced now; so many or fewer never wait.
    pub(crate) fn is_due(&mut self, lane: &OutgoingLane, few: usize, now: Instant) -> bool {
        let waiting = lane.unannounced();
        if waiting == 0 {
            self.at = None;
            return false;
        }
        let at = *self.at.get_or_insert(now + self.within);
        waiting <= few || Self::is_short(lane) || at <= now
    }

    /// How many to announce now: those that waited long enough, as many as a packet holds; before that, no more than the builder
    /// needs, or few.
    pub(crate) fn batch(&self, lane: &OutgoingLane, now: Instant) -> usize {
        let is_over = self.at.is_some_and(|at| at <= now);
        let least = if is_over { PACKETFUL } else { FEW };
        least.max(lane.unannounced_below(lane.granted().saturating_add(2 * enough(lane))))
    }

    /// Something was announced: what is left waits anew, if its wait was over.
    pub(crate) fn note(&mut self, lane: &OutgoingLane, now: Instant) {
        self.at = self.at.filter(|at| *at > now && lane.has_announcements());
    }

    /// The lane is over.
    pub(crate) fn reset(&mut self) {
        self.at = None;
    }

    /// Not before `until`.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.at = self.at.map(|at| until.max(at));
    }

    /// When the wait is over, if something waits.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.at
    }
}

/// How many announced bytes that are not granted are enough.
fn enough(lane: &OutgoingLane) -> u64 {
    ENOUGH.max(lane.turn().saturating_mul(2))
}
