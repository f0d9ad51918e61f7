//! [`Interface`]: the transmit queue of a sending host, and the pace of its packets.

use core::time::Duration;
use std::collections::VecDeque;

use evb_core::{rng::Rng, time::Instant, units::Bytes};
use evb_shaper::{
    Clusters, EdtBucket,
    cost::{CELL, LINE_OVERHEAD, PacketCost},
};

use super::{DRIVER_RING, Departures, KeptPace, LongPipe};
use crate::link::Link;

/// A network interface below a transmit queue of limited length.
#[derive(Debug)]
pub(super) struct Interface {
    link: Link,
    pacer: Option<Pacer>,
    /// For each packet in the queue, the time at which it has left.
    queue: VecDeque<Instant>,
    limit: usize,
}

/// A pace, kept by an executor that sends trains and is sometimes late.
#[derive(Debug)]
struct Pacer {
    bucket: EdtBucket,
    /// Number of packets in a train.
    train: u64,
    /// Mean lateness of a train.
    lateness: Duration,
    /// Time at which the last train leaves.
    leaves: Instant,
    /// Number of packets that the last train has.
    packets: u64,
    rng: Rng,
}

/// Ratio of the 99th percentile of an exponential distribution to its mean: ln 100.
const P99_OF_MEAN: f64 = 4.605;

impl Interface {
    pub(super) fn new(pipe: &LongPipe, latency: Duration, seed: u64) -> Self {
        let line = PacketCost::tcp(pipe.mtu, CELL).packet_line().count();
        let rate = match pipe.departures {
            Departures::Gap(gap) => {
                let bits = u128::from(pipe.host_rate.bits_per_second()) * u128::from(line);
                let bits = bits / u128::from(line + gap.count());
                evb_core::units::Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
            }
            _ => pipe.host_rate,
        };
        let pacer = match &pipe.departures {
            Departures::Paced(kept) => Some(Pacer::new(kept, pipe.mtu, seed)),
            _ => None,
        };
        let limit = pipe.transmit_queue.saturating_add(DRIVER_RING);
        Self { link: Link::new(rate, latency), pacer, queue: VecDeque::new(), limit }
    }

    /// Returns true if the transmit queue takes another packet.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        while self.queue.pop_front_if(|left| *left <= now).is_some() {}
        self.queue.len() < self.limit
    }

    /// Queues a frame, and returns the times at which its last bit leaves and arrives.
    pub(super) fn send(&mut self, frame: Bytes, now: Instant) -> (Instant, Instant) {
        let is_idle = self.queue.is_empty();
        let at = self.pacer.as_mut().map_or(now, |pacer| pacer.depart(frame, is_idle, now));
        let (left, arrives) = self.link.send(frame, at);
        self.queue.push_back(left);
        (left, arrives)
    }
}

impl Pacer {
    fn new(kept: &KeptPace, mtu: u32, seed: u64) -> Self {
        let cost = PacketCost::tcp(mtu, CELL);
        Self {
            bucket: EdtBucket::new(kept.pace.rate, kept.pace.burst),
            train: Clusters::of(&kept.pace, kept.spacing, &cost).packets,
            lateness: kept.precision.div_f64(P99_OF_MEAN),
            leaves: Instant::ZERO,
            packets: 0,
            rng: Rng::new(seed),
        }
    }

    /// Returns the time at which a frame leaves: with the last train if this has not left and is
    /// not full, or else at the begin of a train of its own.
    fn depart(&mut self, frame: Bytes, is_idle: bool, now: Instant) -> Instant {
        let line = Bytes::new(frame.count() + LINE_OVERHEAD);
        if self.leaves <= now || self.packets >= self.train {
            if is_idle {
                self.bucket.wake(now);
            }
            let late = self.lateness.mul_f64(self.rng.exponential());
            self.leaves = self.leaves.max(self.bucket.departure(now) + late);
            self.packets = 0;
        }
        self.packets += 1;
        self.bucket.spend(line, self.leaves);
        self.leaves
    }
}
