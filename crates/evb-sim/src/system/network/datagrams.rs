//! Datagrams between two hosts, which the network may lose, repeat, delay, reorder and damage.

use core::time::Duration;

use bytes::Bytes;

use super::{Happening, Network, NodeIndex};
use crate::system::conditions::{Conditions, below};

/// Longest time for which successive datagrams of a host are lost at once.
const BURST: Duration = Duration::from_millis(5);

/// Time after which a process tries again to send to a socket that was full.
pub(crate) const FULL_AGAIN: Duration = Duration::from_micros(200);

/// One of this number of datagrams finds its socket full, if reads and writes are torn.
const FULL: u64 = 50;

/// Address from which or to which a datagram is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) node: NodeIndex,
    /// Number that distinguishes the sockets of a host.
    port: u32,
}

impl Address {
    pub(super) const fn new(node: NodeIndex, port: u32) -> Self {
        Self { node, port }
    }

    /// Returns the address at which a builder receives datagrams. Sources know the address in
    /// advance, as they know the builder's TCP port.
    pub(crate) const fn of_builder(node: NodeIndex) -> Self {
        Self { node, port: 0 }
    }
}

impl Network {
    /// Opens a datagram socket with a new port number.
    pub(crate) fn open_socket(&mut self, node: NodeIndex) -> Address {
        let port = self.next_port;
        self.next_port += 1;
        self.nodes[node].ports.insert(port, Default::default());
        Address { node, port }
    }

    /// Opens the socket at which a builder receives datagrams.
    pub(crate) fn bind(&mut self, node: NodeIndex) -> Address {
        let address = Address::of_builder(node);
        self.nodes[node].ports.insert(address.port, Default::default());
        address
    }

    /// Closes a socket; datagrams that arrive for it later are dropped.
    pub(crate) fn close_socket(&mut self, address: Address) {
        self.nodes[address.node].ports.remove(&address.port);
    }

    /// Returns the next unread datagram at an address, and the sender's address.
    pub(crate) fn receive(&mut self, at: Address) -> Option<(Address, Bytes)> {
        self.nodes[at.node].ports.get_mut(&at.port)?.pop_front()
    }

    /// Returns true if a socket has no room for the next datagram at the moment.
    pub(crate) fn is_full(&mut self) -> bool {
        self.tears.as_mut().is_some_and(|rng| rng.below(FULL) == 0)
    }

    /// Sends a datagram, which the network may lose, repeat, delay or damage.
    pub(crate) fn send(&mut self, from: Address, to: Address, bytes: Bytes) {
        self.fates.sent += 1;
        let weather = self.weather;
        let left = self.nodes[from.node].free_at.max(self.now) + weather.busy(bytes.len());
        self.nodes[from.node].free_at = left;
        let is_parted =
            self.is_parted(from.node, to.node) || self.dead.contains(&from) || self.dead.contains(&to);
        if is_parted || self.loses(from.node) {
            self.fates.lost += 1;
            return;
        }
        let copies = 1 + u64::from(Conditions::strikes(weather.repeat, &mut self.rng));
        self.fates.repeated += copies - 1;
        for _ in 0..copies {
            let here = left + weather.latency;
            let port = &mut self.nodes[to.node].drained_at;
            let drained = here.max(*port) + weather.busy(bytes.len());
            if drained.since(here) > weather.busy(self.port) {
                self.fates.lost += 1;
                continue;
            }
            *port = drained;
            let mut at = drained + below(weather.jitter, &mut self.rng);
            if Conditions::strikes(weather.delay, &mut self.rng) {
                self.fates.delayed += 1;
                at += below(weather.late, &mut self.rng);
            }
            let mut bytes = bytes.clone();
            if Conditions::strikes(weather.damage, &mut self.rng) && !bytes.is_empty() {
                self.fates.damaged += 1;
                let mut damaged = Vec::from(&bytes[..]);
                let place = self.rng.below(8 * damaged.len() as u64) as usize;
                damaged[place / 8] ^= 1 << (place % 8);
                bytes = damaged.into();
            }
            self.schedule(at, Happening::Datagram { from, to, bytes });
        }
    }

    /// Returns true if the network loses the next datagram of a host.
    fn loses(&mut self, from: NodeIndex) -> bool {
        let (left, until) = &mut self.nodes[from].losing;
        if *left > 0 && self.now < *until {
            *left -= 1;
            return true;
        }
        let is_lost = Conditions::strikes(self.weather.loss, &mut self.rng);
        if is_lost {
            (*left, *until) = (self.weather.burst.saturating_sub(1), self.now + BURST);
        }
        is_lost
    }

    pub(super) fn deliver(&mut self, from: Address, to: Address, bytes: Bytes) {
        let is_parted = self.is_parted(from.node, to.node);
        let Some(port) = self.nodes[to.node].ports.get_mut(&to.port).filter(|_| !is_parted) else {
            self.fates.lost += 1;
            return;
        };
        port.push_back((from, bytes));
        self.stir(to.node);
    }
}
