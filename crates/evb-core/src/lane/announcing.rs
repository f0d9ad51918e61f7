//! [`Announcing`]: the times at which a source announces fragments on a lane
//! (docs/reference/protocol.md LANE-6).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::OutgoingLane;
use crate::{id::SourceId, time::Instant};

/// Longest time for which an announcement waits for others while the builder has enough announced
/// bytes to grant. A grant that leaves it less than enough wakes the source and ends the wait, so
/// waiting costs no throughput; each earlier wake-up would cost some.
const WITHIN: Duration = Duration::from_millis(20);

/// Multiple of the time in which a full port on the way drains. If that is longer than [`WITHIN`],
/// it is the longest wait, so that the announcements of that time fill a small part of the port.
const DRAINS: u32 = 8;

/// Announced and ungranted bytes that are enough at least, whatever a turn is.
pub(crate) const ENOUGH: u64 = 8 << 10;

/// Announced and ungranted bytes that are enough at least if a port is known to be shallow.
const ENOUGH_FOR_A_PORT: u64 = 3 << 10;

/// Number of announcements that never wait on a stream, as the port counts their packet like the
/// smallest one.
pub(crate) const FEW: usize = 4;

/// Number of announcements that fit into a packet of 1500 B.
const PACKETFUL: usize = 59;

/// The schedule of one lane's announcements. All sources learn of a decision at the same time, and
/// announcements need no grant, so they would meet in the builder's port. Therefore, while the
/// builder has enough to grant, each source waits for a time of its own, or until the builder has
/// granted a part of its own of the announced bytes.
#[derive(Clone, Debug)]
pub(crate) struct Announcing {
    within: Duration,
    /// This source's part of the waits, in units of 2⁻¹⁶, which differs from those of the others.
    part: u64,
    /// True if there is a full port on the way, whose room is to be spared.
    spares_port: bool,
    wait: Option<Wait>,
}

/// The wait of announcements, and the conditions that end it.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Instant,
    /// Number of announced and ungranted bytes below which the wait ends too.
    low: u64,
    /// True once the builder has granted that many.
    is_low: bool,
    /// Number of announcements that may be left at the end, for the next wait.
    left: usize,
}

impl Wait {
    fn is_over(&self, now: Instant) -> bool {
        self.is_low || self.until <= now
    }
}

impl Announcing {
    /// Returns the schedule of a lane of that source. No wait is longer than `most`, and full ports
    /// on the way take `queue` to drain.
    pub(crate) fn new(source: SourceId, most: Duration, queue: Duration) -> Self {
        // The fractional parts of multiples of the golden ratio lie far apart for any number of
        // sources.
        let part = u64::from(source.number().wrapping_mul(40_503));
        let half = WITHIN.max(queue.saturating_mul(DRAINS)).min(most).as_nanos() as u64 / 2;
        let within = Duration::from_nanos(half + (half >> 16) * part);
        Self { within, part, spares_port: !queue.is_zero(), wait: None }
    }

    /// Returns true if the builder has little to grant on that lane: less than it took last, or
    /// twice that. A builder that could take more would have granted it.
    pub(crate) fn is_short(&self, lane: &OutgoingLane) -> bool {
        ahead(lane) < self.enough(lane)
    }

    /// Returns true if announcements are due. Up to `few` of them never wait.
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
            // One packet is filled, or half of the announcements go, so that the number that waits
            // falls soon.
            left: waiting.saturating_sub(PACKETFUL).min(waiting / 2),
        });
        wait.is_low |= ahead(lane) < wait.low;
        self.wait = Some(wait);
        waiting <= few || wait.is_over(now) || self.is_short(lane)
    }

    /// Returns the number of announcements to make now: those whose wait is over, or before that
    /// the few that the builder needs.
    pub(crate) fn batch(&self, lane: &OutgoingLane, now: Instant) -> usize {
        let wait = self.wait.filter(|wait| wait.is_over(now));
        let over = wait.map_or(0, |wait| lane.unannounced().saturating_sub(wait.left));
        let enough = self.enough(lane);
        let wanted = if self.spares_port { enough + enough / 4 } else { 2 * enough };
        FEW.max(over).max(lane.unannounced_below(lane.granted().saturating_add(wanted)))
    }

    /// Notes that announcements were made. If the wait is over for all that it was for, the others
    /// begin theirs.
    pub(crate) fn note(&mut self, lane: &OutgoingLane, now: Instant) {
        let left = lane.unannounced();
        self.wait = self.wait.filter(|wait| left > 0 && (!wait.is_over(now) || left > wait.left));
    }

    /// Ends the wait, as the lane is over.
    pub(crate) fn reset(&mut self) {
        self.wait = None;
    }

    /// Lets announcements wait until `until` at least.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.wait = self.wait.map(|wait| Wait { until: until.max(wait.until), is_low: false, ..wait });
    }

    /// Returns the end of the wait, if announcements wait.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wait.map(|wait| wait.until)
    }

    /// Returns the number of announced and ungranted bytes at which this source ends its wait.
    /// Builders serve all lanes alike, so sources end their waits one after the other, at any rate.
    fn low(&self, lane: &OutgoingLane) -> u64 {
        let enough = self.enough(lane);
        match ahead(lane).saturating_sub(enough) {
            spare if spare > 0 && self.spares_port => enough + (spare >> 8) * (self.part >> 8),
            // The builder is short of announced bytes, or nearly. Then the source announces what it
            // needs, and no full packet.
            _ => 0,
        }
    }

    /// Returns the number of announced and ungranted bytes that are enough: two turns. To spare a
    /// port, one turn is enough if that is a small part of the lane; otherwise all sources would be
    /// short of bytes at once.
    fn enough(&self, lane: &OutgoingLane) -> u64 {
        if self.spares_port {
            ENOUGH_FOR_A_PORT.max(lane.turn().min((lane.ready() - lane.committed()) / 8))
        } else {
            ENOUGH.max(lane.turn().saturating_mul(2))
        }
    }
}

/// Returns the number of announced and ungranted bytes.
fn ahead(lane: &OutgoingLane) -> u64 {
    lane.announced().saturating_sub(lane.granted())
}
