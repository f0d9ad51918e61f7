//! [`PacedSource`]: a source whose departures are spaced.

use core::ops::{Deref, DerefMut, Range};

use evb_core::{
    source::SourceCore,
    time::{Instant, earlier},
    units::{Bytes, Rate},
};

use crate::{bucket::TokenBucket, cost::PacketCost};

/// How the departures of each lane are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Line rate of one lane.
    pub rate: Rate,
    /// Line bytes that may go at once; what the executor's lateness needs.
    pub burst: Bytes,
    /// What bytes cost on the line.
    pub cost: PacketCost,
}

/// [`SourceCore`] with the lanes served in rotation and, where asked, paced: what production and simulator drive.
#[derive(Debug)]
pub struct PacedSource {
    core: SourceCore,
    pace: Option<Pace>,
    buckets: Vec<TokenBucket>,
    next: usize,
    /// When the earliest lane that was held back may go.
    held_until: Option<Instant>,
}

/// Unpaced, the most that one lane is handed at a time, before the next lane has its turn.
const TURN: u64 = 1 << 20;

impl PacedSource {
    /// Paces `core`, or only rotates over its lanes.
    pub fn new(core: SourceCore, pace: Option<Pace>) -> Self {
        let bucket = |pace: &Pace| TokenBucket::new(pace.rate, pace.burst);
        let buckets =
            pace.iter().flat_map(|pace| (0..core.lane_count()).map(move |_| bucket(pace))).collect();
        Self { core, pace, buckets, next: 0, held_until: None }
    }

    /// The next bytes to depart now: lane and lane offsets. `None` when there are none, or all are held back.
    pub fn poll_departure(&mut self, now: Instant) -> Option<(usize, Range<u64>)> {
        let count = self.core.lane_count();
        self.held_until = None;
        for step in 0..count {
            let lane = (self.next + step) % count;
            let sendable = self.core.sendable(lane);
            if sendable == 0 {
                continue;
            }
            let limit = match self.allowance(lane, sendable, now) {
                Ok(limit) => limit,
                Err(until) => {
                    self.held_until = earlier(self.held_until, Some(until));
                    continue;
                }
            };
            let range = self.core.take(lane, limit)?;
            if let (Some(pace), Some(bucket)) = (&self.pace, self.buckets.get_mut(lane)) {
                bucket.spend(pace.cost.line(Bytes::new(range.end - range.start)), now);
            }
            self.next = (lane + 1) % count;
            return Some((lane, range));
        }
        None
    }

    /// When there is something to do without further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.held_until)
    }

    /// How many of its bytes the lane may send now, or when it may: the whole train at once, or not yet.
    fn allowance(&self, lane: usize, sendable: u64, now: Instant) -> Result<u64, Instant> {
        let (Some(pace), Some(bucket)) = (&self.pace, self.buckets.get(lane)) else { return Ok(TURN) };
        let train = pace.cost.train(pace.burst / 2).min(Bytes::new(sendable.min(TURN)));
        let departure = bucket.departure_of(pace.cost.line(train), now);
        if departure > now { Err(departure) } else { Ok(train.count()) }
    }
}

impl Deref for PacedSource {
    type Target = SourceCore;

    fn deref(&self) -> &SourceCore {
        &self.core
    }
}

impl DerefMut for PacedSource {
    fn deref_mut(&mut self) -> &mut SourceCore {
        &mut self.core
    }
}

#[cfg(test)]
mod tests;
