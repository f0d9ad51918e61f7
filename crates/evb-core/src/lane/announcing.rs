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
    /// How many may be left then, for the next wait.
    left: usize,
}

impl Announcing {
    /// For a lane of that source, where none may wait for longer than `most`.
    pub(crate) fn new(source: SourceId, most: Duration) -> Self {
        // Multiples of the golden ratio, less whole ones, lie far apart, however many there are.
        let part = u64::from(source.number().wrapping_mul(40_503));
        let half = WITHIN.min(most).as_nanos() as u64 / 2;
        Self { within: Duration::from_nanos(half + half * part / (1 << 16)), at: None, left: 0 }
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
        let at = *self.at.get_or_insert_with(|| {
            // A packet full, or half of them, so that however many wait soon do not.
            self.left = waiting.saturating_sub(PACKETFUL).min(waiting / 2);
            now + self.within
        });
        waiting <= few || Self::is_short(lane) || at <= now
    }

    /// How many to announce now: those whose wait is over; before that, no more than the builder needs, or few.
    pub(crate) fn batch(&self, lane: &OutgoingLane, now: Instant) -> usize {
        let is_over = self.at.is_some_and(|at| at <= now);
        let over = if is_over { lane.unannounced().saturating_sub(self.left) } else { 0 };
        FEW.max(over).max(lane.unannounced_below(lane.granted().saturating_add(2 * enough(lane))))
    }

    /// Something was announced: when the wait is over for all that it was for, the others begin theirs.
    pub(crate) fn note(&mut self, lane: &OutgoingLane, now: Instant) {
        let left = lane.unannounced();
        self.at = self.at.filter(|at| left > 0 && (*at > now || left > self.left));
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
