//! [`TurnsPort`]: a port whose incoming links take turns (deficit round robin; Shreedhar and
//! Varghese, 1995), as the queueing discipline `drr` of Linux serves its classes.

use std::collections::VecDeque;

use evb_core::{time::Instant, units::Bytes};

use super::PortCounters;
use crate::link::Link;

/// Size of the Ethernet header, which does not count towards the MTU.
const ETHERNET: u64 = 14;

/// A port with one queue of frames for each incoming link. In its turn, a link may send as many
/// bytes as a full frame has; bytes that it does not use count in its next turn, as long as its
/// queue is not empty. Each queue has an equal part of the port's buffer.
#[derive(Debug)]
pub(crate) struct TurnsPort<T> {
    link: Link,
    /// Limit of the bytes of each queue.
    limit: Bytes,
    quantum: Bytes,
    queues: Vec<Queue<T>>,
    /// Positions of the queues with frames, in the order of their turns.
    turns: VecDeque<usize>,
    /// Queue and size of the frame that is being sent. The frame takes space until its last bit has
    /// left.
    sending: Option<(usize, Bytes)>,
    queued: Bytes,
    counters: PortCounters,
}

#[derive(Debug)]
struct Queue<T> {
    /// The incoming link.
    via: u32,
    /// The waiting frames, and their sizes.
    frames: VecDeque<(T, Bytes)>,
    queued: Bytes,
    /// Bytes that the link may still send in its present turn.
    deficit: Bytes,
}

impl<T> TurnsPort<T> {
    /// Creates an empty port for frames of the given incoming links. `limit` is the buffer of all
    /// queues together.
    pub(crate) fn new(link: Link, limit: Bytes, incoming: Vec<u32>, mtu: u32) -> Self {
        let limit = limit / incoming.len().max(1) as u64;
        let queue = |via| Queue { via, frames: VecDeque::new(), queued: Bytes::ZERO, deficit: Bytes::ZERO };
        Self {
            link,
            limit,
            quantum: Bytes::new(u64::from(mtu) + ETHERNET),
            queues: incoming.into_iter().map(queue).collect(),
            turns: VecDeque::new(),
            sending: None,
            queued: Bytes::ZERO,
            counters: PortCounters::default(),
        }
    }

    /// Queues a frame, which `ticket` stands for, that came by the link `via`. Returns false if it
    /// does not fit.
    pub(crate) fn enqueue(&mut self, via: u32, ticket: T, frame: Bytes) -> bool {
        let place = self.queues.iter().position(|queue| queue.via == via).unwrap_or_default();
        let queue = &mut self.queues[place];
        if queue.queued + frame > self.limit {
            self.counters.dropped += 1;
            return false;
        }
        if queue.frames.is_empty() {
            queue.deficit = self.quantum;
            self.turns.push_back(place);
        }
        queue.frames.push_back((ticket, frame));
        queue.queued += frame;
        self.queued += frame;
        self.counters.peak = self.counters.peak.max(self.queued);
        self.counters.bytes += frame;
        true
    }

    /// Begins to send the next frame, unless the port is busy or empty. Returns the frame, and the
    /// times at which its last bit leaves and arrives.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(T, Instant, Instant)> {
        if self.sending.is_some() {
            return None;
        }
        loop {
            let place = *self.turns.front()?;
            let queue = &mut self.queues[place];
            let frame = queue.frames.front()?.1;
            if frame > queue.deficit {
                queue.deficit += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            let (ticket, _) = queue.frames.pop_front()?;
            queue.deficit -= frame;
            if queue.frames.is_empty() {
                self.turns.pop_front();
            }
            self.sending = Some((place, frame));
            let (left, arrives) = self.link.send(frame, now);
            return Some((ticket, left, arrives));
        }
    }

    /// Handles the departure of the last bit of the frame that was being sent.
    pub(crate) fn handle_left(&mut self) {
        if let Some((place, frame)) = self.sending.take() {
            self.queues[place].queued -= frame;
            self.queued -= frame;
        }
    }

    /// Returns the port's counters.
    pub(crate) fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
