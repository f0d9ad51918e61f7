//! [`Switch`]: a switch with output queues of limited size, and random loss of frames.

use std::collections::VecDeque;

use evb_core::{rng::Rng, time::Instant, units::Bytes};

use crate::link::Link;

/// A store-and-forward switch. The switch drops frames only if the queue of a port is full, or at
/// random.
#[derive(Debug)]
pub(crate) struct Switch {
    ports: Vec<OutputPort>,
    loss: f64,
    rng: Rng,
    lost: u64,
}

/// One output port: a link with a first-in, first-out queue of L2 frames. A frame that does not fit
/// into the queue is dropped (drop-tail).
#[derive(Debug)]
pub(crate) struct OutputPort {
    link: Link,
    limit: Bytes,
    /// For each queued frame, the time at which it has left, and its bytes.
    queue: VecDeque<(Instant, Bytes)>,
    queued: Bytes,
    peak: Bytes,
    dropped: u64,
}

impl Switch {
    /// Creates a switch with `ports` equal ports that loses each frame with probability `loss`.
    pub(crate) fn new(ports: usize, link: &Link, limit: Bytes, loss: f64, seed: u64) -> Self {
        let port = || OutputPort::new(link.clone(), limit);
        Self { ports: (0..ports).map(|_| port()).collect(), loss, rng: Rng::new(seed), lost: 0 }
    }

    /// Forwards a frame to `port`, and returns the time of its arrival at the port's host; `None`
    /// if it is lost.
    pub(crate) fn forward(&mut self, port: usize, frame: Bytes, now: Instant) -> Option<Instant> {
        if self.loss > 0.0 && self.rng.uniform() < self.loss {
            self.lost += 1;
            return None;
        }
        self.enqueue(port, frame, now)
    }

    /// Forwards a frame as [`Self::forward`] does, but without random loss.
    pub(crate) fn enqueue(&mut self, port: usize, frame: Bytes, now: Instant) -> Option<Instant> {
        self.ports[port].enqueue(frame, now)
    }

    /// Returns the ports, in the order of the hosts.
    pub(crate) fn ports(&self) -> &[OutputPort] {
        &self.ports
    }

    /// Returns the number of frames lost at random.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

impl OutputPort {
    /// Creates an empty port whose queue holds at most `limit` bytes of L2 frames.
    pub(crate) fn new(link: Link, limit: Bytes) -> Self {
        let queue = VecDeque::new();
        Self { link, limit, queue, queued: Bytes::ZERO, peak: Bytes::ZERO, dropped: 0 }
    }

    /// Queues a frame and returns the time of its arrival, or `None` if it does not fit. The frame
    /// takes space in the queue until its last bit has left.
    fn enqueue(&mut self, frame: Bytes, now: Instant) -> Option<Instant> {
        while let Some((_, bytes)) = self.queue.pop_front_if(|(left, _)| *left <= now) {
            self.queued -= bytes;
        }
        if self.queued + frame > self.limit {
            self.dropped += 1;
            return None;
        }
        let (left, arrives) = self.link.send(frame, now);
        self.queue.push_back((left, frame));
        self.queued += frame;
        self.peak = self.peak.max(self.queued);
        Some(arrives)
    }

    /// Returns the largest number of bytes that were queued at once.
    pub(crate) fn peak(&self) -> Bytes {
        self.peak
    }

    /// Returns the number of frames dropped because the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests;
