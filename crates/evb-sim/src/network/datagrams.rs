//! [`Datagrams`]: datagram sockets, the faults of the network between them, and the recovery times
//! of losses.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes as Datagram, BytesMut};
use evb_core::{
    rng::Rng,
    time::Instant,
    units::Bytes,
    wire::datagram::{DATAGRAM_HEADER, DatagramHeader, DatagramKind, IPV4_UDP},
};

use super::{HostIndex, NetworkModel};

/// Index of a datagram socket; [`super::peer_of`] returns the socket that it is connected to.
pub(crate) type SocketIndex = usize;

/// Size of the Ethernet header.
const ETHERNET: usize = 14;

/// All datagram sockets of the network.
#[derive(Debug)]
pub(crate) struct Datagrams {
    sockets: Vec<Socket>,
    /// Number of sockets of each host.
    counts: Vec<usize>,
    /// A separate random generator, so that datagrams do not change the random draws for streams.
    rng: Rng,
    weather: Conditions,
    counters: DatagramFates,
    /// The lost data datagrams, by receiving socket and first lane offset, and the time of each
    /// loss.
    losses: BTreeMap<(SocketIndex, u64), Instant>,
    recoveries: Vec<u64>,
}

#[derive(Debug)]
struct Socket {
    host: HostIndex,
    /// Position among the sockets of the host.
    place: usize,
    inbox: VecDeque<Datagram>,
}

#[derive(Debug)]
struct Conditions {
    duplication: f64,
    reordering: f64,
    reordering_delay: Duration,
    corruption: f64,
}

/// Counters of a run's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramFates {
    /// Datagrams sent by hosts.
    pub sent: u64,
    /// Datagrams sent that carry lane bytes.
    pub data: u64,
    /// Datagrams forwarded twice.
    pub duplicated: u64,
    /// Datagrams that were delayed, so that later ones may have overtaken them.
    pub delayed: u64,
    /// Datagrams forwarded with a wrong bit.
    pub damaged: u64,
    /// Datagrams refused by the receiving host because of a wrong checksum.
    pub refused: u64,
}

/// Returns the L2 bytes of a datagram's frame, which it takes in a port's queue.
pub(super) fn frame(datagram: &Datagram) -> Bytes {
    Bytes::new((datagram.len() + IPV4_UDP + ETHERNET) as u64)
}

/// Returns true if a datagram contains more than the header, and thus more than an acknowledgement.
pub(super) fn has_body(datagram: &Datagram) -> bool {
    datagram.len() > DATAGRAM_HEADER
}

impl Datagrams {
    pub(super) fn new(model: &NetworkModel, hosts: usize, seed: u64) -> Self {
        let weather = Conditions {
            duplication: model.duplication,
            reordering: model.reordering,
            reordering_delay: model.reordering_delay,
            corruption: model.corruption,
        };
        Self {
            sockets: Vec::new(),
            counts: vec![0; hosts],
            rng: Rng::new(seed ^ 0x6461_7461_6772_616d),
            weather,
            counters: DatagramFates::default(),
            losses: BTreeMap::new(),
            recoveries: Vec::new(),
        }
    }

    pub(super) fn bind(&mut self, host: HostIndex) {
        let place = self.counts[host];
        self.counts[host] += 1;
        self.sockets.push(Socket { host, place, inbox: VecDeque::new() });
    }

    pub(super) fn count(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn host(&self, socket: SocketIndex) -> HostIndex {
        self.sockets[socket].host
    }

    pub(super) fn place(&self, socket: SocketIndex) -> usize {
        self.sockets[socket].place
    }

    pub(super) fn receive(&mut self, socket: SocketIndex) -> Option<Datagram> {
        self.sockets[socket].inbox.pop_front()
    }

    pub(super) fn counters(&mut self) -> &mut DatagramFates {
        &mut self.counters
    }

    /// Returns, for each loss of lane bytes, the time in ns until the same bytes arrived.
    pub(super) fn recoveries(&self) -> &[u64] {
        &self.recoveries
    }

    pub(super) fn handle_sent(&mut self, datagram: &Datagram) {
        self.counters.sent += 1;
        self.counters.data += u64::from(lane_offset(datagram).is_some());
    }

    /// Draws the number of copies, one or two, in which a datagram leaves the switch.
    pub(super) fn copies(&mut self) -> usize {
        let twice = self.roll(self.weather.duplication);
        self.counters.duplicated += u64::from(twice);
        1 + usize::from(twice)
    }

    /// Draws the additional delay of a datagram, which is zero for most datagrams.
    pub(super) fn delay(&mut self) -> Duration {
        if !self.roll(self.weather.reordering) {
            return Duration::ZERO;
        }
        self.counters.delayed += 1;
        self.weather.reordering_delay.mul_f64(self.rng.uniform())
    }

    /// Returns the datagram as it arrives: with a random probability, one of its bits is wrong.
    pub(super) fn pass(&mut self, datagram: Datagram) -> Datagram {
        if !self.roll(self.weather.corruption) {
            return datagram;
        }
        self.counters.damaged += 1;
        let bit = self.rng.below(datagram.len() as u64 * 8) as usize;
        let mut damaged = BytesMut::from(&datagram[..]);
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged.freeze()
    }

    /// Records that the network lost a datagram.
    pub(super) fn handle_lost(&mut self, to: SocketIndex, datagram: &Datagram, now: Instant) {
        if let Some(offset) = lane_offset(datagram) {
            self.losses.entry((to, offset)).or_insert(now);
        }
    }

    /// Delivers a datagram to its socket. If the datagram carries lane bytes that were lost before,
    /// their recovery time is recorded. Returns true if the socket was empty.
    pub(super) fn handle_arrival(&mut self, to: SocketIndex, datagram: Datagram, now: Instant) -> bool {
        if let Some(offset) = lane_offset(&datagram).filter(|_| !self.losses.is_empty()) {
            let end = offset + (datagram.len() - DATAGRAM_HEADER) as u64;
            let healed: Vec<_> = self.losses.range((to, offset)..(to, end)).map(|(at, _)| *at).collect();
            for at in healed {
                if let Some(lost) = self.losses.remove(&at) {
                    self.recoveries.push(now.since(lost).as_nanos() as u64);
                }
            }
        }
        let inbox = &mut self.sockets[to].inbox;
        inbox.push_back(datagram);
        inbox.len() == 1
    }

    fn roll(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.uniform() < probability
    }
}

/// Returns the first offset of the lane bytes that a datagram carries, if it carries any.
fn lane_offset(datagram: &Datagram) -> Option<u64> {
    let (header, _) = DatagramHeader::decode(datagram).ok()?;
    (header.kind == DatagramKind::Data).then_some(header.offset)
}

#[cfg(test)]
mod tests;
