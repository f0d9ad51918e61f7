//! [`Announcing`]: when a source says what waits to be announced on a lane (docs/reference/protocol.md LANE-6).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::OutgoingLane;
use crate::{id::SourceId, time::Instant};

/// How long an announcement may wait for others at most, while the builder has enough announced bytes to grant. The grant by
/// which it has no longer enough wakes the source and ends the wait, so that this costs no throughput; each wake-up before does.
const WITHIN: Duration = Duration::from_millis(20);

/// … or for so many times what a full port on the way takes to drain: what is announced meanwhile then fills a small part of it.
const DRAINS: u32 = 8;

/// How many announced bytes that are not granted are enough at least, whatever a turn is.
pub(crate) const ENOUGH: u64 = 8 << 10;

/// The same where a port is known to be shallow.
const ENOUGH_FOR_A_PORT: u64 = 3 << 10;

/// So few announcements do not wait on a stream: the port counts their packet like the smallest one.
pub(crate) const FEW: usize = 4;

/// How many announcements a packet of 1500 B holds.
const PACKETFUL: usize = 59;

/// When announcements of one lane are due. All sources hear of a decision at once, and nobody asks for what they then say: while
/// the builder has enough, each waits for another time, and until the builder has granted another part of what it knows of.
#[derive(Clone, Debug)]
pub(crate) struct Announcing {
    within: Duration,
    /// This source's place among the others, in parts of 2¹⁶.
    part: u64,
    /// Whether a full port is on the way, and its room to be spared.
    spares_port: bool,
    wait: Option<Wait>,
}

/// What waits, for what.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Instant,
    /// Or until so few announced bytes are not granted.
    low: u64,
    /// The builder has granted as much.
    is_low: bool,
    /// How many may be left then, for the next wait.
    left: usize,
}

impl Wait {
    fn is_over(&self, now: Instant) -> bool {
        self.is_low || self.until <= now
    }
}

impl Announcing {
    /// For a lane of that source, where none may wait for longer than `most`, and full ports on the way take `queue` to drain.
    pub(crate) fn new(source: SourceId, most: Duration, queue: Duration) -> Self {
        // Multiples of the golden ratio, less whole ones, lie far apart, however many there are.
        let part = u64::from(source.number().wrapping_mul(40_503));
        let half = WITHIN.max(queue.saturating_mul(DRAINS)).min(most).as_nanos() as u64 / 2;
        let within = Duration::from_nanos(half + (half >> 16) * part);
        Self { within, part, spares_port: !queue.is_zero(), wait: None }
    }

    /// Whether the builder has little to grant on that lane: less than it took last, or twice that. A builder that could take more
    /// would have granted it.
    pub(crate) fn is_short(&self, lane: &OutgoingLane) -> bool {
        ahead(lane) < self.enough(lane)
    }

    /// Whether what waits is to be announced now; so many or fewer never wait.
    pub(crate) fn is_due(&mut self, lane: &OutgoingLane, few: usize, now: Instant) -> bool {
        let waiting = lane.unannounced();
        if waiting == 0 {
            self.wait = None;
            return false;
        }
        let mut wait = self.wait.unwrap_or_else(|| Wait {
            until: now + self.within,
            low: self.low(lane),
            is_low: false,
            // A packet full, or half of them, so that however many wait soon do not.
            left: waiting.saturating_sub(PACKETFUL).min(waiting / 2),
        });
        wait.is_low |= ahead(lane) < wait.low;
        self.wait = Some(wait);
        waiting <= few || wait.is_over(now) || self.is_short(lane)
    }

    /// How many to announce now: those whose wait is over; before that, no more than the builder needs, or few.
    pub(crate) fn batch(&self, lane: &OutgoingLane, now: Instant) -> usize {
        let wait = self.wait.filter(|wait| wait.is_over(now));
        let over = wait.map_or(0, |wait| lane.unannounced().saturating_sub(wait.left));
        let enough = self.enough(lane);
        let wanted = if self.spares_port { enough + enough / 4 } else { 2 * enough };
        FEW.max(over).max(lane.unannounced_below(lane.granted().saturating_add(wanted)))
    }

    /// Something was announced: when the wait is over for all that it was for, the others begin theirs.
    pub(crate) fn note(&mut self, lane: &OutgoingLane, now: Instant) {
        let left = lane.unannounced();
        self.wait = self.wait.filter(|wait| left > 0 && (!wait.is_over(now) || left > wait.left));
    }

    /// The lane is over.
    pub(crate) fn reset(&mut self) {
        self.wait = None;
    }

    /// Not before `until`.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.wait = self.wait.map(|wait| Wait { until: until.max(wait.until), is_low: false, ..wait });
    }

    /// When the wait is over, if something waits.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wait.map(|wait| wait.until)
    }

    /// Of the announced bytes that are not granted now, beyond those that are enough, so many are left when this source ends its
    /// wait: builders serve all lanes alike, and so sources end theirs one after the other, whatever the rate is.
    fn low(&self, lane: &OutgoingLane) -> u64 {
        let enough = self.enough(lane);
        match ahead(lane).saturating_sub(enough) {
            spare if spare > 0 && self.spares_port => enough + (spare >> 8) * (self.part >> 8),
            // It is short, or nearly: then it says what is needed, and no packet full.
            _ => 0,
        }
    }

    /// How many announced bytes that are not granted are enough: two turns. For a port, one, if that is a small part of the lane,
    /// or all sources would be short of them at once.
    fn enough(&self, lane: &OutgoingLane) -> u64 {
        if self.spares_port {
            ENOUGH_FOR_A_PORT.max(lane.turn().min((lane.ready() - lane.committed()) / 8))
        } else {
            ENOUGH.max(lane.turn().saturating_mul(2))
        }
    }
}

/// How many announced bytes are not granted.
fn ahead(lane: &OutgoingLane) -> u64 {
    lane.announced().saturating_sub(lane.granted())
}
