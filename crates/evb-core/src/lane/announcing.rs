//! [`Announcing`]: decides when a source announces the fragments of a lane
//! (docs/reference/protocol.md LANE-6).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::OutgoingLane;
use crate::{id::SourceId, time::Instant};

/// Longest time for which a source delays an announcement, to send it with others, while the
/// builder has enough announced bytes to grant. A grant that leaves the builder too few announced
/// bytes ends the delay at once, so the delay costs no throughput; each earlier wake-up of the
/// source would cost CPU time.
const WITHIN: Duration = Duration::from_millis(20);

/// Longest delay of an announcement in multiples of the time in which a full switch port on the way
/// drains, if that is longer than [`WITHIN`]. The announcements of all sources then fill only a
/// small part of the port.
const DRAINS: u32 = 8;

/// Least number of announced and ungranted bytes that are enough for a builder, however small its
/// grants are.
pub(crate) const ENOUGH: u64 = 8 << 10;

/// Least number of announced and ungranted bytes that are enough for a builder behind a switch port
/// with a small buffer.
const ENOUGH_FOR_A_PORT: u64 = 3 << 10;

/// Number of announcements that a source sends without delay on a stream. A packet with so few
/// announcements takes as much of the port's buffer as the smallest packet.
pub(crate) const FEW: usize = 4;

/// Number of announcements that fit into a packet of 1500 bytes.
const PACKETFUL: usize = 59;

/// The schedule of one lane's announcements. All sources learn of a decision at the same time, and
/// announcements need no grant, so they would all arrive at the builder's switch port together.
/// Therefore, while the builder has enough announced bytes to grant, each source delays its
/// announcements, either for a time that differs from source to source, or until the builder has
/// granted a share of the announced bytes that also differs.
#[derive(Clone, Debug)]
pub(crate) struct Announcing {
    within: Duration,
    /// Fraction of the longest delay that this source adds, in units of 2⁻¹⁶; each source has a
    /// different fraction.
    part: u64,
    /// True if the drain time of a full switch port on the way is known, so that announcements
    /// should use little of its buffer.
    spares_port: bool,
    wait: Option<Wait>,
}

/// A delay of announcements, and the conditions that end it.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Instant,
    /// Number of announced and ungranted bytes below which the delay ends before `until`.
    low: u64,
    /// True if the announced and ungranted bytes have fallen below `low`.
    is_low: bool,
    /// Number of announcements that may stay unsent when this delay ends, and wait for the next
    /// one.
    left: usize,
}

impl Wait {
    fn is_over(&self, now: Instant) -> bool {
        self.is_low || self.until <= now
    }
}

impl Announcing {
    /// Returns the announcement schedule for the lane of that source. No delay is longer than
    /// `most`. `queue` is the time in which full switch ports on the way drain.
    pub(crate) fn new(source: SourceId, most: Duration, queue: Duration) -> Self {
        // The fractional parts of the multiples of the golden ratio are spread evenly, for any
        // number of sources.
        let part = u64::from(source.number().wrapping_mul(40_503));
        let half = WITHIN.max(queue.saturating_mul(DRAINS)).min(most).as_nanos() as u64 / 2;
        let within = Duration::from_nanos(half + (half >> 16) * part);
        Self { within, part, spares_port: !queue.is_zero(), wait: None }
    }

    /// Returns true if the builder has too few announced bytes to grant on that lane (see
    /// [`Self::enough`]). A builder that could grant more would have granted all announced bytes.
    pub(crate) fn is_short(&self, lane: &OutgoingLane) -> bool {
        ahead(lane) < self.enough(lane)
    }

    /// Returns true if announcements are to be sent now. Up to `few` announcements are sent without
    /// delay.
    pub(crate) fn is_due(&mut self, lane: &OutgoingLane, few: usize, now: Instant) -> bool {
        let unannounced = lane.unannounced();
        if unannounced == 0 {
            self.wait = None;
            return false;
        }
        let mut wait = self.wait.unwrap_or_else(|| Wait {
            until: now + self.within,
            low: self.low(lane),
            is_low: false,
            // When the delay ends, the source fills one packet or sends half of the announcements,
            // whichever is more, so that only a few wait for long.
            left: unannounced.saturating_sub(PACKETFUL).min(unannounced / 2),
        });
        wait.is_low |= ahead(lane) < wait.low;
        self.wait = Some(wait);
        unannounced <= few || wait.is_over(now) || self.is_short(lane)
    }

    /// Returns the number of announcements to send now: those whose delay has ended, or before that
    /// the few that the builder needs.
    pub(crate) fn batch(&self, lane: &OutgoingLane, now: Instant) -> usize {
        let wait = self.wait.filter(|wait| wait.is_over(now));
        let over = wait.map_or(0, |wait| lane.unannounced().saturating_sub(wait.left));
        let enough = self.enough(lane);
        let wanted = if self.spares_port { enough + enough / 4 } else { 2 * enough };
        FEW.max(over).max(lane.unannounced_below(lane.granted().saturating_add(wanted)))
    }

    /// Notes that announcements were sent. If the delay has ended and all announcements that it
    /// held back are sent, the delay of the remaining ones begins.
    pub(crate) fn note(&mut self, lane: &OutgoingLane, now: Instant) {
        let left = lane.unannounced();
        self.wait = self.wait.filter(|wait| left > 0 && (!wait.is_over(now) || left > wait.left));
    }

    /// Ends the delay, because the lane has ended.
    pub(crate) fn reset(&mut self) {
        self.wait = None;
    }

    /// Delays announcements until `until` at least.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.wait = self.wait.map(|wait| Wait { until: until.max(wait.until), is_low: false, ..wait });
    }

    /// Returns the time at which the delay ends; `None` if no announcement waits.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wait.map(|wait| wait.until)
    }

    /// Returns the number of announced and ungranted bytes below which this source ends its delay.
    /// Builders grant to all lanes alike, so sources with different limits end their delays one
    /// after the other, at any data rate.
    fn low(&self, lane: &OutgoingLane) -> u64 {
        let enough = self.enough(lane);
        match ahead(lane).saturating_sub(enough) {
            spare if spare > 0 && self.spares_port => enough + (spare >> 8) * (self.part >> 8),
            // The builder has hardly more announced bytes than it needs. So the source does not
            // wait for a limit; it announces what the builder needs, in less than a full packet.
            _ => 0,
        }
    }

    /// Returns the number of announced and ungranted bytes that are enough for the builder: twice
    /// the size of the last grant. If the source spares a switch port, the size of one grant is
    /// enough, and an eighth of the uncommitted bytes at most; otherwise all builders' lanes would
    /// run out of announced bytes at the same time.
    fn enough(&self, lane: &OutgoingLane) -> u64 {
        if self.spares_port {
            ENOUGH_FOR_A_PORT.max(lane.turn().min((lane.ready() - lane.committed()) / 8))
        } else {
            ENOUGH.max(lane.turn().saturating_mul(2))
        }
    }
}

/// Returns the number of announced and ungranted bytes of the lane.
fn ahead(lane: &OutgoingLane) -> u64 {
    lane.announced().saturating_sub(lane.granted())
}
