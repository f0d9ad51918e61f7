//! Datagrams under way.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{lane::RoundTrip, rng::Rng, time::Instant};

/// Loss, duplication and damage of datagrams as fractions, and their delays.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) loss: f64,
    pub(crate) copies: f64,
    pub(crate) damage: f64,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
}

impl Conditions {
    /// Returns true if it only loses datagrams: their order is kept, and they arrive within the
    /// timeout that applies before a round trip is measured.
    pub(crate) fn only_loses(&self) -> bool {
        self.copies == 0.0 && self.jitter.is_zero() && self.delay * 2 < RoundTrip::INITIAL
    }
}

/// Direction of a datagram on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToBuilder(usize),
    ToSource(usize),
}

#[derive(Debug)]
struct UnderWay {
    way: Way,
    datagram: Vec<u8>,
    /// Bytes that it takes of the builder's port, if it carries data.
    data: u64,
}

#[derive(Debug)]
pub(crate) struct Network {
    conditions: Conditions,
    rng: Rng,
    under_way: BTreeMap<(Instant, u64), UnderWay>,
    count: u64,
    /// Buffer bytes of data on their way to the builder.
    pub(crate) data: u64,
    pub(crate) damaged: u64,
}

/// Returns the bytes that a datagram of data takes of the port, by the test's own count: Ethernet
/// 14, IPv4 20, UDP 8.
fn buffer_bytes(datagram: &[u8]) -> u64 {
    (datagram.len() as u64 + 42).max(256)
}

fn is_data(datagram: &[u8]) -> bool {
    datagram[1] & 0xf == 1
}

impl Network {
    pub(crate) fn new(conditions: Conditions, rng: Rng) -> Self {
        Self { conditions, rng, under_way: BTreeMap::new(), count: 0, data: 0, damaged: 0 }
    }

    pub(crate) fn send(&mut self, way: Way, datagram: &[u8], now: Instant) {
        if self.rng.uniform() < self.conditions.loss {
            return;
        }
        let copies = 1 + u64::from(self.rng.uniform() < self.conditions.copies);
        for _ in 0..copies {
            let is_data = matches!(way, Way::ToBuilder(_)) && is_data(datagram);
            let data = if is_data { buffer_bytes(datagram) } else { 0 };
            self.data += data;
            let mut datagram = datagram.to_vec();
            if self.rng.uniform() < self.conditions.damage {
                self.damaged += 1;
                let bit = self.rng.below(datagram.len() as u64 * 8) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            let jitter = self.conditions.jitter.mul_f64(self.rng.uniform());
            self.count += 1;
            self.under_way
                .insert((now + self.conditions.delay + jitter, self.count), UnderWay { way, datagram, data });
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the first arrival, and up to `most` in all that arrived in the same direction right
    /// after it.
    pub(crate) fn receive(&mut self, most: usize, now: Instant) -> Option<(Way, Vec<Vec<u8>>)> {
        let mut run: Option<(Way, Vec<Vec<u8>>)> = None;
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now)
            && run.as_ref().is_none_or(|(way, run)| *way == entry.get().way && run.len() < most)
        {
            let UnderWay { way, datagram, data } = entry.remove();
            self.data -= data;
            run.get_or_insert((way, Vec::new())).1.push(datagram);
        }
        run
    }
}
