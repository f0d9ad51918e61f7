//! A simulated network that carries the datagrams of both directions.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{lane::RoundTrip, rng::Rng, time::Instant};

/// The fractions of datagrams that are lost, duplicated and damaged, and the delays of datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) loss: f64,
    pub(crate) copies: f64,
    pub(crate) damage: f64,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
}

impl Conditions {
    /// Returns true if the network only loses datagrams: it keeps their order, and they arrive
    /// within the timeout that applies before a round trip is measured.
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
    /// Bytes that the datagram takes in the buffer of the builder's port, if it carries data;
    /// otherwise 0.
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

/// Returns the bytes that a data datagram takes in the port's buffer. The test computes these bytes
/// independently of the library, with headers of 14 (Ethernet), 20 (IPv4) and 8 (UDP) bytes.
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

    /// Returns the first datagram that has arrived and those that arrived directly after it in the
    /// same direction, at most `most` in all.
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
