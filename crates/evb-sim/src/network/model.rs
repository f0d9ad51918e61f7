//! [`NetworkModel`]: the parameters of the network.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{
    id::Peer,
    units::{Bytes, Rate},
};

use super::tree::{Path, Service, Tree, Trunk};
use crate::hosts::HostModel;

/// The parameters of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkModel {
    /// Line rate of the switches' ports to hosts.
    pub link_rate: Rate,
    /// Line rate at which hosts send to their switch; it may be higher than that of a builder's
    /// port.
    pub host_rate: Rate,
    /// Line rates of the links of single peers, in both directions, which replace `link_rate` and
    /// `host_rate`.
    pub links: BTreeMap<Peer, Rate>,
    /// The links between switches. Without any, one switch connects all hosts.
    pub trunks: Vec<Trunk>,
    /// The order in which ports serve frames that came by different links.
    pub service: Service,
    /// Latency of a link, from the last bit sent to the last bit received. A path between two hosts
    /// of one switch has two links.
    pub latency: Duration,
    /// Size of the queue of each port to a host, in L2 bytes.
    pub port_buffer: Bytes,
    /// Bytes that an idle port, or an idle host's interface, sends at once. The value is zero for a
    /// real cable, and the size of the token buckets for a lab that emulates links.
    pub bucket: Bytes,
    /// The largest size of an IP datagram, in bytes.
    pub mtu: u32,
    /// Probability that the last switch of a path loses a frame at random.
    pub loss: f64,
    /// True if messages to and from the supervisor are never lost at random, so that losses affect
    /// only lanes.
    pub spare_supervisor: bool,
    /// Probability that the last switch of a path forwards a datagram twice. Duplication and
    /// the faults below affect only datagrams.
    pub duplication: f64,
    /// Probability that a datagram is delayed, so that later ones may overtake it.
    pub reordering: f64,
    /// The longest delay that reorders datagrams; delays are uniformly distributed from zero.
    pub reordering_delay: Duration,
    /// Probability that a datagram arrives with one wrong bit, as if UDP had no checksum.
    pub corruption: f64,
    /// Delays and processor time of the hosts' programs.
    pub hosts: HostModel,
}

impl Default for NetworkModel {
    /// Returns Gigabit Ethernet with a switch of shallow port buffers and the default hosts.
    fn default() -> Self {
        Self {
            link_rate: Rate::from_bits_per_second(1_000_000_000),
            host_rate: Rate::from_bits_per_second(1_000_000_000),
            links: BTreeMap::new(),
            trunks: Vec::new(),
            service: Service::default(),
            latency: Duration::from_micros(2),
            port_buffer: Bytes::kib(128),
            bucket: Bytes::ZERO,
            mtu: 1500,
            loss: 0.0,
            spare_supervisor: false,
            duplication: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::ZERO,
            corruption: 0.0,
            hosts: HostModel::default(),
        }
    }
}

impl NetworkModel {
    /// Returns the line rate of the port to a peer's host.
    pub fn port_rate(&self, peer: Peer) -> Rate {
        self.links.get(&peer).copied().unwrap_or(self.link_rate)
    }

    /// Returns the line rate at which a peer's host sends.
    pub fn uplink_rate(&self, peer: Peer) -> Rate {
        self.links.get(&peer).copied().unwrap_or(self.host_rate)
    }

    /// Returns the largest number of links between two hosts.
    pub(crate) fn longest_path(&self) -> u32 {
        let tree = Tree::new(&self.trunks);
        let switches = 0..tree.switches();
        let trunks = |path: Path| path.up.len() + path.down.len();
        let pairs = switches.clone().flat_map(|from| switches.clone().map(move |to| (from, to)));
        2 + pairs.map(|(from, to)| trunks(tree.path(from, to))).max().unwrap_or_default() as u32
    }
}
