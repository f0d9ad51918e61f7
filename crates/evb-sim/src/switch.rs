//! [`Port`]: an output port of a switch, with queues of limited size, and random losses of frames.

mod turns;

use std::collections::VecDeque;

use evb_core::{
    rng::Rng,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::link::Link;

pub(crate) use turns::TurnsPort;

/// A queue of the network: one direction of a trunk, or the port to a builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The trunk's name with "up" (towards the root switch) or "down", or the builder.
    pub name: String,
    /// True for a direction of a trunk.
    pub is_trunk: bool,
    /// Line rate.
    pub rate: Rate,
    /// Size of the queue, in L2 bytes.
    pub buffer: Bytes,
    /// Largest number of L2 bytes that were queued at once.
    pub peak: Bytes,
    /// Frames dropped because the queue was full.
    pub drops: u64,
    /// L2 bytes of all frames that were not dropped.
    pub bytes: Bytes,
}

/// An output port. A frame that does not fit into its queue is dropped (drop-tail); a switch drops
/// frames only there, and at random.
#[derive(Debug)]
pub(crate) struct Port<T> {
    pub(crate) rate: Rate,
    pub(crate) buffer: Bytes,
    pub(crate) queues: Queues<T>,
}

/// The queues of an output port.
#[derive(Debug)]
pub(crate) enum Queues<T> {
    /// Frames leave in the order of their arrival.
    Arrivals(OutputPort),
    /// Incoming links take turns.
    Turns(TurnsPort<T>),
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounters {
    /// Largest number of L2 bytes that were queued at once.
    pub(crate) peak: Bytes,
    /// Frames dropped because the queue was full.
    pub(crate) dropped: u64,
    /// L2 bytes of the frames that the port accepted.
    pub(crate) bytes: Bytes,
}

impl<T> Port<T> {
    /// Returns the port's counters.
    pub(crate) fn counters(&self) -> PortCounters {
        match &self.queues {
            Queues::Arrivals(port) => port.counters,
            Queues::Turns(port) => port.counters(),
        }
    }

    /// Returns the port's report under the given name.
    pub(crate) fn report(&self, name: String, is_trunk: bool) -> NodeReport {
        let PortCounters { peak, dropped: drops, bytes } = self.counters();
        NodeReport { name, is_trunk, rate: self.rate, buffer: self.buffer, peak, drops, bytes }
    }
}

/// Random losses of frames.
#[derive(Debug)]
pub(crate) struct Losses {
    probability: f64,
    rng: Rng,
    count: u64,
}

impl Losses {
    /// Creates losses that strike each frame with the given probability.
    pub(crate) fn new(probability: f64, seed: u64) -> Self {
        Self { probability, rng: Rng::new(seed), count: 0 }
    }

    /// Returns true if the next frame is lost.
    pub(crate) fn strike(&mut self) -> bool {
        let lost = self.probability > 0.0 && self.rng.uniform() < self.probability;
        self.count += u64::from(lost);
        lost
    }

    /// Returns the number of lost frames.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// A port with one first-in, first-out queue of L2 frames.
#[derive(Debug)]
pub(crate) struct OutputPort {
    link: Link,
    limit: Bytes,
    /// For each queued frame, the time at which it has left, and its bytes.
    queue: VecDeque<(Instant, Bytes)>,
    queued: Bytes,
    counters: PortCounters,
}

impl OutputPort {
    /// Creates an empty port whose queue holds at most `limit` bytes of L2 frames.
    pub(crate) fn new(link: Link, limit: Bytes) -> Self {
        let (queue, queued) = (VecDeque::new(), Bytes::ZERO);
        Self { link, limit, queue, queued, counters: PortCounters::default() }
    }

    /// Returns the port's counters.
    pub(crate) fn counters(&self) -> PortCounters {
        self.counters
    }

    /// Queues a frame and returns the time of its arrival, or `None` if it does not fit. The frame
    /// takes space in the queue until its last bit has left.
    pub(crate) fn enqueue(&mut self, frame: Bytes, now: Instant) -> Option<Instant> {
        while let Some((_, bytes)) = self.queue.pop_front_if(|(left, _)| *left <= now) {
            self.queued -= bytes;
        }
        if self.queued + frame > self.limit {
            self.counters.dropped += 1;
            return None;
        }
        let (left, arrives) = self.link.send(frame, now);
        self.queue.push_back((left, frame));
        self.queued += frame;
        self.counters.peak = self.counters.peak.max(self.queued);
        self.counters.bytes += frame;
        Some(arrives)
    }
}

#[cfg(test)]
mod tests;
