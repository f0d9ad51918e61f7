//! [`RawFlows`]: streams of bytes over a network without evb, which TCP alone controls.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use evb_core::{
    id::Peer,
    rng::Rng,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::{
    hosts::{Delays, HostModel, ProcessorTime, Program},
    network::{EndIndex, HostIndex, Network, NetworkModel, NodeReport, Tree, peer_of},
};

/// Streams between hosts that send as much as TCP lets them, from programs that take no time. Each
/// stream begins at a random time within the first ten milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct RawFlows {
    /// Parameters of links and switches. The model of the hosts is not used.
    pub network: NetworkModel,
    /// Sender and receiver of each stream.
    pub flows: Vec<Flow>,
    /// Time before the measurement begins.
    pub warm_up: Duration,
    /// Time of the measurement.
    pub span: Duration,
    /// The seed of all random draws.
    pub seed: u64,
}

/// The two hosts of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The peer whose host sends.
    pub from: Peer,
    /// The peer whose host receives.
    pub to: Peer,
}

/// The result of [`RawFlows::run`].
#[derive(Clone, Debug, PartialEq)]
pub struct FlowsReport {
    /// Rate of the bytes that each stream carried.
    pub rates: Vec<Rate>,
    /// Number of segments sent again.
    pub retransmits: u64,
    /// Number of retransmission timeouts.
    pub timeouts: u64,
    /// The ports to builders, and both directions of each trunk.
    pub nodes: Vec<NodeReport>,
}

/// A stream under way.
#[derive(Debug)]
struct Stream {
    from: HostIndex,
    receiver: EndIndex,
    begins: Instant,
    is_running: bool,
    received: u64,
}

impl RawFlows {
    /// Simulates the streams for the given time.
    ///
    /// # Errors
    /// Returns a description of a contradiction in the network.
    pub fn run(&self) -> Result<FlowsReport, String> {
        Tree::check(&self.network.trunks)?;
        let free = HostModel::alike(Delays::NONE, ProcessorTime::default());
        let peers: BTreeSet<Peer> = self.flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
        let hosts: BTreeMap<Peer, HostIndex> = peers.iter().copied().zip(0..).collect();
        let programs: Vec<(Peer, Program)> = peers.iter().map(|peer| (*peer, free.source.clone())).collect();
        let model = NetworkModel { hosts: free, ..self.network.clone() };
        let mut network = Network::new(model, programs, self.seed);
        let mut rng = Rng::new(self.seed ^ 0x666c_6f77);
        let mut streams: Vec<Stream> = self
            .flows
            .iter()
            .map(|flow| {
                let (from, to) = (hosts[&flow.from], hosts[&flow.to]);
                let (_, receiver) = network.connect(from, to);
                let begins = Instant::from_nanos(rng.below(10_000_000));
                network.wake_at(from, begins);
                Stream { from, receiver, begins, is_running: false, received: 0 }
            })
            .collect();
        let from = Instant::ZERO + self.warm_up;
        advance(&mut network, &mut streams, from);
        let before: Vec<u64> = streams.iter().map(|stream| stream.received).collect();
        advance(&mut network, &mut streams, from + self.span);
        let rates = streams.iter().zip(before).map(|(stream, before)| {
            let bits = (stream.received - before) as f64 * 8.0 / self.span.as_secs_f64();
            Rate::from_bits_per_second(bits as u64)
        });
        let (retransmits, timeouts) = network.retransmits();
        Ok(FlowsReport { rates: rates.collect(), retransmits, timeouts, nodes: network.switches().reports() })
    }
}

/// Runs all programs until the given time. Receivers discard what arrives; senders always have more
/// bytes to send than may be under way.
fn advance(network: &mut Network, streams: &mut [Stream], until: Instant) {
    while network.now() < until {
        let Some(host) = network.advance() else { return };
        let now = network.now();
        for stream in streams.iter_mut() {
            if stream.from == host && !stream.is_running {
                if stream.begins <= now {
                    stream.is_running = true;
                    send(network, peer_of(stream.receiver), Bytes::mib(4).as_usize());
                } else {
                    // A host keeps only its earliest wake-up.
                    network.wake_at(host, stream.begins);
                }
            }
            if !network.is_at(stream.receiver, host) {
                continue;
            }
            let incoming = network.incoming(stream.receiver);
            let news = incoming.len();
            incoming.clear();
            stream.received += news as u64;
            if news > 0 {
                send(network, peer_of(stream.receiver), news);
            }
        }
    }
}

fn send(network: &mut Network, end: EndIndex, count: usize) {
    let outgoing = network.outgoing(end);
    let length = outgoing.len() + count;
    outgoing.resize(length, 0);
    network.flush(end);
}

#[cfg(test)]
mod tests;
